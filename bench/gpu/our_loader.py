"""Our loader as people train with it, over photographs that are repeated for a long epoch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from bench.gpu.scale import Scale
from dali_pipes import Batch, Loader, available_decoders
from gpu_aug import Recipe
from readers import open_dataset

Decoder = Literal["cuda", "dali", "cpu"]

_SAMPLES = (
    500_000  # of an epoch: at 50,000 images/s it lasts 10 s, so that no measurement meets its end
)


def decoders(scale: Scale) -> list[Decoder]:
    """The decoders that can be used here; a rehearsal has no "cuda"."""
    names: tuple[Decoder, ...] = ("cuda", "dali", "cpu") if scale.on_gpu else ("dali", "cpu")
    return [name for name in names if not available_decoders()[name]]


def usable(decoder: Decoder, scale: Scale) -> Decoder:
    """The decoder itself, or in a rehearsal "cpu" in place of "cuda"."""
    return "cpu" if decoder == "cuda" and not scale.on_gpu else decoder


def loader_for(scale: Scale, data: Path, decoder: Decoder, **options: Any) -> Loader:
    """Open our loader with the fused engine over a folder.

    Args:
        scale: Device and sizes.
        data: A folder of images.
        decoder: See `Loader`.
        options: Arguments of `Loader`; `picks` (int64 [n]) says which files an epoch repeats, all by default.
    """
    recipe = options.pop("recipe", None) or Recipe.imagenet_train_jitter(size=scale.side)
    found = open_dataset(data)
    picks = options.pop("picks", None)
    picks = np.arange(len(found)) if picks is None else picks
    # A selection, as users make one: the reader's own batched path stays in use.
    dataset = found.take(np.tile(picks, -(-(_SAMPLES if scale.on_gpu else 2000) // len(picks))))
    usual: dict[str, Any] = {"batch_size": min(scale.batch_size, 64), "engine": "fused"}
    usual |= {"device": scale.device, "decoder": usable(decoder, scale), "dtype": torch.bfloat16}
    return Loader(dataset, recipe, **{**usual, **options})


def endless(loader: Loader) -> Iterator[Batch]:
    """Yield the batches of one epoch after the other."""
    while True:
        yield from loader
