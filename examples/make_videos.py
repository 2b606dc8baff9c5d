"""Make short videos of moving shapes, a folder for each motion: python examples/make_videos.py moving/."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from shapes import KINDS, Cuts, draw_shape

MOTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1), "grow": 1, "shrink": -1}
NUM_FRAMES = 24


def make_videos(folder: Path, counts: tuple[int, int] = (40, 20)) -> Path:
    """Write train/ and test/ with so many MP4s of 64 x 64 pixels for each of MOTIONS."""
    cut = Cuts(seed=1)
    for part, count in zip(("train", "test"), counts, strict=True):
        for motion in MOTIONS:
            (folder / part / motion).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                write_video(folder / part / motion / f"{number:03d}.mp4", _frames(motion, cut))
    return folder


def write_video(path: Path, frames: Sequence[NDArray[np.uint8]]) -> None:
    """Write frames [H, W, 3] as MPEG-4 at 24 frames per second."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=24)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt, stream.bit_rate = "yuv420p", 600_000
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def _frames(motion: str, cut: Cuts) -> list[NDArray[np.uint8]]:
    """Return frames of a shape that moves so before a photograph, while another one stands still."""
    way, speed = MOTIONS[motion], cut.rng.uniform(0.7, 1.3)
    ground, filling, kind = cut(64), cut(32), KINDS[cut.rng.integers(len(KINDS))]
    draw_shape(ground, kind, [*(start := cut.rng.integers(0, 40, 2)), *(start + 20)], cut(20))
    centre, side = cut.rng.uniform(24, 40, 2), cut.rng.uniform(16, 22)
    frames = []
    for number in range(NUM_FRAMES):
        moved = speed * (number - NUM_FRAMES / 2)
        shift, growth = (way, 0.0) if isinstance(way, tuple) else ((0, 0), 0.6 * way * moved)
        middle, half = centre + moved * np.array(shift), (side + growth) / 2
        image = ground.copy()
        draw_shape(image, kind, [*(middle - half), *(middle + half)], filling)
        frames.append(np.asarray(image))
    return frames


def main(argv: Sequence[str] | None = None) -> None:
    """Write into the folder that the command line names."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    make_videos(options.parse_args(argv).folder)


if __name__ == "__main__":
    main()
