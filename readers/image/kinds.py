"""Recognise the format of a file by its first bytes: readable images, pictures of other formats, videos, and other files."""

import re
from typing import Literal, NamedTuple

HEAD_BYTES = 512
"""Number of first bytes that are needed: MPEG-TS repeats a byte every 188 or 192 bytes, and tar has its signature at byte 257."""
_PAGE = rb"(?i:(?:\xef\xbb\xbf)?\s*(?:<!--.{0,200}?-->\s*)?%s)"
"""Pattern of text that begins with a tag, possibly after a byte order mark and a comment."""
_CONVERT = "which is not read: convert it to JPEG, PNG or WebP"
"""Advice for pictures of formats that cannot be read."""


class ByteKind(NamedTuple):
    """The format of a file, as its first bytes tell it.

    Attributes:
        family: "image" for formats that this package reads; "picture" for image formats that it does not read; "video"; or
            "other".
        name: Name of the format: `readers.image.header.Header.format` for images, else a name for messages.
        advice: Advice to the user for files of the family "other"; else "".
    """

    family: Literal["image", "picture", "video", "other"]
    name: str
    advice: str = ""

    @property
    def reason(self) -> str:
        """The reason why the file is not read as an image, for the end of a sentence."""
        if self.family == "picture":
            return f"{self.name}, {_CONVERT}"
        if self.family == "video":
            return f"not an image but a video ({self.name})"
        return f"not an image but {self.name}: {self.advice}"


SIGNATURES = (
    (b"\xff\xd8", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"RIFF", "webp"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"II+\0", "tiff"),
    (b"MM\0+", "tiff"),
    (b"\x93NUMPY", "npy"),
    *((b"P%d" % digit, "ppm") for digit in range(1, 7)),
)
"""Pairs of first bytes and name of image formats that have a fixed signature. All RIFF files count as WebP here; its header is
checked later."""

_MP4 = ByteKind("video", "MP4 or MOV")
# ISO base media files begin with a box of brands (registered at mp4ra.org). These are those of images.
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), ByteKind("image", "avif")),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"), ByteKind("image", "heic")),
    **dict.fromkeys((b"mif1", b"mif2", b"mif3", b"msf1", b"miaf", b"MiHE", b"1pic", b"heif", b"unif"), ByteKind("picture", "HEIF")),
    **dict.fromkeys((b"jpeg", b"jpgs", b"avci", b"avcs", b"vvic", b"vvis"), ByteKind("picture", "HEIF")),
    b"crx ": ByteKind("picture", "a camera raw file (CR3)"),
}  # fmt: skip
# Major brands of video and sound. Such files may also list brands of images, as they may hold a cover.
_VIDEO_BRAND = re.compile(
    rb"iso[\dm]|mp\d\d|mmp4|qt  |M4[ABPV]|avc1|3g|f4|F4|dash|cm[f2]|MSNV|XAVC|msd"
)
_IMAGES = (
    ("jxl", rb"\x00\x00\x00\x0cJXL \r\n\x87\n|\xff\x0a"),
    ("jp2", rb"\x00\x00\x00\x0cjP  \r\n\x87\n(?!.{8}mj)|\xff\x4f\xff\x51"),
)  # fmt: skip
_PICTURES = (
    ("JPEG 2000 of an old kind", rb"\x00\x00\x00\x0cjP\x1a\x1a\r\n\x87\n"),
    ("JPEG-LS", rb"\xff\xd8\xff\xf7"),
    ("JPEG XR", rb"II\xbc"),
    ("an OS/2 bitmap array", rb"BA\x28\x00\x00\x00"),
    ("an icon (ICO)", rb"\x00\x00[\x01\x02]\x00[\x01-\xff]\x00"),
    ("Photoshop (PSD)", rb"8BPS\x00[\x01\x02]"),
    ("SVG", _PAGE % rb"(?:<\?xml.{0,300}?)?(?:<!DOCTYPE svg|<svg\b)"),
    ("PDF", rb"%PDF-"),
    ("PostScript", rb"%!PS|\xc5\xd0\xd3\xc6"),
    ("OpenEXR", rb"v/1\x01"),
    ("Radiance HDR", rb"#\?(?:RADIANCE|RGBE)"),
    ("FITS", rb"SIMPLE  ="),
    ("DICOM", rb".{128}DICM"),
    ("DDS", rb"DDS \x7c\x00"),
    ("QOI", rb"qoif"),
    ("PAM or PFM", rb"P7\n|P[Ff]\s"),
    ("XCF", rb"gimp xcf"),
    ("MNG or JNG", rb"\x8a[ME]NG\r\n\x1a\n|\x8bJNG\r\n\x1a\n"),
    ("a camera raw file (CR2)", rb"II\*\x00.{4}CR\x02\x00"),
    ("a camera raw file (CRW)", rb"II\x1a\x00\x00\x00HEAP"),
    ("a camera raw file (ORF)", rb"II(?:RO|RS)|MMOR"),
    ("a camera raw file (RAF)", rb"FUJIFILMCCD-RAW"),
    ("a camera raw file (RW2)", rb"IIU\x00"),
    ("a camera raw file (X3F)", rb"FOVb"),
)  # fmt: skip
# Containers of video, which may be named like images.
_VIDEOS = (
    ("Motion JPEG 2000", rb"\x00\x00\x00\x0cjP  \r\n\x87\n.{8}mj"),
    (_MP4.name, rb"[\x00-\x1f]...(?:moov|mdat|wide|free|skip)"),
    ("Matroska or WebM", rb"\x1aE\xdf\xa3"),
    ("AVI", rb"RIFF....AVI "),
    ("Ogg", rb"OggS"),
    ("FLV", rb"FLV\x01"),
    ("MPEG", rb"\x00\x00\x01[\xb3\xba]|G.{187}G|.{4}G.{191}G"),
    ("WMV", rb"0&\xb2u"),
)
_OTHERS = (
    ("a pointer of Git LFS", "run git lfs pull", rb"version https://git-lfs"),
    ("a pointer of git-annex", "run git annex get", rb"/annex/objects/|(?:\.\./)*\.git/annex/"),
    ("a web page (HTML)", "it may be the message of a server, download the image again", _PAGE % rb"<(?:!DOCTYPE html|html|head|body|title)\b"),
    ("XML", "it may be the message of a server, download the image again", _PAGE % rb"(?:<\?xml|<Error>)"),
    ("sound (WAV)", "leave it out", rb"RIFF....WAVE"),
    ("gzip", "decompress it", rb"\x1f\x8b"),
    ("bzip2", "decompress it", rb"BZh[1-9]"),
    ("xz", "decompress it", rb"\xfd7zXZ\x00"),
    ("zstd", "decompress it", rb"\x28\xb5\x2f\xfd"),
    ("a ZIP archive", "unpack it", rb"PK\x03\x04"),
    ("a tar archive", "unpack it, or open it as a dataset", rb".{257}ustar"),
)  # fmt: skip
_KINDS = (
    *((re.compile(form, re.DOTALL), ByteKind("image", name)) for name, form in _IMAGES),
    *((re.compile(form, re.DOTALL), ByteKind("picture", name)) for name, form in _PICTURES),
    *((re.compile(form, re.DOTALL), ByteKind("video", name)) for name, form in _VIDEOS),
    *((re.compile(form, re.DOTALL), ByteKind("other", name, do)) for name, do, form in _OTHERS),
)


def kind_of(data: bytes | memoryview) -> ByteKind | None:
    """Return the format of a file by its first bytes; None if it is unknown.

    Args:
        data: The bytes of the file, or its first 512 bytes.
    """
    head = bytes(data[:HEAD_BYTES])
    if head[4:8] == b"ftyp":
        return _kind_by_brands(head)
    found = next((kind for form, kind in _KINDS if form.match(head)), None)
    if found is not None:
        return found
    for signature, name in SIGNATURES:
        if head.startswith(signature) and (name != "webp" or head[8:12] == b"WEBP"):
            return ByteKind("image", name)
    return None


def _kind_by_brands(head: bytes) -> ByteKind:
    """Return the kind of a file that begins with a box of brands: by the major one if it is of video, else by all."""
    end = min(int.from_bytes(head[:4], "big"), len(head))
    major, *others = (head[at : at + 4] for at in (8, *range(16, end, 4)))
    if _VIDEO_BRAND.match(major):
        return _MP4
    kinds = (_BRANDS[brand] for brand in (major, *others) if brand in _BRANDS)
    # Of the brands of images, only some name the codec: these decide.
    return min(kinds, key=lambda kind: kind.family != "image", default=_MP4)


def not_image(data: bytes | memoryview) -> str:
    """Return the reason why a file is not an image, given its bytes, for a file that was not recognised as an image."""
    if not len(data):
        return "empty"
    kind = kind_of(data)
    if kind is None or kind.family == "image":
        return f"not an image: starts with {bytes(data[:8])!r}"
    return kind.reason


def not_video(data: bytes | memoryview) -> str:
    """Return the reason why a file that is named like a video is not one, if its bytes are those of an image; else "".

    A GIF, which may be animated, also gives "".
    """
    kind = kind_of(data)
    if kind is None or kind.family not in ("image", "picture") or kind.name == "gif":
        return ""
    return f"an image ({kind.name}) that is named like a video: name it by what it is"
