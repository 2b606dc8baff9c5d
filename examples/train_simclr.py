"""Train by contrast as SimCLR does, without labels, and probe what was learned with a linear classifier.

python examples/train_simclr.py DATA           # DATA as for train_cifar.py; --stop, --ranks and --recipe likewise

The probe must beat that of the same network with random weights by 5 points of accuracy. Expected: 0.48 to 0.49
against 0.34, in 6 to 9 minutes on two cores that other programs shared.
"""

import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from figures import pace, report
from networks import small_resnet
from torch import nn
from training import fit, parser, start

from dali_pipes import Loader
from gpu_aug import CenterCrop, Normalize, Recipe
from readers import Dataset, open_dataset

TEMPERATURE = 0.5
PLAIN = Recipe([CenterCrop(32), Normalize()])


class SimCLR(nn.Module):
    """A small ResNet with a projection on top."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(small_resnet(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.projection = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return vectors of length 1, [B, 64]."""
        return F.normalize(self.projection(self.encoder(images)))


def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
    """NT-Xent: of 2 * B views, which is the other one of the same picture?"""
    vectors = model(torch.cat(batch.views))
    count = len(batch.views[0])
    alike = vectors @ vectors.T / TEMPERATURE
    alike = alike.masked_fill(
        torch.eye(2 * count, dtype=torch.bool, device=alike.device), -torch.inf
    )
    other = torch.arange(2 * count, device=alike.device).roll(count)
    return F.cross_entropy(alike, other)


def probe(encoder: nn.Module, parts: Sequence[Dataset]) -> float:
    """Return the accuracy on the second part of a linear classifier that was trained on the first."""
    encoder.eval()
    (x, labels), (x_test, labels_test) = (features(encoder, part) for part in parts)
    mean, std = x.mean(0), x.std(0) + 1e-6
    x, x_test = (x - mean) / std, (x_test - mean) / std
    linear = nn.Linear(x.shape[1], int(labels.max()) + 1)
    nn.init.zeros_(linear.weight)
    optimizer = torch.optim.LBFGS(linear.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(linear(x), labels) + 1e-4 * linear.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return float((linear(x_test).argmax(1) == labels_test).float().mean())


@torch.no_grad()
def features(encoder: nn.Module, photos: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the encoder makes of every picture, float32 [N, 256], and the labels, int64 [N]."""
    pictures = Loader.eval(photos, PLAIN, batch_size=500, rank=0, world_size=1)
    found = [(encoder(batch.images).cpu(), batch.labels.cpu()) for batch in pictures]
    return torch.cat([one for one, _ in found]), torch.cat([labels for _, labels in found])


def train(given: Namespace) -> list[float]:
    """Train and probe on one rank; return the losses of this run's steps."""
    torch.manual_seed(given.seed)
    parts = [open_dataset(Path(given.data) / part) for part in ("train", "test")]
    recipe = Recipe.preset("simclr", size=32, strength=0.5)
    loader = Loader(parts[0], recipe, batch_size=given.batch_size // given.ranks, seed=given.seed)
    if given.pace:
        report(given, images_per_s=pace(loader))
        return []
    model = SimCLR().to(loader.device)
    features(
        model.encoder, parts[0]
    )  # the statistics of the random network's norms are those of the pictures
    random = probe(model.encoder, parts) if given.is_first else 0.0
    begun = time.perf_counter()
    losses = fit(given, model, loader, loss_of)
    figures = {"seconds": time.perf_counter() - begun}
    if given.is_first:
        figures |= {"accuracy": probe(model.encoder, parts), "random_features": random}
    report(given, **figures)
    return losses


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; return the losses of this run's steps."""
    options = parser(epochs=15, peer=None, checkpoint="train_simclr.pt")
    options.add_argument(
        "data", help="a folder with train/ and test/, each with a folder per class"
    )
    options.set_defaults(batch_size=256)
    return start(train, options.parse_args(argv))


if __name__ == "__main__":
    main()
