"""JPEGs of many kinds and our decoder's answers to them, for the tests of the decoder."""

import io
import struct
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dali_pipes.jpeg import REASONS
from dali_pipes.jpeg.decode import decode_crop, scratch_bytes
from dali_pipes.jpeg.memory import _MEMORY
from dali_pipes.jpeg.seek_points import SEEK_POINT

Pixels = NDArray[np.uint8]
Crop = tuple[int, int, int, int]

NO_OFFSETS = np.empty(0, np.int64)
NO_SEEK_POINTS = np.empty(0, SEEK_POINT)

REDUCED = {
    1: cv2.IMREAD_COLOR,
    2: cv2.IMREAD_REDUCED_COLOR_2,
    4: cv2.IMREAD_REDUCED_COLOR_4,
    8: cv2.IMREAD_REDUCED_COLOR_8,
}
"""What OpenCV is told for a picture that is smaller by so much."""

SAMPLINGS = {
    "4:4:4": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "4:2:2": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "4:2:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    "4:4:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440,
    "4:1:1": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411,
}


def picture(height: int, width: int, seed: int = 0) -> Pixels:
    """A smooth picture with some noise and a sharp edge."""
    rng = np.random.default_rng((height, width, seed))
    rows, columns = np.mgrid[:height, :width]
    colours = [rows * 2, columns * 3, (rows + columns) % 256]
    image = np.stack(colours, -1) + rng.integers(0, 30, (height, width, 3))
    image[:, width // 2 :] = 255 - image[:, width // 2 :]
    return (image % 256).astype(np.uint8)


def encode(
    image: Pixels,
    sampling: str,
    *,
    quality: int = 85,
    restart: int = 0,
    optimise: bool = False,
    progressive: bool = False,
) -> bytes:
    """Encode with OpenCV; "gray" is a sampling as well."""
    options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_RST_INTERVAL, restart]
    options += [cv2.IMWRITE_JPEG_OPTIMIZE, int(optimise)]
    options += [cv2.IMWRITE_JPEG_PROGRESSIVE, int(progressive)]
    if sampling == "gray":
        image = image[..., 0]
    else:
        options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, SAMPLINGS[sampling]]
    good, encoded = cv2.imencode(".jpg", image, options)
    assert good
    return encoded.tobytes()


def turned(data: bytes, orientation: int) -> bytes:
    """The same file with an EXIF orientation."""
    entry = struct.pack(">HHIHH", 274, 3, 1, orientation, 0)
    exif = b"Exif\0\0" + b"MM\0*" + struct.pack(">IH", 8, 1) + entry + bytes(4)
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]


def opencv(data: bytes, flag: int = cv2.IMREAD_COLOR) -> Pixels:
    """What OpenCV decodes, as RGB: OpenCV 4.10 has no flag for that order."""
    return np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), flag)[..., ::-1])


def pillow(data: bytes) -> Pixels:
    """What Pillow decodes, without regard to EXIF."""
    with Image.open(io.BytesIO(data)) as opened:
        return np.asarray(opened.convert("RGB"))


def decode(
    data: bytes | memoryview,
    size: tuple[int, int],
    crop: Crop,
    out: Pixels,
    *,
    shrink: int = 1,
    offsets: NDArray[np.int64] = NO_OFFSETS,
    seek_points: NDArray[np.void] = NO_SEEK_POINTS,
    every: int = 0,
    judge: bool = False,
    scratch: Pixels | None = None,
) -> int:
    """Decode a crop into ``out`` with our decoder; the status."""
    view = np.frombuffer(data, np.uint8)
    if scratch is None:
        scratch = used_scratch(max(size))
    known = (seek_points.ctypes.data, len(seek_points), every)
    return decode_crop(
        *(view.ctypes.data, view.size, crop, size, shrink, offsets, known, judge),
        *(out.ctypes.data, out.strides[0], scratch),
    )


def used_scratch(side: int) -> Pixels:
    """Scratch for images of a size with what earlier calls may have left, but for tables."""
    scratch = np.full(scratch_bytes(side), 85, np.uint8)
    scratch[: _MEMORY.itemsize].view(_MEMORY)["tables"]["is_ready"] = 0
    return scratch


def ours(
    data: bytes,
    size: tuple[int, int],
    crop: Crop | None = None,
    shrink: int = 1,
    **options: Any,
) -> tuple[int, Pixels]:
    """The status and the pixels that our decoder gives; options are those of `decode`."""
    top, left, height, width = crop or (0, 0, *size)
    # Canaries around the pixels tell of writes beside them.
    memory = np.full(-(-height // shrink) * -(-width // shrink) * 3 + 256, 171, np.uint8)
    out = memory[128:-128].reshape(-(-height // shrink), -(-width // shrink), 3)
    status = decode(data, size, (top, left, height, width), out, shrink=shrink, **options)
    assert (memory[:128] == 171).all()
    assert (memory[-128:] == 171).all()
    return status, out


def reason_of(*arguments: Any, **options: Any) -> str:
    """What our decoder says of a file; the arguments are those of `ours`."""
    return REASONS[ours(*arguments, **options)[0]]


def assert_decodes(expected: Pixels, *arguments: Any, **options: Any) -> None:
    """Our decoder decodes a file, or a crop of it, to these pixels; the arguments are those of `ours`."""
    status, pixels = ours(*arguments, **options)
    assert REASONS[status] == "decoded"
    np.testing.assert_array_equal(pixels, expected)


def cut_of(image: Pixels, crop: Crop) -> Pixels:
    """Return the crop out of the whole picture."""
    top, left, height, width = crop
    return image[top : top + height, left : left + width]


def draw_crop(rng: np.random.Generator, height: int, width: int) -> Crop:
    """A crop from anywhere in an image."""
    rows, columns = int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))
    top, left = int(rng.integers(0, height - rows + 1)), int(rng.integers(0, width - columns + 1))
    return top, left, rows, columns


def with_code_of_ones(data: bytes) -> bytes:
    """Add a code to the Huffman table of a file's luma AC numbers: the standard table leaves free only that of 16 ones."""
    at = data.index(b"\xff\xc4", data.index(b"\xff\xc4") + 2)
    size = int.from_bytes(data[at + 2 : at + 4], "big")
    counts, symbols = data[at + 5 : at + 21], data[at + 21 : at + 2 + size]
    unused = next(symbol for symbol in range(256) if symbol not in symbols)
    body = data[at + 4 : at + 5] + counts[:15] + bytes([counts[15] + 1]) + symbols + bytes([unused])
    return data[:at] + b"\xff\xc4" + (size + 1).to_bytes(2, "big") + body + data[at + 2 + size :]


WAYS = ("flip", "overwrite", "cut", "insert")
"""How `damage` changes a file."""


def damage(data: bytes, way: str, rng: np.random.Generator, at: int | None = None) -> bytes:
    """Return a file that is damaged at a place, or anywhere behind its first two bytes."""
    damaged = bytearray(data)
    at = int(rng.integers(2, len(data) - 2)) if at is None else at
    if way == "flip":
        damaged[at] ^= 1 << int(rng.integers(8))
    elif way == "overwrite":
        damaged[at] = int(rng.integers(256))
    elif way == "cut":
        del damaged[at : at + int(rng.integers(1, 9))]
    else:
        damaged[at:at] = rng.bytes(int(rng.integers(1, 9)))
    return bytes(damaged)


def check_all_sizes(sampling: str, count: int, *, progressive: bool, judge: bool) -> None:
    """Compare pictures of odd and tiny sizes, of all qualities and with restart markers, with OpenCV and Pillow."""
    rng = np.random.default_rng(7)
    for trial in range(count):
        size = int(rng.integers(1, 70)), int(rng.integers(1, 70))
        options = {"quality": int(rng.integers(1, 101)), "restart": int(rng.integers(0, 6))}
        options |= {"progressive": progressive, "optimise": bool(trial % 2)}
        data = encode(picture(*size, trial), sampling, **options)  # type: ignore[arg-type]
        assert_decodes(opencv(data), data, size, judge=judge)
        np.testing.assert_array_equal(opencv(data), pillow(data))
