"""Make photographs with shapes in them and a .json of their boxes beside each: python examples/make_boxes.py shapes/."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from shapes import KINDS, Cuts, draw_shape

SIDE = 96
"""Of the pictures, in pixels."""


def make_boxes(folder: Path, counts: tuple[int, int] = (1000, 200)) -> Path:
    """Write train/ and test/ with JPEGs of SIDE x SIDE pixels that hold 1 to 4 shapes; labels count KINDS."""
    cut = Cuts(seed=0)
    for part, count in zip(("train", "test"), counts, strict=True):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            image, boxes, labels = cut(SIDE), [], []
            for _ in range(cut.rng.integers(1, 5)):
                side = int(cut.rng.integers(18, 45))
                left, top = (int(one) for one in cut.rng.integers(0, SIDE - side, 2))
                box = [left, top, left + side, top + side]
                if all(_overlap(box, other) < 0.2 for other in boxes):
                    boxes.append(box)
                    labels.append(int(cut.rng.integers(len(KINDS))))
                    draw_shape(image, KINDS[labels[-1]], box, cut(side))
            path = folder / part / f"{number:04d}.jpg"
            image.save(path, quality=90)
            path.with_suffix(".json").write_text(json.dumps({"boxes": boxes, "labels": labels}))
    return folder


def _overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the share of the smaller box that two boxes have in common."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return max(0, width) * max(0, height) / min(areas)


def main(argv: Sequence[str] | None = None) -> None:
    """Write into the folder that the command line names."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    make_boxes(options.parse_args(argv).folder)


if __name__ == "__main__":
    main()
