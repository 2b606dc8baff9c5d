"""What compare.py compares: the figure, its margin, and the pipelines that are broken on purpose.

The margins were written down before the first run.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from make_boxes import SIDE

from gpu_aug import ColorJitter, HorizontalFlip, Normalize, RandomCrop, RandomResizedCrop, Recipe

MOVING = [
    RandomResizedCrop(32, scale=(0.6, 1.0)),
    ColorJitter(0.2, 0.2, 0.2),
    Normalize((0.45,) * 3, (0.225,) * 3),
]
CIFAR = Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


@dataclass(frozen=True)
class Study:
    """What is compared.

    Attributes:
        figure: The one that counts, as the example reports it.
        margin: How far means over the seeds may lie from the peer's.
        peer: The other library; None where the example itself has a figure to compare with.
        broken: Names of wrong recipes, and these.
        spoilt: Names of wrong data, and functions that spoil a copy of the data.
    """

    figure: str
    margin: float
    peer: str | None
    broken: dict[str, Recipe] = field(default_factory=dict)
    spoilt: dict[str, Callable[[Path], None]] = field(default_factory=dict)


def shuffle_labels(data: Path, share: float = 0.05) -> None:
    """Move a share of the training pictures into the folder of another class."""
    rng = random.Random(0)
    files = sorted((data / "train").glob("*/*.jpg"))
    classes = sorted({path.parent for path in files})
    for path in rng.sample(files, round(share * len(files))):
        other = rng.choice([one for one in classes if one != path.parent])
        path.rename(other / f"moved-from-{path.parent.name}-{path.name}")


def shift_boxes(data: Path) -> None:
    """Move every box of the training pictures, not the picture."""
    for path in (data / "train").glob("*.json"):
        beside = json.loads(path.read_text())
        boxes = [
            [left + 4, top, min(right + 4, SIDE), bottom]
            for left, top, right, bottom in beside["boxes"]
        ]
        path.write_text(json.dumps({**beside, "boxes": boxes}))


STUDIES = {
    "cifar": Study(
        "accuracy",
        0.02,
        "torchvision",
        {
            "no normalisation in training": Recipe([RandomCrop(32, padding=4), HorizontalFlip()]),
            "no flip": Recipe([RandomCrop(32, padding=4), CIFAR]),
        },
        {"5 % of the labels shuffled": shuffle_labels},
    ),
    "boxes": Study(
        "map", 0.03, "albumentations", spoilt={"boxes 4 pixels too far to the right": shift_boxes}
    ),
    "video": Study(
        "accuracy",
        0.05,
        "torchvision",
        {"clips flipped": Recipe([*MOVING[:1], HorizontalFlip(), *MOVING[1:]])},
    ),
    "simclr": Study("accuracy", 0.05, None),
}
