"""Train a small ResNet on CIFAR-10 from scratch, and compare it with torchvision's pipeline.

python examples/train_cifar.py DATA                            # DATA/train/CLASS/*.jpg and DATA/test/CLASS/*.jpg
python examples/train_cifar.py DATA --stop 300                 # the same again goes on from train_cifar.pt
python examples/train_cifar.py DATA --ranks 2                  # two processes, the same global batches
python examples/train_cifar.py DATA --pipeline torchvision     # the same training on torchvision's transforms
python examples/train_cifar.py DATA --randaugment --mix cutmix --epochs 40

Expected: accuracy 0.61 to 0.64 after 10 epochs, the default, in 2 to 4 minutes on two cores that other programs shared. See
docs/speed.md, "Accuracy", for the comparison.
"""

import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from figures import accuracy, pace, report
from networks import classifier
from peer_images import torchvision_images
from torch import nn
from training import fit, parser, start

from dali_pipes import Loader
from gpu_aug import (
    CenterCrop,
    CutMix,
    HorizontalFlip,
    MixUp,
    Normalize,
    RandAugment,
    RandomCrop,
    Recipe,
)
from readers import open_dataset

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of CIFAR-10, in [0, 1]
MIXES = {"mixup": MixUp(0.2, num_classes=10), "cutmix": CutMix(1.0, num_classes=10)}


def recipe_of(given: Namespace) -> Recipe:
    """Return what the command line asks for."""
    if given.recipe:
        return Recipe.load(given.recipe)
    policy = [RandAugment(num_ops=1, magnitude=5)] if given.randaugment else []
    mix = [MIXES[given.mix]] if given.mix else []
    crop = RandomCrop(32, padding=4)
    return Recipe([crop, HorizontalFlip(), *policy, Normalize(MEAN, STD), *mix])


def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross entropy, of whole labels or of shares."""
    return F.cross_entropy(model(batch.images), batch.labels)


def train(given: Namespace) -> list[float]:
    """Train and test on one rank; return the losses of this run's steps."""
    torch.manual_seed(given.seed)
    folders, batch_size = [Path(given.data) / part for part in ("train", "test")], given.batch_size
    if given.pipeline == "gpu-aug":
        photos, held_out = map(open_dataset, folders)
        share = batch_size // given.ranks
        loader = Loader(photos, recipe_of(given), batch_size=share, seed=given.seed)
        test = Loader.eval(held_out, Recipe([CenterCrop(32), Normalize(MEAN, STD)]), batch_size=500)
    else:
        loader, test = torchvision_images(folders, batch_size, given.seed, MEAN, STD)
    if given.pace:
        report(given, images_per_s=pace(loader))
        return []
    model = classifier(10)
    begun = time.perf_counter()
    losses = fit(given, model, loader, loss_of)
    seconds = time.perf_counter() - begun
    trained = len(losses) * batch_size
    report(
        given,
        accuracy=accuracy(model, test),
        loss=sum(losses[-20:]) / max(1, len(losses[-20:])),
        seconds=seconds,
        trained_images_per_s=trained / seconds,
    )
    return losses


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; return the losses of this run's steps."""
    options = parser(epochs=10, peer="torchvision", checkpoint="train_cifar.pt")
    options.add_argument(
        "data", help="a folder with train/ and test/, each with a folder per class"
    )
    options.add_argument("--randaugment", action="store_true")
    options.add_argument("--mix", choices=list(MIXES))
    return start(train, options.parse_args(argv))


if __name__ == "__main__":
    main()
