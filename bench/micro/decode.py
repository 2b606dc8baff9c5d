"""Measure decoders on each kind of file, on one thread: the full image, the image at a smaller size, and a crop."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.compare.images import require_sound
from bench.micro.rows import Row, Task, contestants_of
from bench.timing import one_thread
from gpu_aug import RandomResizedCrop, Recipe
from readers import Sample, open_dataset, read_header
from readers.image.jpeg_process import jpeg_process

MEANING = (
    "Time per image on one CPU thread, files in memory (MP: megapixels, kB: kilobytes of one on average); speed relative to OpenCV. "
    "full: RGB in the size of the file. 1/2, 1/4, 1/8: a JPEG made smaller while it is decoded. crop: that of a "
    "RandomResizedCrop(224); 'later' is from a second epoch on, when seek points are known."
)

Pixels = NDArray[np.uint8]
Work = Callable[[], Sequence[Pixels]]
Make = Callable[["Files"], Work]

_NUM_SAMPLES = 512  # samples that are searched for files of each kind
_NUM_FILES = 32  # files of each kind: enough to be typical, but a round stays short


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
    for kind, files in files_by_kind(task.source, 2 if task.quick else _NUM_FILES).items():
        megapixels = files.sizes.prod(axis=1).mean() / 1e6
        kilobytes = np.mean([len(data) for data in files.files]) / 1e3
        for part, decoders in decoders_of(kind).items():
            name = f"{kind} ({megapixels:.2f} MP, {kilobytes:.0f} kB), {part}"
            makes = {decoder: partial(make, files) for decoder, make in decoders.items()}
            with one_thread():
                yield Row(name, contestants_of(makes, len(files.files)))


def files_by_kind(source: str, most: int) -> dict[str, Files]:
    """Return images of each kind, such as "progressive jpeg" or "png", with a random crop of each.

    Raises:
        BenchError: No file decodes.
    """
    samples, _ = require_sound(source, open_dataset(source), most=_NUM_SAMPLES)
    by_kind: dict[str, list[Sample]] = {}
    for sample in samples:
        data = bytes(sample.image or b"")
        name = read_header(data).format
        kind = f"{jpeg_process(data)} {name}" if name == "jpeg" else name
        by_kind.setdefault(kind, []).append(sample)
    return {kind: _files(some[:: -(-len(some) // most)]) for kind, some in sorted(by_kind.items())}


def _files(samples: Sequence[Sample]) -> Files:
    files = [bytes(sample.image or b"") for sample in samples]
    headers = [read_header(data) for data in files]
    sizes = np.array([(header.height, header.width) for header in headers], np.int64)
    crops = Recipe([RandomResizedCrop(224)]).draw(0, 0, np.arange(len(files)), sizes).crops
    return Files(files, sizes, np.hstack([crops.start, crops.shape]).astype(np.int64))


def decoders_of(kind: str) -> dict[str, dict[str, Make]]:
    """Return the decoders of a kind of file, by the part of the image that they decode, and by name."""
    full: dict[str, Make] = {"OpenCV": with_opencv, "Pillow": with_pillow}
    if kind not in ("baseline jpeg", "progressive jpeg"):
        return {"full": full}
    parts = {"full": full | {"simplejpeg": with_simplejpeg, "gpu-aug": with_ours}}
    for shrink in (2, 4, 8):
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
    from dali_pipes.jpeg.decode import decode_crop, scratch_bytes
    from dali_pipes.jpeg.seek_points import EVERY, find_seek_points

    sizes, areas, no_offsets = files.sizes, files.areas(is_crop=is_crop), np.empty(0, int)
    scratch = np.zeros(scratch_bytes(int(sizes.max())), np.uint8)
    points = [find_seek_points(data, EVERY)[1] if is_known else no_offsets for data in files.files]

    def decode(view: Pixels, size: Any, area: Any, known: NDArray[Any]) -> Pixels:
        out = np.empty((-(-area[2] // shrink), -(-area[3] // shrink), 3), np.uint8)
        place = (known.ctypes.data, len(known), EVERY) if is_known else (0, 0, 0)
        where = view.ctypes.data, view.size, tuple(area), tuple(size), shrink, no_offsets
        to = out.ctypes.data, out.strides[0], scratch
        status = decode_crop(*where, place, not is_known, *to)
        if status:
            raise RuntimeError(f"our decoder refuses a file: status {status}")
        return out

    jobs = list(zip(files.views, sizes.tolist(), areas, points, strict=True))
    return lambda: [decode(*job) for job in jobs]


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
    from PIL import Image

    def decode(data: bytes) -> Pixels:
        with Image.open(BytesIO(data)) as image:
            if shrink > 1:
                image.draft("RGB", (image.width // shrink, image.height // shrink))
            return np.asarray(image.convert("RGB"))

    return lambda: [decode(data) for data in files.files]


def with_simplejpeg(files: Files) -> Work:
    """Return a call of libjpeg-turbo on all files through simplejpeg, which does not apply the EXIF orientation."""
    import simplejpeg

    return lambda: [simplejpeg.decode_jpeg(data, "RGB") for data in files.files]
