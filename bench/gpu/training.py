"""A training step of ResNet-50, in front of which loaders are measured."""

import itertools
from collections.abc import Callable

import torch

from bench.gpu.scale import Scale

Step = Callable[[torch.Tensor], None]
"""One step of training with images [b, 3, side, side]."""

_BETWEEN_LOSSES = 8  # steps after which a training loop reads its loss


def training_step(scale: Scale) -> Step:
    """Make a step of ResNet-50 in bfloat16, channels last; in a rehearsal of one layer."""
    from torchvision.models import resnet50

    torch.backends.cudnn.benchmark = scale.on_gpu  # the fastest convolutions for these shapes
    tiny = (torch.nn.Conv2d(3, 10, 3, 4), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    model = resnet50() if scale.on_gpu else torch.nn.Sequential(*tiny)
    model = model.to(scale.device).to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    numbers = itertools.count()

    def step(images: torch.Tensor) -> None:
        images = images.contiguous(memory_format=torch.channels_last)
        labels = torch.zeros(len(images), dtype=torch.int64, device=scale.device)
        with torch.autocast(scale.device.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if next(numbers) % _BETWEEN_LOSSES == 0:
            loss.item()

    return step


def resident_batch(scale: Scale) -> torch.Tensor:
    """A batch that lies on the device already: bfloat16 [b, 3, side, side], channels last."""
    shape = (scale.batch_size, 3, scale.side, scale.side)
    images = torch.randn(shape, device=scale.device, dtype=torch.bfloat16)
    return images.contiguous(memory_format=torch.channels_last)
