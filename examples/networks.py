"""The small networks that the training examples share."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut, as in a ResNet: [B, C, H, W] becomes [B, D, H / 2, W / 2]."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(before, after, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it."""
        inside = F.relu(self.norms[0](self.first(x)))
        # Not stride=2: of fewer than 16 channels its gradient crashes torch 2.15 on CPUs with AVX-512.
        shortcut = self.shortcut(x[..., ::2, ::2])
        return F.relu(self.norms[1](self.second(inside)) + shortcut)


def small_resnet(width: int = 8) -> nn.Sequential:
    """Return a ResNet of 7 layers: float32 [B, 3, H, W] becomes [B, 8 * width, H / 8, W / 8]."""
    stem = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    blocks = [Block(width * 2**depth, width * 2 ** (depth + 1)) for depth in range(3)]
    return nn.Sequential(*stem, *blocks).to(memory_format=torch.channels_last)


def classifier(num_classes: int, width: int = 8) -> nn.Sequential:
    """Return a small ResNet with one score for each class."""
    last = nn.Linear(8 * width, num_classes)
    return nn.Sequential(small_resnet(width), nn.AdaptiveAvgPool2d(1), nn.Flatten(), last)


def small_3d(num_classes: int, width: int = 8) -> nn.Sequential:
    """Return a network that looks along time as well: clips [B, 3, T, H, W] become scores [B, num_classes]."""
    layers: list[nn.Module] = []
    before = 3
    for after in (width, 2 * width, 4 * width):
        layers += [nn.Conv3d(before, after, 3, stride=(1, 2, 2), padding=1, bias=False)]
        layers += [nn.BatchNorm3d(after), nn.ReLU()]
        before = after
    layers += [nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(before, num_classes)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last_3d)
