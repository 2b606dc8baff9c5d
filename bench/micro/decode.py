"""Measure decoders on each kind of file, on one thread: the full image, the image at a smaller size, and a crop."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bench.compare.images import require_sound
from bench.compare.photographs import encode, stitch
from bench.micro.pictures import load_photographs
from bench.micro.rows import Row, Task, contestants_of
from bench.timing import one_thread
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset, read_header
from readers.image.jpeg_process import jpeg_process

MEANING = (
    "Time per image on one CPU thread, files in memory (MP: megapixels, kB: kilobytes of one on average); speed relative to OpenCV. "
    "full: RGB in the size of the file. 1/2, 1/4, 1/8: a JPEG made smaller while it is decoded. crop: that of a "
    "RandomResizedCrop(224); 'later' is from a second epoch on, when seek points are known. Kinds that DATA lacks are made from its "
    "photographs by Pillow, JPEG XL by imagecodecs; large ones are stitched from unscaled parts of them (12 MP, JPEG of quality 90)."
)

Pixels = NDArray[np.uint8]
Work = Callable[[], Sequence[Pixels]]
Make = Callable[["Files"], Work]

_NUM_SAMPLES = 512  # samples that are searched for files of each kind
_NUM_FILES = 32  # files of each kind: enough to be typical, but a round stays short
_NUM_FILES_QUICK = 2
_NUM_LARGE = 4  # one takes as long as about 60 photographs of ImageNet's size

LARGE = "large baseline jpeg"
"""The kind of the stitched photographs."""

_LARGE_SIZE = 3000, 4000  # 12 megapixels, as of most telephones
_LARGE_SIZE_QUICK = 300, 400
# Qualities as in the examples of Pillow and of cwebp.
_MADE: dict[str, dict[str, Any]] = {
    "progressive jpeg": {"format": "jpeg", "quality": 90, "progressive": True},
    "png": {"format": "png"},
    "webp": {"format": "webp", "quality": 80},
    "lossless webp": {"format": "webp", "lossless": True},
    "avif": {"format": "avif", "quality": 80},
    "jp2": {
        "format": "jpeg2000",
        "quality_mode": "dB",
        "quality_layers": [40],
        "irreversible": True,
    },
}
# Kinds that not all of the other libraries decode, with those that do.
_OTHERS: dict[str, tuple[str, ...]] = {
    "avif": ("OpenCV", "Pillow"),
    "heic": (),
    "jp2": ("OpenCV", "Pillow"),
    "jxl": (),
}


@dataclass(frozen=True)
class Files:
    """Encoded images of one kind, such as "progressive jpeg".

    Attributes:
        files: The bytes of each file.
        sizes: int64 [n, 2]: height and width of the upright images.
        crops: int64 [n, 4]: top, left, height and width of one crop per image.
    """

    files: list[bytes]
    sizes: NDArray[np.int64]
    crops: NDArray[np.int64]

    @property
    def views(self) -> list[Pixels]:
        """The bytes of each file as an array, without a copy."""
        return [np.frombuffer(data, np.uint8) for data in self.files]

    def areas(self, *, is_crop: bool) -> list[list[int]]:
        """Return top, left, height and width of each crop, or of each full image."""
        full = np.hstack([np.zeros_like(self.sizes), self.sizes])
        areas: list[list[int]] = (self.crops if is_crop else full).tolist()
        return areas


def rows(task: Task) -> Iterator[Row]:
    """Yield a row for every kind of file and every part of the image."""
    for kind, files in files_by_kind(
        task.source, _NUM_FILES_QUICK if task.quick else _NUM_FILES
    ).items():
        megapixels = files.sizes.prod(axis=1).mean() / 1e6
        kilobytes = np.mean([len(data) for data in files.files]) / 1e3
        for part, decoders in decoders_of(kind).items():
            name = f"{kind} ({megapixels:.2f} MP, {kilobytes:.0f} kB), {part}"
            makes = {decoder: partial(make, files) for decoder, make in decoders.items()}
            with one_thread():
                yield Row(name, contestants_of(makes, len(files.files)))


def files_by_kind(source: str, most: int) -> dict[str, Files]:
    """Return images of each kind, such as "progressive jpeg" or "png", with a random crop of each.

    Kinds that the data lacks are made from its photographs.

    Raises:
        BenchError: No file decodes.
    """
    samples, _ = require_sound(source, open_dataset(source), most=_NUM_SAMPLES)
    by_kind: dict[str, list[bytes]] = {}
    for sample in samples:
        data = bytes(sample.image or b"")
        name = read_header(data).format
        kind = f"{jpeg_process(data)} {name}" if name == "jpeg" else name
        by_kind.setdefault(kind, []).append(data)
    by_kind = _made_files(source, most) | by_kind
    return {
        kind: to_files(some[:: -(-len(some) // most)]) for kind, some in sorted(by_kind.items())
    }


def _made_files(source: str, most: int) -> dict[str, list[bytes]]:
    """Return files of kinds that the data may lack, made from its photographs."""
    decoded = load_photographs(source, most)
    images = [Image.fromarray(pixels) for pixels in decoded]
    made = {kind: [encode(image, **options) for image in images] for kind, options in _MADE.items()}
    size = _LARGE_SIZE if most > _NUM_FILES_QUICK else _LARGE_SIZE_QUICK
    numbers = range(min(most, _NUM_LARGE))
    large = [stitch(decoded, size, first=number) for number in numbers]
    made[LARGE] = [encode(Image.fromarray(pixels), format="jpeg", quality=90) for pixels in large]
    with suppress(ImportError):  # the extras "images" and "heic" are not installed
        from imagecodecs import jpegxl_encode
        from pillow_heif import register_heif_opener

        register_heif_opener()
        made["jxl"] = [bytes(jpegxl_encode(pixels, level=85)) for pixels in decoded]
        made["heic"] = [encode(image, format="heif", quality=80) for image in images]
    return made


def to_files(files: list[bytes]) -> Files:
    """Return files of one kind with their sizes and random crops."""
    headers = [read_header(data) for data in files]
    sizes = np.array([(header.height, header.width) for header in headers], np.int64)
    crops = Recipe([RandomResizedCrop(224)]).draw(0, 0, np.arange(len(files)), sizes).crops
    return Files(files, sizes, np.hstack([crops.start, crops.shape]).astype(np.int64))


def decoders_of(kind: str) -> dict[str, dict[str, Make]]:
    """Return the decoders of a kind of file, by the part of the image that they decode, and by name."""
    full: dict[str, Make] = {
        "OpenCV": with_opencv,
        "Pillow": with_pillow,
        "torchvision": with_torchvision,
    }
    if not kind.endswith("jpeg"):
        return {
            "full": {name: full[name] for name in _OTHERS.get(kind, full)}
            | {"gpu-aug": with_loader}
        }
    parts = {"full": full | {"simplejpeg": with_simplejpeg, "gpu-aug": with_ours}}
    for shrink in () if kind == LARGE else (2, 4, 8):
        parts[f"1/{shrink}"] = {
            "OpenCV": partial(with_opencv, shrink=shrink),
            "Pillow": partial(with_pillow, shrink=shrink),
            "gpu-aug": partial(with_ours, shrink=shrink),
        }
    parts["crop"] = {
        "OpenCV, full image": partial(with_opencv, is_crop=True),
        "gpu-aug, first epoch": partial(with_ours, is_crop=True),
        "gpu-aug, later": partial(with_ours, is_crop=True, is_known=True),
    }
    return parts


def with_ours(
    files: Files, *, shrink: int = 1, is_crop: bool = False, is_known: bool = False
) -> Work:
    """Return a call of our decoder on all files.

    Args:
        files: JPEGs.
        shrink: Factor by which images are shrunk.
        is_crop: Whether to decode crops instead of full images.
        is_known: Whether the files were read before; if so, seek points are known, and only the codes that the crop
            needs are read.
    """
    from dali_pipes.jpeg.seek_points import EVERY, find_seek_points

    decode_area = make_decoder(int(files.sizes.max()))
    areas = files.areas(is_crop=is_crop)
    points = [find_seek_points(data, EVERY)[1] if is_known else None for data in files.files]
    jobs = list(zip(files.views, files.sizes.tolist(), areas, points, strict=True))
    return lambda: [
        decode_area(view, size, area, shrink=shrink, known=known)
        for view, size, area, known in jobs
    ]


def with_loader(files: Files) -> Work:
    """Return a call of the function that decodes files other than JPEGs for a loader."""
    from dali_pipes.decode.opencv import decode

    return lambda: [
        decode(data, (height, width))
        for data, (height, width) in zip(files.files, files.sizes.tolist(), strict=True)
    ]


def make_decoder(side_max: int) -> Callable[..., Pixels]:
    """Return our decoder, which works on the calling thread, as in a worker of a DataLoader.

    Args:
        side_max: Longest side of an image in pixels.

    Returns:
        A function of the bytes (uint8 [n]), the size of the image and the area to decode; with `shrink`, and with seek
        points as `known` if only the codes that the area needs are to be read.
    """
    from dali_pipes.jpeg.decode import decode_crop, scratch_bytes
    from dali_pipes.jpeg.seek_points import EVERY

    scratch, no_offsets = np.zeros(scratch_bytes(side_max), np.uint8), np.empty(0, int)

    def decode_area(
        view: Pixels, size: Any, area: Any, shrink: int = 1, known: NDArray[Any] | None = None
    ) -> Pixels:
        out = np.empty((-(-area[2] // shrink), -(-area[3] // shrink), 3), np.uint8)
        place = (0, 0, 0) if known is None else (known.ctypes.data, len(known), EVERY)
        where = view.ctypes.data, view.size, tuple(area), tuple(size), shrink, no_offsets
        status = decode_crop(*where, place, known is None, out.ctypes.data, out.strides[0], scratch)
        if status:
            raise RuntimeError(f"our decoder refuses a file: status {status}")
        return out

    return decode_area


def with_opencv(files: Files, *, shrink: int = 1, is_crop: bool = False) -> Work:
    """Return a call of OpenCV on all files; crops are taken from the fully decoded image."""
    import cv2

    flag = getattr(cv2, f"IMREAD_REDUCED_COLOR_{shrink}") if shrink > 1 else cv2.IMREAD_COLOR_RGB
    cuts = [
        np.s_[top : top + height, left : left + width]
        for top, left, height, width in files.areas(is_crop=is_crop)
    ]
    jobs = list(zip(files.views, cuts, strict=True))
    return lambda: [np.asarray(cv2.imdecode(view, flag))[cut] for view, cut in jobs]


def with_pillow(files: Files, *, shrink: int = 1) -> Work:
    """Return a call of Pillow on all files, which does not apply the EXIF orientation."""

    def load(data: bytes) -> Pixels:
        with Image.open(BytesIO(data)) as image:
            if shrink > 1:
                image.draft("RGB", (image.width // shrink, image.height // shrink))
            return np.asarray(image.convert("RGB"))

    return lambda: [load(data) for data in files.files]


def with_torchvision(files: Files) -> Work:
    """Return a call of torchvision on all files, which does not apply the EXIF orientation."""
    import torch
    from torchvision.io import ImageReadMode, decode_image

    tensors = [torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in files.files]
    # torchvision decodes to rows of pixels, so that this order of axes is contiguous.
    return lambda: [
        decode_image(data, ImageReadMode.RGB).permute(1, 2, 0).numpy() for data in tensors
    ]


def with_simplejpeg(files: Files) -> Work:
    """Return a call of libjpeg-turbo on all files through simplejpeg, which does not apply the EXIF orientation."""
    import simplejpeg

    return lambda: [simplejpeg.decode_jpeg(data, "RGB") for data in files.files]
