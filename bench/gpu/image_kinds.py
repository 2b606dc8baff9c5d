"""Step: images of every kind through the loader, beside Pillow's pixels."""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from bench.gpu.our_loader import endless, loader_for
from bench.gpu.photographs import photographs, write_files
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, Size
from dali_pipes import Batch
from dali_pipes.decode.dali.trust import suits_dali
from gpu_aug import CenterCrop, Recipe
from readers import read_header

Pixels = NDArray[np.uint8]
"""uint8 [height, width, 3]."""

MOST, MEAN = 4, 1.0
"""What a GPU's JPEG decoder may differ by from Pillow, of 255: at most, and on average. On the CPU CMYK differs by 1."""

_COPIES = 4  # so that each stands in several rows
_JPEGS: Mapping[str, dict[str, Any]] = {
    "ordinary": {},
    "quality 30": {"quality": 30},
    "progressive": {"progressive": True},
    "progressive, 4:4:4": {"progressive": True, "subsampling": "4:4:4"},
    "CMYK": {"mode": "CMYK"},
    "grey": {"mode": "L"},
    "restart markers": {"restart_marker_blocks": 5},
    "optimised tables": {"optimize": True},
    "RGB components": {"keep_rgb": True},
}
"""What Pillow is told."""

_SAMPLINGS = ("4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1")


@dataclass(frozen=True)
class Kind:
    """An image of some kind.

    Attributes:
        name: What is special about it.
        ending: The end of its name, with the dot.
        encoded: The file.
    """

    name: str
    ending: str
    encoded: bytes

    @property
    def is_for_dali(self) -> bool:
        """Whether our loader leaves it to DALI; it decodes others on the CPU."""
        header = read_header(self.encoded)
        return bool(suits_dali([self.encoded], np.array([(header.height, header.width)]))[0])


def kinds(scale: Scale, data: Path, rows: Rows) -> None:
    """Each kind in a batch of its own, then all of one size in one batch."""
    by_size: dict[Size, list[Kind]] = {}
    for kind in made(data, scale):
        with rows.check(kind.name) as row:
            by_size.setdefault(upright(kind.encoded).shape[:2], []).append(kind)
            row.facts["decoded by"] = "DALI" if kind.is_for_dali else "the CPU"
            judge([kind] * _COPIES, load([kind] * _COPIES, scale), row)
    size, together = max(by_size.items(), key=lambda item: len(item[1]))
    with rows.check(f"{len(together)} kinds of {size[1]}x{size[0]} in one batch") as row:
        judge(together, load(together, scale), row)


def load(contents: Sequence[Kind], scale: Scale) -> list[Pixels]:
    """Decode images of one size in one batch; see `taken`."""
    files = {f"{number:03d}{kind.ending}": kind.encoded for number, kind in enumerate(contents)}
    with TemporaryDirectory() as root:
        folder = write_files(Path(root) / "kinds", files)
        [batch] = taken(scale, folder, upright(contents[0].encoded).shape[:2], len(files), 1)
    return pixels_of(batch)


def taken(scale: Scale, folder: Path, size: Size, batch_size: int, count: int) -> Iterator[Batch]:
    """Batches of our loader by DALI, in uint8, by a recipe that changes no pixel of images of a size.

    Raises:
        AssertionError: The loader calls an image bad, or DALI refuses one.
    """
    options: dict[str, Any] = {"batch_size": batch_size, "dtype": torch.uint8, "shuffle": "none"}
    options |= {"recipe": Recipe([CenterCrop(size)]), "on_bad_sample": "skip"}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with loader_for(scale, folder, "dali", **options) as loader:
            yield from islice(endless(loader), count)
            bad = loader.bad_samples
    assert not bad, f"the loader calls it bad: {bad[0].reason}"
    refusals = [str(one.message)[-300:] for one in said if "DALI" in str(one.message)]
    assert not refusals, f"DALI warns: {refusals}"


def pixels_of(batch: Batch) -> list[Pixels]:
    """The images of a batch on the host."""
    return list(batch.images.permute(0, 2, 3, 1).cpu().numpy())


def judge(contents: Sequence[Kind], decoded: Sequence[Pixels], row: Row) -> None:
    """Fill in a row: the largest difference from Pillow, beside that of pictures moved by one pixel.

    Raises:
        AssertionError: They are too far from Pillow, or the moved pictures are not.
    """
    found, moved = [], []
    for kind, image in zip(contents, decoded, strict=True):
        expected = upright(kind.encoded)
        found.append(distance(image, expected))
        shifted = np.roll(expected, 1, axis=0 if expected.shape[0] > 1 else 1)
        if expected.size == 3:  # a single pixel cannot be moved
            shifted = expected ^ np.uint8(128)
        moved.append(distance(image, shifted))
    most, mean = (max(values) for values in zip(*found, strict=True))
    row.facts["mean"] = round(mean, 4)
    by_dali = any(kind.is_for_dali for kind in contents)
    allowed = MOST if by_dali else int(any(kind.ending == ".jpg" for kind in contents))
    row.judge(most, allowed, control=min(gap for gap, _ in moved))
    assert mean < MEAN, f"differs by {mean:.3f} on average, less than {MEAN} is allowed"


def distance(image: Pixels, expected: Pixels) -> tuple[int, float]:
    """Largest and mean difference, of 255."""
    gap = np.abs(image.astype(np.int16) - expected)
    return int(gap.max()), float(gap.mean())


def upright(encoded: bytes) -> Pixels:
    """Pillow's pixels of a file, with EXIF orientation applied."""
    with Image.open(io.BytesIO(encoded)) as opened:
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I"):  # 16 bits: convert() would cut them off at 255
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        return np.asarray(image.convert("RGB"))


def made(data: Path, scale: Scale) -> Iterator[Kind]:
    """A photograph as every kind of file."""
    [picture], [odd], [large] = (
        [upright(encoded) for encoded in photographs(data, size, 1)]
        for size in ((240, 320), (241, 317), (4000, 6000) if scale.on_gpu else (400, 600))
    )
    alpha = np.dstack([picture, np.resize(np.arange(320), (240, 320))]).astype(np.uint8)
    for name, options in _JPEGS.items():
        yield _pillow(name, picture, **options)
    for sampling in _SAMPLINGS:
        yield _jpeg_of(sampling, picture, sampling)
        yield _jpeg_of(f"{sampling}, odd size", odd, sampling)
    yield _pillow("odd size, progressive", odd, progressive=True)
    for turn in range(1, 9):
        yield _pillow(f"EXIF {turn}", odd, exif=_orientation(turn))
    yield _pillow("one pixel", picture[:1, :1])
    yield _pillow("one row", picture[:1])
    yield _pillow("one column", picture[:, :1])
    for ending in (".png", ".webp", ".tiff", ".bmp"):
        yield _pillow(ending, picture, ending)
    yield _pillow("WebP, lossless", picture, ".webp", lossless=True)
    yield _pillow("PNG, palette", picture, ".png", mode="P")
    yield _opencv("PNG, 16 bits", ".png", picture.astype(np.uint16) * 257)  # alike in all ways to 8
    yield _pillow("PNG, alpha", alpha, ".png", mode="RGBA")
    yield _pillow("24 megapixels", large)


def _pillow(name: str, picture: Pixels, ending: str = ".jpg", mode: str = "RGB", **options: Any) -> Kind:  # fmt: skip
    image = Image.fromarray(picture)
    image = image.quantize(64) if mode == "P" else image.convert(mode)
    stream = io.BytesIO()
    usual = {"quality": 90} if ending in (".jpg", ".webp") else {}
    image.save(stream, Image.registered_extensions()[ending], **{**usual, **options})
    return Kind(name, ending, stream.getvalue())


def _orientation(turn: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = turn
    return exif


def _jpeg_of(name: str, picture: Pixels, sampling: str) -> Kind:
    """A JPEG of a sampling, some of which Pillow does not write."""
    import cv2

    factor = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling.replace(':', '')}")
    options = [cv2.IMWRITE_JPEG_QUALITY, 90, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor]
    return _opencv(name, ".jpg", picture, options)


def _opencv(name: str, ending: str, picture: NDArray[Any], options: Sequence[int] = ()) -> Kind:
    import cv2

    _, encoded = cv2.imencode(ending, np.ascontiguousarray(picture[..., ::-1]), options)
    return Kind(name, ending, encoded.tobytes())
