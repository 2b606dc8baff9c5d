"""What a training loop does with batches: ResNet-50 in bfloat16, as people train it."""

from collections.abc import Callable
from typing import Any

import torch

from bench.gpu_visit.scale import Scale

DTYPE = torch.bfloat16

Pair = tuple[torch.Tensor, torch.Tensor]
"""Images [b, 3, side, side] and labels [b]."""


def training_step(scale: Scale) -> Callable[[Pair], None]:
    """One step of training, channels last; it does not wait for the device."""
    torch.backends.cudnn.benchmark = scale.on_gpu  # the fastest convolutions for these shapes
    model = _model(scale).to(scale.device).to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(batch: Pair) -> None:
        images, labels = batch
        with torch.autocast(scale.device.type, dtype=DTYPE):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def resident_batch(scale: Scale, num: int) -> Pair:
    """A batch that lies on the device already, for a loop without a loader."""
    images: Any = torch.randn(num, 3, scale.side, scale.side, device=scale.device, dtype=DTYPE)
    return images.to(memory_format=torch.channels_last), resident_labels(scale, num)


def resident_labels(scale: Scale, num: int) -> torch.Tensor:
    """Labels for loaders that hand over none."""
    return torch.zeros(num, dtype=torch.int64, device=scale.device)


def _model(scale: Scale) -> torch.nn.Module:
    """ResNet-50; in a rehearsal one layer."""
    from torchvision.models import resnet50

    if scale.on_gpu:
        model: torch.nn.Module = resnet50(num_classes=10)
        return model
    pool = torch.nn.AdaptiveAvgPool2d(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 10, 3, 4), pool, torch.nn.Flatten())
