"""Make a few hundred real photographs without a download: crops of those that scikit-image ships."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from bench.output.errors import BenchError

# Colour photographs inside the scikit-image wheel, by the class that they get.
_SOURCES = {
    "astronaut": ("astronaut.png",),
    "cat": ("chelsea.png",),
    "coffee": ("coffee.png",),
    "galaxies": ("hubble_deep_field.jpg",),
    "motorcycle": ("motorcycle_left.png", "motorcycle_right.png"),
    "retina": ("retina.jpg",),
    "rocket": ("rocket.jpg",),
    "tissue": ("ihc.png",),
}
_QUALITIES = (75, 85, 90, 95)
_SUBSAMPLINGS = ("4:2:0", "4:2:0", "4:4:4")  # the most common one of cameras first
_SHARE = (0.5, 1.0)  # share of each side that a crop has
_SCALE = (0.6, 1.4)  # scale of the crop before it is encoded
_SIDE_MAX = 900


def make_photographs(folder: Path, *, per_class: int = 30, seed: int = 0) -> int:
    """Write class folders of JPEGs: random crops of real photographs at several sizes and qualities.

    Args:
        folder: Receives one folder per class.
        per_class: Count of files per class.
        seed: Seed of the crops; a seed always gives equal files.

    Returns:
        The count of files.

    Raises:
        BenchError: scikit-image is not installed, or this version has none of the photographs.
    """
    rng = np.random.default_rng(seed)
    shipped = shipped_photographs()
    for name, paths in shipped.items():
        images = [Image.open(path).convert("RGB") for path in paths]
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            image = _cut(images[number % len(images)], rng)
            image.save(
                folder / name / f"{name}-{number:02d}.jpg",
                quality=int(rng.choice(_QUALITIES)),
                subsampling=str(rng.choice(_SUBSAMPLINGS)),
            )
    return per_class * len(shipped)


def shipped_photographs() -> dict[str, list[Path]]:
    """Return the colour photographs inside the scikit-image wheel, by class.

    Raises:
        BenchError: scikit-image is not installed, or this version has none of the photographs.
    """
    try:
        import skimage
    except ImportError as error:
        raise BenchError(
            "the photographs come with scikit-image, which is missing: pip install scikit-image, or give a "
            "folder of your own"
        ) from error
    data = Path(skimage.__file__).parent / "data"
    found = {
        name: paths
        for name, sources in _SOURCES.items()
        if (paths := [data / source for source in sources if (data / source).is_file()])
    }
    if not found:
        raise BenchError(f"{data} has none of the photographs: give a folder of your own")
    return found


def encode(image: Image.Image, **options: Any) -> bytes:
    """Return the bytes of a file that Pillow encodes with the options of its `save`, such as `format` and `quality`."""
    stream = BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


def stitch(
    photographs: Sequence[NDArray[np.uint8]], size: tuple[int, int], *, first: int = 0
) -> NDArray[np.uint8]:
    """Return a large picture of unscaled squares from the middle of photographs, side by side.

    Args:
        photographs: uint8 [height, width, 3] each, of any sizes; the smaller half of them is left out.
        size: Height and width of the picture.
        first: Number of the photograph in the top left corner.
    """
    large = sorted(photographs, key=lambda pixels: min(pixels.shape[:2]))[len(photographs) // 2 :]
    side = min(large[0].shape[:2])
    starts = [((len(one) - side) // 2, (one.shape[1] - side) // 2) for one in large]
    cells = [
        one[top : top + side, left : left + side]
        for one, (top, left) in zip(large, starts, strict=True)
    ]
    rows, columns = (-(-length // side) for length in size)
    order = (first + np.arange(rows * columns).reshape(rows, columns)) % len(cells)
    picture = np.block([[[cells[number]] for number in row] for row in order])
    return np.ascontiguousarray(picture[: size[0], : size[1]])


def _cut(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    width, height = (int(side * rng.uniform(*_SHARE)) for side in image.size)
    left = int(rng.integers(image.width - width + 1))
    top = int(rng.integers(image.height - height + 1))
    cut = image.crop((left, top, left + width, top + height))
    scale = min(rng.uniform(*_SCALE), _SIDE_MAX / max(cut.size))
    return ImageOps.scale(cut, scale, Image.Resampling.LANCZOS)
