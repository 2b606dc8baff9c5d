"""AVIF, HEIC, JPEG XL and JPEG 2000: the pixels of other decoders, and one bad sample for everything else."""

import io
import struct
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import imagecodecs
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from dali_pipes import DecodeError, ImageOptions, Loader, LoaderError
from dali_pipes.decode import opencv
from dali_pipes.decode.stored import decode_stored, read_numbers
from dali_pipes.stages.encoded_image import image_of
from gpu_aug import CenterCrop, ImageKind, Recipe
from readers import BadSample, Sample, open_dataset, read_header
from tests.support.boxed_images import FORMATS, SIZE, damaged, encode, heic, smooth, turned
from tests.support.kinds import by_pillow, write_tar

SMOOTH = 6
"""Largest difference between two decoders of a lossy file of gradients, in units of 255: they round colours differently."""
EXACT = [
    (name, channels, bits)
    for name in ("avif", "jxl", "jp2")
    for channels in (1, 3, 4)
    for bits in (8, 10, 12, 16)
    if bits <= 12 or name != "avif"
]


def rgb(data: bytes) -> NDArray[np.uint8]:
    header = read_header(data)
    return opencv.decode(data, (header.height, header.width))


def stored(data: bytes, channels: int, depth: Any) -> NDArray[Any]:
    header = read_header(data)
    return decode_stored(data, (header.height, header.width), ImageKind(channels, depth))


def difference(one: NDArray[Any], other: NDArray[Any]) -> int:
    assert one.shape == other.shape
    return int(np.abs(one.astype(int) - other).max())


def by_ffmpeg(data: bytes) -> NDArray[np.uint8]:
    """RGB of the first image, which FFmpeg neither turns nor crops."""
    with av.open(io.BytesIO(data)) as file:
        return next(file.decode(video=0)).to_ndarray(format="rgb24")


@pytest.mark.parametrize(("name", "channels", "bits"), EXACT)
def test_stored_numbers_are_those_that_were_written(name: str, channels: int, bits: int) -> None:
    """Without loss, as numbers and in [0, 1]."""
    pixels = smooth(channels, bits)
    data = encode(name, pixels, bits)
    wanted = pixels.reshape(*pixels.shape[:2], channels)

    assert np.array_equal(read_numbers(data, channels), wanted)
    if bits == 8:
        assert np.array_equal(stored(data, channels, 8), wanted)
    else:
        values = wanted.astype(np.float32) / np.float32((1 << bits) - 1)
        assert np.array_equal(stored(data, channels, 16), values)


@pytest.mark.parametrize(("name", "channels", "bits"), EXACT)
@pytest.mark.filterwarnings("ignore:.*said once")
def test_rgb_of_8_bits_takes_the_upper_bits(name: str, channels: int, bits: int) -> None:
    """Gray is repeated, alpha left out."""
    pixels = smooth(channels, bits)
    colours = pixels[..., :3] if channels > 1 else np.stack([pixels] * 3, axis=-1)

    assert np.array_equal(rgb(encode(name, pixels, bits)), colours >> (bits - 8))


@pytest.mark.parametrize(("channels", "bits"), [(1, 8), (3, 8), (4, 8), (1, 10), (3, 10), (3, 12)])
def test_heic_is_what_was_written(channels: int, bits: int) -> None:
    """Within the loss of its conversion to YCbCr; a shift by one pixel is seen."""
    pixels = smooth(channels, bits)
    decoded = read_numbers(heic(pixels, bits), channels)
    wanted = pixels.reshape(decoded.shape)

    assert difference(decoded, wanted) <= 4 << (bits - 8)
    assert difference(np.roll(decoded, 1, axis=1)[:, 1:], wanted[:, 1:]) > 4 << (bits - 8)


def lossy(name: str) -> bytes:
    image = Image.fromarray(smooth(3, size=(64, 96)))
    if name == "heic":
        return heic(np.asarray(image), quality=80, chroma=420)
    options = {"avif": {"quality": 80}, "jp2": {"quality_mode": "dB", "quality_layers": [45]}}
    return by_pillow({"avif": "AVIF", "jp2": "JPEG2000"}[name], image, **options[name])


@pytest.mark.parametrize("name", ["avif", "heic", "jp2"])
def test_pixels_of_ffmpeg(name: str) -> None:
    """dav1d, and FFmpeg's own decoders of HEVC and JPEG 2000; the mirrored image is told apart."""
    data = lossy(name)
    decoded, other = rgb(data), by_ffmpeg(data)
    other = other[
        : decoded.shape[0], : decoded.shape[1]
    ]  # the coded size of a HEIC is a multiple of 8 or more

    assert difference(decoded, other) <= SMOOTH
    assert difference(decoded[:, ::-1], other) > 10 * SMOOTH


def test_pixels_of_a_jpeg_in_jpeg_xl() -> None:
    """Of a JPEG that libjxl packed without loss, as Pillow decodes the JPEG."""
    jpeg = by_pillow("JPEG", Image.fromarray(smooth(3, size=(64, 96))), quality=80)
    decoded = rgb(bytes(imagecodecs.jpegxl_encode_jpeg(jpeg)))
    with Image.open(io.BytesIO(jpeg)) as opened:
        other = np.asarray(opened)

    assert difference(decoded, other) <= SMOOTH
    assert difference(decoded[:, ::-1], other) > 10 * SMOOTH


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["avif", "heic", "jxl"])
def test_images_are_upright(name: str, orientation: int) -> None:
    """As OpenCV turns a PNG of that EXIF orientation; the images of all other orientations are different."""
    pixels, exif = smooth(3), Image.Exif()
    exif[274] = orientation
    png = by_pillow("PNG", Image.fromarray(pixels), exif=exif)
    wanted = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR_RGB)
    decoded = rgb(turned(name, pixels, orientation))

    assert difference(decoded, wanted) <= SMOOTH
    assert difference(decoded[::-1, ::-1], wanted) > 10 * SMOOTH
    assert np.array_equal(stored(turned(name, pixels, orientation), 3, 8), decoded)


@pytest.mark.parametrize("name", ["avif", "jxl"])
def test_the_first_frame_of_an_animation(name: str) -> None:
    frames = np.stack([smooth(3), 255 - smooth(3)])
    images = [Image.fromarray(frame) for frame in frames]
    options = {"save_all": True, "append_images": images[1:], "quality": 100}
    avif = by_pillow("AVIF", images[0], subsampling="4:4:4", **options)
    data = avif if name == "avif" else bytes(imagecodecs.jpegxl_encode(frames, lossless=True))

    assert difference(rgb(data), frames[0]) <= SMOOTH


@pytest.mark.parametrize("has_imagecodecs", [True, False])
@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize("brand", [b"avis", b"avif", b"msf1", b"mif1", b"MA1A"])
def test_an_animated_avif_gives_one_frame_with_all_bits(
    brand: bytes, bits: int, has_imagecodecs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under each major brand; imagecodecs alone decodes all frames of most, and Pillow reads some of them only."""
    first = smooth(3, bits)
    frames = np.stack([first, first[::-1], first[:, ::-1]])
    data = bytes(imagecodecs.avif_encode(frames, level=100, speed=8, bitspersample=bits))
    data = data[:8] + brand + data[12:]
    if not has_imagecodecs:
        monkeypatch.setitem(sys.modules, "imagecodecs", None)

    if bits == 10 and not has_imagecodecs:
        with pytest.raises(DecodeError, match="avif of 10 bits needs the package imagecodecs"):
            read_numbers(data, 3)
    else:
        assert np.array_equal(read_numbers(data, 3), first)


@pytest.mark.parametrize(
    ("name", "box", "reason"),
    [
        ("avif", b"infe", "avif: cannot identify image file"),
        ("jp2", b"ihdr", "jp2: cannot identify image file"),
        ("heic", b"hvcC", "heic: truncated or damaged"),
    ],
)
def test_reasons_are_the_same_in_each_run(
    name: str, box: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the address of an object, as in the texts of Pillow, or an error inside of a library."""
    data = encode(name, smooth(3))
    assert box in data
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    with pytest.raises(DecodeError) as caught:
        rgb(data.replace(box, b"free"))

    assert str(caught.value) == reason


def test_floats_of_jpeg_xl_keep_their_values() -> None:
    """They need depth="float32"; RGB of 8 bits names it."""
    pixels = (smooth(3) / np.float32(255)).astype(np.float32)
    data = bytes(imagecodecs.jpegxl_encode(pixels, lossless=True))

    assert np.array_equal(stored(data, 3, "float32"), pixels)
    with pytest.raises(DecodeError, match='depth="float32"'), pytest.warns(match="32 bits"):
        rgb(data)


@pytest.mark.parametrize(("subsampling", "channels"), [("4:2:0", 3), ("4:2:2", 4), ("4:0:0", 3)])
@pytest.mark.filterwarnings("ignore:.*said once")
def test_pillow_gives_the_same_pixels_of_avif(
    subsampling: str, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where imagecodecs is not installed."""
    image = Image.fromarray(smooth(channels, size=(63, 95)))
    data = by_pillow("AVIF", image, subsampling=subsampling, quality=60)
    with_imagecodecs = rgb(data)
    monkeypatch.setitem(sys.modules, "imagecodecs", None)

    assert np.array_equal(rgb(data), with_imagecodecs)


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv444p", "rgb24"])
def test_pillow_gives_the_same_pixels_of_jpeg_2000(
    pixel_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 1 for YCbCr."""
    codec = av.CodecContext.create("jpeg2000", "w")
    codec.width, codec.height, codec.pix_fmt, codec.time_base = (
        96,
        64,
        pixel_format,
        Fraction(1, 25),
    )
    codec.options = {"format": "jp2"}
    frame = av.VideoFrame.from_ndarray(smooth(3, size=(64, 96)), format="rgb24")
    frame = frame.reformat(format=pixel_format)
    frame.pts = 0
    data = b"".join(bytes(packet) for packet in [*codec.encode(frame), *codec.encode(None)])
    with_imagecodecs = rgb(data)
    monkeypatch.setitem(sys.modules, "imagecodecs", None)

    assert difference(rgb(data), with_imagecodecs) <= (pixel_format != "rgb24")


@pytest.mark.parametrize(
    ("name", "bits", "wanted"),
    [
        (
            "avif",
            10,
            "avif of 10 bits needs the package imagecodecs: pip install 'gpu-aug[images]'",
        ),
        ("jp2", 16, "jp2 of 16 bits needs the package imagecodecs: pip install 'gpu-aug[images]'"),
        ("jxl", 8, "jxl of 8 bits needs the package imagecodecs: pip install 'gpu-aug[images]'"),
        ("heic", 8, "heic of 8 bits needs the package pillow-heif: pip install 'gpu-aug[heic]'"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*said once")
def test_a_missing_library_is_named(
    name: str, bits: int, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encode(name, smooth(3, bits), bits)
    for module in ("imagecodecs", "pillow_heif"):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(DecodeError) as caught:
        rgb(data)
    assert str(caught.value) == wanted


@pytest.mark.parametrize("name", FORMATS)
def test_other_channels_are_refused(name: str) -> None:
    with pytest.raises(DecodeError, match="channels=3 of uint8, but channels=1"):
        stored(encode(name, smooth(3)), 1, 8)


@pytest.mark.parametrize("decoder", ["cpu", "dali"])
def test_a_loader_reads_a_folder_of_all_kinds(decoder: Any, tmp_path: Path) -> None:
    """With endings of both cases, the same pixels with each decoder, and one bad sample for a damaged file."""
    endings = {
        "avif": ["avif", "AVIF"],
        "heic": ["heic", "HEIF", "hif"],
        "jxl": ["jxl"],
        "jp2": ["JP2", "j2k", "jpx", "j2c"],
    }
    for name, some in endings.items():
        for ending in some:
            (tmp_path / "cat").mkdir(exist_ok=True)
            (tmp_path / "cat" / f"{name}.{ending}").write_bytes(encode(name, smooth(3)))
    (tmp_path / "cat" / "z.jxl").write_bytes(encode("jxl", smooth(3))[:-40])
    loader = Loader(
        open_dataset(tmp_path),
        Recipe([CenterCrop(SIZE)]),
        batch_size=11,
        device="cpu",
        decoder=decoder,
        dtype=torch.uint8,
        shuffle="none",
        on_bad_sample="skip",
    )
    batch = next(iter(loader))
    names = [key.rpartition("/")[2] for key in batch.keys]
    shown = batch.images.permute(0, 2, 3, 1).numpy()

    assert len(names) == 10
    for name, pixels in zip(names, shown, strict=True):
        loss = 4 if name.startswith("heic") else 0
        assert difference(pixels, smooth(3)) <= loss
    assert [bad.reason for bad in loader.bad_samples] == [
        "jxl: JpegxlError: JxlDecoderProcessInput returned JXL_DEC_NEED_MORE_INPUT"
    ]


def test_a_loader_gives_all_bits_of_10(tmp_path: Path) -> None:
    """In [0, 1], of several kinds in one batch."""
    names = ("avif", "heic", "jp2", "jxl")
    pixels = smooth(3, 10)
    samples = [{name: encode(name, pixels, 10)} for name in names]
    loader = Loader(
        open_dataset(write_tar(tmp_path / "a.tar", samples)),
        Recipe([CenterCrop(SIZE)]),
        batch_size=len(names),
        device="cpu",
        shuffle="none",
        images=ImageOptions(channels=3, depth=16),
    )
    shown = next(iter(loader)).images.permute(0, 2, 3, 1).numpy()

    for name, image in zip(names, shown, strict=True):
        loss = 8 / 1023 if name == "heic" else 1e-6
        assert np.abs(image - pixels / 1023).max() <= loss
    assert np.abs(shown[0] - (pixels >> 2) / 255).max() > 1e-3


@pytest.mark.parametrize("name", ["avif", "heic"])
def test_images_that_are_named_like_videos_are_named(name: str, tmp_path: Path) -> None:
    """A Loader does not ask for clips of them; videos under the same names are videos."""
    images = open_dataset(write_tar(tmp_path / "a.tar", [{"mp4": encode(name, smooth(3))}]))
    wanted = rf"holds an image \({name}\) that is named like a video: name it by what it is \(the field mp4 of a.tar/"
    with pytest.raises(LoaderError, match=wanted):
        Loader(images, Recipe([CenterCrop(SIZE)]), batch_size=1, device="cpu")

    mp4 = b"\0\0\0\x18ftypisom\0\0\0\0heicavif" + bytes(50)
    videos = open_dataset(write_tar(tmp_path / "b.tar", [{"mp4": mp4}]))
    with pytest.raises(LoaderError, match="holds videos; videos need Clips"):
        Loader(videos, Recipe([CenterCrop(SIZE)]), batch_size=1, device="cpu")


def bomb(name: str) -> bytes:
    """A file of 24x40 pixels whose header says 60,000x60,000."""
    data = encode(name, smooth(3))
    if name == "jxl":  # no blocks of 8; height - 1 in 30 bits; as wide as high; no further values
        return b"\xff\x0a" + (3 << 1 | 59_999 << 3 | 1 << 33 | 1 << 36).to_bytes(5, "little")
    sides = struct.pack(">II", 60_000, 60_000)
    if name == "jp2":
        at = data.index(b"\xff\x4f\xff\x51") + 8
        return data[:at] + sides + data[at + 8 :]
    data = data.replace(b"clap", b"free")
    at = data.index(b"ispe") + 8
    return data[:at] + sides + data[at + 8 :]


@pytest.mark.parametrize("name", FORMATS)
def test_a_header_of_too_many_pixels_is_refused_before_decoding(name: str) -> None:
    found = image_of(Sample(0, "a", {name: bomb(name)}), max_pixels=10**8, of_clips=False)

    assert isinstance(found, BadSample)
    assert found.reason == "60000x60000 pixels, more than max_pixels=100000000"


@pytest.mark.parametrize("name", FORMATS)
def test_another_size_than_the_header_s_is_refused(name: str) -> None:
    with pytest.raises(DecodeError, match="decodes to 24x40, but its header says 24x41"):
        opencv.decode(encode(name, smooth(3)), (24, 41))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.filterwarnings("ignore:.*said once")
def test_damaged_files_cost_one_sample_each(name: str) -> None:
    """500 damaged copies of small files are decoded, or are refused with a reason; no process ends, and none is silent."""
    seeds = [encode(name, smooth(3))]
    seeds += [lossy(name)] if name == "jp2" else [turned(name, smooth(3), 6)]
    seeds += [] if name == "heic" else [encode(name, smooth(4, 10), 10)]
    outcomes = Counter[str]()
    for number, seed in enumerate(seeds):
        for data in damaged(seed, 500 // len(seeds) + 1, number):
            sample = Sample(0, "a", {"jpg": data})
            found = image_of(sample, max_pixels=1 << 20, of_clips=False)
            if isinstance(found, BadSample):
                assert found.reason
                outcomes["header"] += 1
                continue
            try:
                assert opencv.decode(*found).shape == (*found[1], 3)
                outcomes["decoded"] += 1
            except DecodeError:
                outcomes["decode"] += 1

    assert outcomes.total() >= 500
    assert min(outcomes[one] for one in ("header", "decode")) > 10
