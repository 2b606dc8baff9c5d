"""Our loader as people train with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bench.compare.images import Repeated
from bench.gpu.scale import Scale
from dali_pipes import Batch, Loader, available_decoders
from gpu_aug import Recipe
from readers import open_dataset

Decoder = Literal["dali", "cpu"]


def decoders() -> list[Decoder]:
    """The installed decoders."""
    names: tuple[Decoder, ...] = ("dali", "cpu")
    return [name for name in names if not available_decoders()[name]]


def loader_for(scale: Scale, data: Path, decoder: Decoder, **options: Any) -> Loader:
    """Our loader with the fused engine, as people train with it; `picks` says what an endless epoch repeats."""
    usual: dict[str, Any] = {"batch_size": min(scale.batch_size, 64), "engine": "fused"}
    recipe = options.pop("recipe", None) or Recipe.imagenet_train_jitter(size=scale.side)
    found = open_dataset(data)
    picks: NDArray[np.int64] | None = options.pop("picks", None)
    # Without an end, at which pipelines drain.
    dataset = Repeated(found, np.arange(len(found)) if picks is None else picks)
    usual |= {"device": scale.device, "decoder": decoder, "dtype": torch.bfloat16}
    return Loader(dataset, recipe, **{**usual, **options})


def endless(loader: Loader) -> Iterator[Batch]:
    """One epoch after the other."""
    while True:
        yield from loader
