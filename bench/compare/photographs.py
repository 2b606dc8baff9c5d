"""Make photographs and videos without a download, from the photographs that scikit-image ships."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from rich.console import Console

from bench.output.errors import BenchError, require_above_zero
from bench.output.text import print_line
from readers.plural import counted

FPS = 25

_ROOM = 1.6  # size of the photograph relative to a frame
_NOISE = 2.0  # camera noise: standard deviation, of 255
_SHAKE = 1.5  # hand shake: pixels, of 256

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


def make_and_show(folder: Path, size: str, *, count: int, seconds: float, seed: int) -> None:
    """Make videos with `make_videos` and print a summary; `size` is text such as "340x256", width and height.

    Raises:
        BenchError: A number is invalid, scikit-image or PyAV is not installed, or the folder cannot be written.
    """
    found = re.fullmatch(r"(\d+)x(\d+)", size)
    if found is None:
        raise BenchError(f"a size must be WIDTHxHEIGHT, for example 1280x720, got {size!r}")
    width, height = map(int, found.groups())
    console = Console()
    with console.status("encoding"):
        made = make_videos(folder, size=(height, width), count=count, seconds=seconds, seed=seed)
    print_line(f"{counted(len(made), 'video')} of {size}: {folder}")


def make_videos(
    folder: Path,
    *,
    size: tuple[int, int] = (256, 340),
    count: int = 16,
    seconds: float = 10.0,
    seed: int = 0,
) -> list[Path]:
    """Write class folders of MP4 files, H.264 with x264's default settings, 25 frames per second.

    Args:
        folder: Receives one folder per class.
        size: (height, width) in pixels, both even.
        count: Count of videos.
        seconds: Length of each video in seconds.
        seed: Seed of the camera's path and of the noise.

    Returns:
        The paths of the files.

    Raises:
        BenchError: A number is invalid, scikit-image or PyAV is not installed, or the folder cannot be written.
    """
    require_above_zero(count=count, seconds=seconds, size=min(size))
    if any(side % 2 for side in size):
        raise BenchError(f"a size must be even for H.264, got {size[0]}x{size[1]}: round it")
    photographs = [(name, path) for name, paths in shipped_photographs().items() for path in paths]
    made = []
    for number in range(count):
        name, path = photographs[number % len(photographs)]
        rng = np.random.default_rng((seed, number))
        frames = walk(enlarge(path, size), size, round(seconds * FPS), rng)
        made.append(folder / name / f"{name}-{number:03d}.mp4")
        try:
            made[-1].parent.mkdir(parents=True, exist_ok=True)
            encode_video(made[-1], frames, size)
        except OSError as error:
            raise BenchError(
                f"{made[-1]} cannot be written ({error.strerror}): give a folder that you may write to"
            ) from None
    return made


def enlarge(path: Path, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return a photograph, scaled so that it is larger than a frame of a size (height, width)."""
    image = Image.open(path).convert("RGB")
    scale = _ROOM * max(size[0] / image.height, size[1] / image.width)
    return np.asarray(ImageOps.scale(image, scale, Image.Resampling.LANCZOS))


def walk(
    still: NDArray[np.uint8], size: tuple[int, int], count: int, rng: np.random.Generator
) -> Iterator[NDArray[np.uint8]]:
    """Yield `count` frames along a smooth path over a picture, with hand shake and noise."""
    room = np.array(still.shape[:2]) - size
    turns, phases = rng.uniform(0.4, 1.2, (2, 2)), rng.uniform(0, 2 * np.pi, (2, 2))
    for number in range(count):
        angles = 2 * np.pi * turns * number / count + phases
        shake = rng.normal(0, _SHAKE * size[0] / 256, 2)
        corner = room * (0.5 + 0.25 * np.sin(angles).sum(axis=0)) + shake
        top, left = np.clip(np.rint(corner).astype(int), 0, room).tolist()
        cut = still[top : top + size[0], left : left + size[1]]
        noise = rng.normal(0, _NOISE, (*size, 1)).astype(np.float32)
        yield np.clip(cut + noise, 0, 255).astype(np.uint8)


def encode_video(
    path: Path,
    frames: Iterable[NDArray[np.uint8]],
    size: tuple[int, int],
    *,
    fps: int = FPS,
    codec: str = "libx264",
    options: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Encode frames with an encoder of FFmpeg and its options, as YUV 4:2:0 with 8 bits.

    Raises:
        BenchError: PyAV is not installed.
    """
    try:
        import av
    except ImportError:
        raise BenchError("videos are made by PyAV, which is missing: pip install av") from None
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=fps, options=dict(options))
        stream.height, stream.width = size
        stream.pix_fmt = "yuv420p"
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            # Converted here: the encoder would use several threads, which occasionally gives different pixels.
            frame = frame.reformat(format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
