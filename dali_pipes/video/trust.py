"""Which videos DALI decodes: those of which it is known that it numbers their frames as we do."""

from typing import Literal, NamedTuple

from dali_pipes.video.codec import stored_size
from dali_pipes.video.colour import LUMA_WEIGHTS
from dali_pipes.video.headers import has_lengths, is_packed
from readers.video import VideoInfo
from readers.video.info import UNSPECIFIED_MATRIX

Backend = Literal["cpu", "mixed"]


class Limits(NamedTuple):
    """What a decoder takes of one codec.

    Attributes:
        pixel_formats: FFmpeg's names.
        smallest: Height and width.
        largest: Height and width.
    """

    pixel_formats: frozenset[str]
    smallest: tuple[int, int] = (1, 1)
    largest: tuple[int, int] = (1 << 14, 1 << 14)


_PLAIN = frozenset({"yuv420p", "yuvj420p"})
_DEEP = _PLAIN | {"yuv420p10le", "yuv420p12le"}

# NVIDIA's Video Codec SDK 13, NVDEC application note, and what cuvidGetDecoderCaps gives as the smallest.
# Motion JPEG is missing: damaged pictures are noticed by FFmpeg alone, and only where it is told to (codec.py).
# DALI takes NV12 from NVDEC, which has half as many rows and columns of colour, whatever the video has.
NVDEC = {
    "h264": Limits(_PLAIN, (16, 48), (4096, 4096)),
    "hevc": Limits(_DEEP, (144, 144), (8192, 8192)),
    "av1": Limits(_DEEP - {"yuv420p12le"}, (128, 128), (8192, 8192)),
    "vp9": Limits(_DEEP, (128, 128), (8192, 8192)),
    "vp8": Limits(_PLAIN, (16, 48), (4096, 4096)),
    "mpeg4": Limits(_PLAIN, (16, 48), (1024, 2032)),
}
LIBAVCODEC = {
    name: Limits(_PLAIN | {"yuv422p", "yuvj422p", "yuv444p", "yuvj444p"}) for name in ("vp8", "vp9")
}


def decodes(info: VideoInfo, backend: Backend) -> bool:
    """Whether DALI's decoder of a backend takes a video, as far as its headers tell."""
    limits = (NVDEC if backend == "mixed" else LIBAVCODEC).get(info.codec)
    if limits is None or info.pixel_format not in limits.pixel_formats:
        return False
    if len(info.packet_offsets) == 0 or info.damage or is_packed(info.codec, info.extradata):
        return False
    if info.matrix not in {*LUMA_WEIGHTS, UNSPECIFIED_MATRIX}:
        return False  # DALI makes colours by BT.601, which cannot be mended then
    size = stored_size(info)
    fits = all(
        low <= side <= high
        for low, side, high in zip(limits.smallest, size, limits.largest, strict=True)
    )
    if backend == "cpu":
        # It looks at the name of the pixel format alone.
        return fits and info.full_range == info.pixel_format.startswith("yuvj")
    even = size[0] % 2 == size[1] % 2 == 0
    lengths = info.codec not in ("h264", "hevc") or has_lengths(info.codec, info.extradata)
    return fits and even and lengths
