"""Train a small detector of shapes in photographs, and compare it with Albumentations' pipeline.

python examples/make_boxes.py shapes/
python examples/train_boxes.py shapes/                            # --stop, --ranks and --recipe as in train_cifar.py
python examples/train_boxes.py shapes/ --pipeline albumentations

Expected: mAP 0.48 to 0.50 after 20 epochs, in 2 to 3 minutes on two cores that other programs shared.
"""

import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import torch
from detector import SIDE, Detector, loss_of, mean_precision
from figures import pace, report
from peer_boxes import albumentations_boxes
from training import fit, parser, start

from dali_pipes import Loader
from gpu_aug import (
    BoxParams,
    ColorJitter,
    HorizontalFlip,
    Normalize,
    RandomResizedCrop,
    Recipe,
    Resize,
)
from readers import open_dataset

OPERATIONS = [
    RandomResizedCrop(SIDE, scale=(0.5, 1.0)),
    HorizontalFlip(),
    ColorJitter(0.2, 0.2, 0.2, 0.05),
    Normalize(),
]
TRAIN = Recipe(OPERATIONS, boxes=BoxParams(min_visibility=0.3))
TEST = Recipe([Resize((SIDE, SIDE)), Normalize()])


def train(given: Namespace) -> list[float]:
    """Train and test on one rank; return the losses of this run's steps."""
    torch.manual_seed(given.seed)
    folders = [Path(given.data) / part for part in ("train", "test")]
    if given.pipeline == "gpu-aug":
        photos, held_out = map(open_dataset, folders)
        recipe = Recipe.load(given.recipe) if given.recipe else TRAIN
        share = given.batch_size // given.ranks
        loader = Loader(photos, recipe, batch_size=share, seed=given.seed)
        test = Loader.eval(held_out, TEST, batch_size=100, rank=0, world_size=1)
    else:
        loader, test = albumentations_boxes(folders, SIDE, given.batch_size, given.seed)
    if given.pace:
        report(given, images_per_s=pace(loader))
        return []
    model, begun = Detector(), time.perf_counter()
    losses = fit(given, model, loader, loss_of)
    report(given, seconds=time.perf_counter() - begun, **mean_precision(model, test))
    return losses


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; return the losses of this run's steps."""
    options = parser(epochs=20, peer="albumentations", checkpoint="train_boxes.pt")
    options.add_argument("data", help="a folder that make_boxes.py wrote")
    options.set_defaults(batch_size=32)
    return start(train, options.parse_args(argv))


if __name__ == "__main__":
    main()
