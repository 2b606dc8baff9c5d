"""Make videos without a download: a camera moves over the photographs that scikit-image ships."""

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from rich.console import Console

from bench.compare.photographs import shipped_photographs
from bench.output.errors import BenchError, require_above_zero
from bench.output.text import print_line
from readers.plural import counted

FPS = 25

_ROOM = 1.6  # size of the photograph relative to a frame
_NOISE = 2.0  # camera noise: standard deviation, of 255
_SHAKE = 1.5  # hand shake: pixels, of 256


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
        frames = _walk(_photograph(path, size), size, round(seconds * FPS), rng)
        made.append(folder / name / f"{name}-{number:03d}.mp4")
        try:
            made[-1].parent.mkdir(parents=True, exist_ok=True)
            _encode(made[-1], frames, size)
        except OSError as error:
            raise BenchError(
                f"{made[-1]} cannot be written ({error.strerror}): give a folder that you may write to"
            ) from None
    return made


def _photograph(path: Path, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return a photograph that is larger than a frame."""
    image = Image.open(path).convert("RGB")
    scale = _ROOM * max(size[0] / image.height, size[1] / image.width)
    return np.asarray(ImageOps.scale(image, scale, Image.Resampling.LANCZOS))


def _walk(
    still: NDArray[np.uint8], size: tuple[int, int], count: int, rng: np.random.Generator
) -> Iterator[NDArray[np.uint8]]:
    """Yield frames along a smooth path, with hand shake and noise."""
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


def _encode(path: Path, frames: Iterator[NDArray[np.uint8]], size: tuple[int, int]) -> None:
    try:
        import av
    except ImportError:
        raise BenchError("videos are made by PyAV, which is missing: pip install av") from None
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.height, stream.width = size
        stream.pix_fmt = "yuv420p"
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            # Converted here: the encoder would use several threads, which occasionally gives different pixels.
            frame = frame.reformat(format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
