"""Train a small 3D network to tell how a shape moves, and compare it with torchvision's pipeline.

python examples/make_videos.py moving/
python examples/train_video.py moving/                            # --stop, --ranks and --recipe as in train_cifar.py
python examples/train_video.py moving/ --pipeline torchvision     # decoded by torchcodec, or PyAV where it finds no FFmpeg

Clips are not flipped: a flip turns left into right.

Expected: accuracy 0.38 to 0.67 after 30 epochs, by the seed (guessing gives 0.17), in 1 to 2 minutes on two cores that
other programs shared.
"""

import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from figures import accuracy, pace, report
from networks import small_3d
from peer_videos import torchvision_videos
from torch import nn
from training import fit, parser, start

from dali_pipes import Clips, Loader
from gpu_aug import ColorJitter, Normalize, RandomResizedCrop, Recipe, Resize
from readers import open_dataset

SIDE, NUM_FRAMES, STRIDE = 32, 8, 2
LAST = Normalize((0.45,) * 3, (0.225,) * 3)
TRAIN = Recipe([RandomResizedCrop(SIDE, scale=(0.6, 1.0)), ColorJitter(0.2, 0.2, 0.2), LAST])
TEST = Recipe([Resize((SIDE, SIDE)), LAST])


class MotionNet(nn.Module):
    """small_3d for the clips of a batch, [B, T, 3, H, W]."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.body = small_3d(num_classes)

    def forward(self, clips: torch.Tensor) -> torch.Tensor:
        """Return scores [B, num_classes]."""
        return self.body(clips.transpose(1, 2))


def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross entropy."""
    return F.cross_entropy(model(batch.images), batch.labels)


def train(given: Namespace) -> list[float]:
    """Train and test on one rank; return the losses of this run's steps."""
    torch.manual_seed(given.seed)
    folders = [Path(given.data) / part for part in ("train", "test")]
    if given.pipeline == "gpu-aug":
        videos, held_out = map(open_dataset, folders)
        clips = Clips(videos, num_frames=NUM_FRAMES, stride=STRIDE)
        middle = Clips(held_out, num_frames=NUM_FRAMES, stride=STRIDE, sampling="uniform")
        recipe = Recipe.load(given.recipe) if given.recipe else TRAIN
        loader = Loader(clips, recipe, batch_size=given.batch_size // given.ranks, seed=given.seed)
        test = Loader.eval(middle, TEST, batch_size=60)
    else:
        frames = (NUM_FRAMES, STRIDE)
        loader, test = torchvision_videos(folders, frames, SIDE, given.batch_size, given.seed)
    if given.pace:
        report(given, clips_per_s=pace(loader))
        return []
    model, begun = MotionNet(6), time.perf_counter()
    losses = fit(given, model, loader, loss_of)
    report(given, seconds=time.perf_counter() - begun, accuracy=accuracy(model, test))
    return losses


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; return the losses of this run's steps."""
    options = parser(epochs=30, peer="torchvision", checkpoint="train_video.pt")
    options.add_argument("data", help="a folder that make_videos.py wrote")
    options.set_defaults(batch_size=24)
    return start(train, options.parse_args(argv))


if __name__ == "__main__":
    main()
