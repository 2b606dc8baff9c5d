"""Decoding and resampling, with DALI and without it, against Pillow and torchvision."""

import csv
import io
import struct
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
import torch
import torchvision.transforms.v2.functional as tv
from numpy.typing import NDArray
from PIL import Image, ImageOps

from dali_pipes import DecodeError
from dali_pipes.decode import opencv
from dali_pipes.decode.dali import graph
from dali_pipes.decode.dali.trust import read_sizes
from gpu_aug import Crops
from gpu_aug.resampling.crop_and_resize import resample
from readers import HeaderError, read_header


def pillow(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as opened:
        return np.array(ImageOps.exif_transpose(opened).convert("RGB"))


def window(
    start: tuple[int, int], shape: tuple[int, int], size: tuple[int, int], *, antialias: bool = True
) -> Crops:
    rows = [np.array([pair], np.int32) for pair in (start, shape, size, (0, 0), size)]
    return Crops(*rows, antialias=antialias)


def resampled(picture: np.ndarray, crops: Crops) -> torch.Tensor:
    out = torch.empty((*crops.canvas[0].tolist(), 3), dtype=torch.uint8)
    resample(torch.from_numpy(picture), crops, 0, out)
    return out


def run_graph(data: bytes, crops: Crops) -> np.ndarray:
    """Run the graph body on DALI's CPU backend, as the GPU would run it."""
    from nvidia.dali import Pipeline, fn

    pipeline = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipeline:
        start, shape, resize_to, paste, canvas = (
            fn.constant(idata=getattr(crops, name)[0].tolist(), shape=[2])
            for name in ("start", "shape", "resize", "paste", "canvas")
        )
        encoded = fn.external_source(source=[[np.frombuffer(data, np.uint8)]], cycle=True)
        decoded = graph.decode(encoded, start, shape, device="cpu", hw_decoder_load=1.0)
        corner = fn.constant(idata=[0, 0], shape=[2])  # the window is all that is decoded
        pipeline.set_outputs(
            graph.render_canvas(
                decoded, corner, shape, resize_to, paste, canvas, antialias=crops.antialias
            )
        )
    return np.asarray(pipeline.run()[0][0])


def test_decode_of_photographs_equals_pillow(photos: list[Path]) -> None:
    """Photographs decode to Pillow's pixels, bit for bit."""
    for path in photos:
        expected = pillow(path.read_bytes())
        assert np.array_equal(expected, opencv.decode(path.read_bytes(), expected.shape[:2]))


def test_decode_with_pillow_where_opencv_is_old(
    photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without OpenCV 5 Pillow decodes, to the same pixels, and refuses a truncated file, too."""
    data = photos[0].read_bytes()
    size = pillow(data).shape[:2]
    with_opencv = opencv.decode(data, size)
    monkeypatch.setattr(opencv, "opencv_for", lambda _: None)

    assert np.array_equal(with_opencv, opencv.decode(data, size))
    with pytest.raises(DecodeError, match=r"Pillow: .*truncated"):
        opencv.decode(data[: len(data) // 2], size)


@pytest.mark.parametrize(
    ("version", "kinds"),
    [
        ("4.9.0", set()),
        ("4.10.0", {"png", "bmp", "ppm"}),
        ("4.11.0", {"png", "bmp", "ppm", "jpeg", "webp"}),
        ("4.12.0-dev", {"png", "bmp", "ppm", "jpeg", "webp", "gif"}),
        ("5.0.0", {"png", "bmp", "ppm", "jpeg", "webp", "gif"}),
    ],
)
def test_opencv_decodes_what_it_decodes_as_opencv_5_does(
    version: str, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything else is left to Pillow, or refused."""
    monkeypatch.setattr(cv2, "__version__", version)
    find = opencv.opencv_for.__wrapped__  # without its cache

    assert {kind for kind in ("png", "bmp", "ppm", "jpeg", "webp", "gif") if find(kind)} == kinds


@pytest.mark.filterwarnings("ignore:.* alpha channel")
def test_opencv_4_10_decodes_to_the_same_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no flag for RGB, so Pillow decodes."""
    images = {name: make() for name, make in OPAQUE.items() if name != "tiff"}
    images["png of a palette in degrees"] = TRANSPARENT["png of a palette in degrees"]()
    usual = {name: opencv.decode(data, (24, 40)) for name, data in images.items()}
    monkeypatch.setattr(cv2, "__version__", "4.10.0")
    monkeypatch.delattr(cv2, "IMREAD_COLOR_RGB", raising=False)
    monkeypatch.setattr(opencv, "opencv_for", opencv.opencv_for.__wrapped__)
    calls: list[int] = []
    monkeypatch.setattr(cv2, "imdecode", lambda *_: calls.append(1))

    for name, data in images.items():
        np.testing.assert_array_equal(opencv.decode(data, (24, 40)), usual[name], err_msg=name)
    assert calls == []


def test_decode_refuses_another_size(jpeg: Callable[..., bytes]) -> None:
    """A picture that is not as large as its header promised is an error, not a surprise later."""
    with pytest.raises(DecodeError, match="decodes to 20x30, but its header says 30x20"):
        opencv.decode(jpeg(20, 30), (30, 20))


@pytest.mark.filterwarnings("ignore:.*said once")
def test_odd_files_get_the_listed_verdict(shared_data: Path) -> None:
    """Header check and decode accept exactly the odd files that can be decoded, at the listed size."""
    rows = list(csv.DictReader((shared_data / "odd" / "MANIFEST.csv").read_text().splitlines()))
    verdicts, expected = {}, {}
    for row in rows:
        data = (shared_data / "odd" / row["file"]).read_bytes()
        try:
            header = read_header(data)
            if header.height * header.width > 100_000_000:
                raise DecodeError("too large")
            verdicts[row["file"]] = opencv.decode(data, (header.height, header.width)).shape[:2]
        except (DecodeError, HeaderError):
            verdicts[row["file"]] = None
        decodes = row["expected"] == "decodes"
        expected[row["file"]] = (int(row["height"]), int(row["width"])) if decodes else None
    # Complete but for its end marker: OpenCV, Pillow and nvImageCodec all refuse it.
    expected["no_end_marker.jpg"] = None
    assert verdicts == expected
    assert len(rows) > 50


@pytest.mark.parametrize("size", [(224, 224), (64, 300), (700, 500)])
def test_resample_equals_torchvision(photos: list[Path], size: tuple[int, int]) -> None:
    """The cut and resize are torchvision's resized_crop, bit for bit; without antialiasing they are not."""
    picture = pillow(photos[0].read_bytes())
    start, shape = (11, 23), (picture.shape[0] - 40, picture.shape[1] - 61)
    planar = torch.from_numpy(picture).permute(2, 0, 1)
    expected = tv.resized_crop(planar, *start, *shape, list(size), antialias=True).permute(1, 2, 0)

    assert torch.equal(expected, resampled(picture, window(start, shape, size)))
    if size == (224, 224):
        aliased = resampled(picture, window(start, shape, size, antialias=False))
        assert not torch.equal(expected, aliased)


def test_paste_pads_and_cuts() -> None:
    """A positive corner leaves a border of zeros, a negative one cuts, as torchvision's center_crop does."""
    picture = np.random.default_rng(0).integers(1, 256, (20, 50, 3), dtype=np.uint8)
    size = np.array([[20, 50]], np.int32)
    crops = Crops(
        np.zeros((1, 2), np.int32),
        size,
        size,
        np.array([[6, -9]], np.int32),
        canvas=np.array([[32, 32]], np.int32),
    )
    planar = torch.from_numpy(picture).permute(2, 0, 1)

    assert torch.equal(tv.center_crop(planar, [32, 32]).permute(1, 2, 0), resampled(picture, crops))


@pytest.mark.parametrize("corner", [(40, 0), (0, 33), (-25, 0), (0, -60), (99, -99), (-20, 32)])
def test_paste_beside_the_canvas(corner: tuple[int, int]) -> None:
    """A picture that lands wholly beside the canvas leaves it black."""
    picture = np.full((20, 50, 3), 200, np.uint8)
    size = np.array([[20, 50]], np.int32)
    canvas = np.array([[32, 32]], np.int32)
    crops = Crops(np.zeros((1, 2), np.int32), size, size, np.array([corner], np.int32), canvas)
    assert not resampled(picture, crops).any()


@pytest.mark.needs_dali
def test_dali_paste_equals_ours(photos: list[Path]) -> None:
    """The graph cuts and pads on the canvas as the path without DALI does."""
    data = photos[0].read_bytes()
    shape = np.array([[64, 80]], np.int32)
    corner = np.array([[-5, 9]], np.int32)
    canvas = np.array([[50, 100]], np.int32)
    crops = Crops(np.zeros((1, 2), np.int32), shape, shape, corner, canvas)

    actual = run_graph(data, crops)
    assert np.array_equal(resampled(pillow(data), crops).numpy(), actual)


def test_placeholder_is_a_common_jpeg() -> None:
    """The bytes that stand in for a bad sample are a picture of 64x64 pixels as cameras make them: gray here, 4:2:0."""
    with Image.open(io.BytesIO(graph.placeholder().tobytes())) as image:
        sampling = [layer[1:3] for layer in image.layer]  # type: ignore[attr-defined]
        assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (64, 64))
        assert "progressive" not in image.info
        assert len(np.unique(np.asarray(image).reshape(-1, 3), axis=0)) == 1
    assert sampling == [(2, 2), (1, 1), (1, 1)]


RNG = np.random.default_rng(0)


RGB = RNG.integers(0, 256, (24, 40, 3), dtype=np.uint8)


ALPHA = RNG.integers(0, 256, (24, 40, 1), dtype=np.uint8)


ALPHA[:, :20] = 0


RGBA = np.concatenate([RGB, ALPHA], axis=2)


GRAY_ALPHA = np.ascontiguousarray(RGBA[..., 2:])


def saved(array: NDArray[np.uint8], kind: str, *, colors: int = 0, **options: object) -> bytes:
    stream = io.BytesIO()
    image = Image.fromarray(array)
    (image.quantize(colors) if colors else image).save(stream, kind, **options)
    return stream.getvalue()


def animated(kind: str, **options: object) -> bytes:
    others = [Image.fromarray(255 - RGBA)]
    return saved(RGBA, kind, save_all=True, append_images=others, **options)


def written(array: NDArray[np.generic], **options: object) -> bytes:
    stream = io.BytesIO()
    tifffile.imwrite(stream, array, **options)
    return stream.getvalue()


def small_frame() -> bytes:
    """A GIF whose canvas is larger than its frame."""
    data = bytearray(saved(RGB, "GIF", colors=16))
    data[6:10] = struct.pack("<HH", 50, 30)
    return bytes(data)


TRANSPARENT: dict[str, Callable[[], bytes]] = {
    "png of a palette": lambda: saved(RGB, "PNG", colors=16, transparency=3),
    "png of a palette in degrees": lambda: saved(
        RGB, "PNG", colors=16, transparency=bytes(range(16))
    ),
    "png": lambda: saved(RGBA, "PNG"),
    "png in gray": lambda: saved(GRAY_ALPHA, "PNG"),
    "png with one transparent gray": lambda: saved(RGB[..., 0], "PNG", transparency=7),
    "png with one transparent colour": lambda: saved(
        RGB, "PNG", transparency=tuple(RGB[0, 0].tolist())
    ),
    "png of 16 bits": lambda: cv2.imencode(".png", RGBA.astype(np.uint16) * 257)[1].tobytes(),
    "animated png": lambda: animated("PNG"),
    "gif": lambda: saved(RGB, "GIF", colors=16, transparency=3),
    "gif with a background": lambda: saved(RGB, "GIF", colors=16, transparency=3, background=5),
    "animated gif": lambda: animated("GIF"),
    "gif with a small frame": small_frame,
    "webp": lambda: saved(RGBA, "WEBP", lossless=True, exact=True),
    "animated webp": lambda: animated("WEBP", lossless=True, exact=True),
    "tiff": lambda: written(RGBA, photometric="rgb", extrasamples=["unassalpha"]),
    "tiff of 16 bits": lambda: written(
        RGBA.astype(np.uint16) * 257, photometric="rgb", extrasamples=["unassalpha"]
    ),
    "tiff with colours times alpha": lambda: written(
        RGBA, photometric="rgb", extrasamples=["assocalpha"]
    ),
    "tiff in gray": lambda: written(
        GRAY_ALPHA, photometric="minisblack", extrasamples=["unassalpha"]
    ),
    "bmp": lambda: cv2.imencode(".bmp", RGBA)[1].tobytes(),
}


OPAQUE: dict[str, Callable[[], bytes]] = {
    "png": lambda: saved(RGB, "PNG"),
    "png of a palette": lambda: saved(RGB, "PNG", colors=16),
    "gif": lambda: saved(RGB, "GIF", colors=16),
    "webp": lambda: saved(RGB, "WEBP", lossless=True),
    "tiff": lambda: written(RGB, photometric="rgb"),
    "bmp": lambda: saved(RGB, "BMP"),
}


@pytest.mark.filterwarnings("ignore:.* alpha channel", "ignore:.* bits per channel")
@pytest.mark.parametrize(
    ("make", "has_alpha"),
    [
        *((make, True) for make in TRANSPARENT.values()),
        *((make, False) for make in OPAQUE.values()),
    ],
    ids=[*TRANSPARENT, *(f"opaque {name}" for name in OPAQUE)],
)
def test_transparent_pixels_have_their_stored_colour(
    make: Callable[[], bytes], has_alpha: bool
) -> None:
    """In all formats alike, and the header says that there are some."""
    data = make()
    header = read_header(data)
    with Image.open(io.BytesIO(data)) as opened:
        opened.info.pop(
            "transparency", None
        )  # Pillow warns of that in a palette, whose colours stay
        wanted = np.asarray(opened.convert("RGB"))

    assert header.has_alpha == has_alpha
    np.testing.assert_array_equal(opencv.decode(data, (header.height, header.width)), wanted)


def exif(orientation: int, kind: int, order: str) -> bytes:
    """An EXIF block whose orientation is of a type: 1 BYTE, 3 SHORT, 4 LONG, 8 and 9 with a sign, 13 IFD."""
    value = {1: "B3x", 3: "H2x", 4: "I", 6: "b3x", 8: "h2x", 9: "i", 13: "I"}[kind]
    entry = struct.pack(f"{order}HHI{value}", 274, kind, 1, orientation)
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(f"{order}IH", 8, 1) + entry + bytes(4)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 3, 4, 6, 8, 9, 13])
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("decoder", ["opencv", "pillow"])
def test_orientations_of_any_type(
    form: str,
    kind: int,
    order: str,
    orientation: int,
    decoder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The picture is turned as Pillow turns it where the type is the usual one, by either decoder."""
    if decoder == "pillow":
        monkeypatch.setattr(opencv, "opencv_for", lambda _: None)
    mark = b"Exif\0\0" if form == "JPEG" else b""
    data, usual = (saved(RGB, form, exif=mark + exif(orientation, one, order)) for one in (kind, 3))
    header = read_header(data)
    with Image.open(io.BytesIO(usual)) as opened:
        wanted = np.asarray(ImageOps.exif_transpose(opened)).astype(int)
    decoded = opencv.decode(data, (header.height, header.width))

    assert header.orientation == orientation
    assert np.abs(decoded - wanted).max() <= (2 if form == "JPEG" else 0)  # it has two decoders


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 3, 4, 6, 8, 9, 13])
def test_fast_decoders_take_only_what_they_turn_right(kind: int, order: str) -> None:
    """They take two bytes for an orientation; where its type makes that another number, another decoder is asked."""
    data = np.frombuffer(saved(RGB, "JPEG", exif=b"Exif\0\0" + exif(6, kind, order)), np.uint8)
    found = read_sizes(np.array([[data.ctypes.data, data.size]], np.int64))[0].tolist()

    assert found == ([40, 24] if order == "<" or kind in (3, 8) else [0, 0])
