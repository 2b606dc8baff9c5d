"""What the training examples tell at their end: accuracy, samples per second."""

import json
import time
from argparse import Namespace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


def mean_over_ranks(value: torch.Tensor) -> torch.Tensor:
    """Return the mean of a tensor over the ranks."""
    if dist.is_initialized():
        dist.all_reduce(value)
        value /= dist.get_world_size()
    return value


def accuracy(model: nn.Module, test: Any) -> float:
    """Return the share of pictures that are told rightly, over all ranks."""
    counts = torch.zeros(2)
    model.eval()
    with torch.inference_mode():
        for batch in test:
            right = (model(batch.images).argmax(1) == batch.labels).cpu()
            counts += torch.tensor([right.sum(), len(right)])
    right, count = mean_over_ranks(counts).tolist()
    return right / count


def pace(loader: Any) -> float:
    """Return the samples per second of an epoch without training, after one that does not count."""
    for _ in range(2):
        begun = time.perf_counter()
        count = sum(len(batch.images) for batch in loader)
    return count / (time.perf_counter() - begun)


def report(given: Namespace, **figures: float) -> None:
    """Print figures, and write them into the file of --json."""
    if given.is_first:
        print(", ".join(f"{name} {value:.4g}" for name, value in figures.items()), flush=True)
        if given.json:
            given.json.write_text(json.dumps(figures))
