"""Step: loaders whose decoder is our own on the GPU, beside those with DALI and with the CPU."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import torch

from bench.gpu.photographs import photographs, write_files
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, finish, measure_rate
from dali_pipes import Loader, available_decoders
from gpu_aug import RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from readers.dataset import Subset
from readers.selection import Listed

Decoder = Literal["cuda", "dali", "cpu"]

_TIMES = 40  # that each photograph comes in an epoch
_BATCHES_MIN = 12


def cuda_loaders(scale: Scale, data: Path, rows: Rows) -> None:
    """Batches equal those of the CPU; then rates, checkpoints being known, and what the first epoch costs that finds them."""
    size, (count, _) = next(iter(scale.pictures.items()))
    with TemporaryDirectory(prefix="gpu-aug-") as root:
        found = open_dataset(write_files(Path(root) / "files", photographs(data, size, count)))
        repeated = Subset(found, Listed(np.tile(np.arange(count), _TIMES)))
        names = _decoders(scale)
        cached: dict[str, Any] = {"cache": "device"} if scale.on_gpu else {}
        for title, epochs, options in (
            ("batches of the GPU's decoder are those of the CPU's", 1, {}),
            ("so are those of files that stayed on the GPU", 2, cached),
        ):
            with rows.check(title) as row:
                one = _crops(scale, found, names[0], epochs, **options)
                other = _crops(scale, found, "cpu", epochs)
                control = int((one - other.roll(1, 0)).abs().max())
                row.judge(int((one - other).abs().max()), 0, control)
        for title, recipe in (
            ("crops of 224", Recipe([RandomResizedCrop(224)])),
            ("imagenet_train_jitter", Recipe.imagenet_train_jitter(size=224)),
        ):
            for name in names:
                for batch_size in (256, 1024):
                    for options in [{}, cached] if name == "cuda" else [{}]:
                        how = f"{name}{', files on the device' * bool(options)}"
                        with rows.measure(f"{how}, {title}, batches of {batch_size}") as row:
                            loader = _loader(scale, repeated, name, recipe, batch_size, **options)
                            _measure(row, loader, scale)


def _measure(row: Row, loader: Loader, scale: Scale) -> None:
    batches = _endless(loader)
    try:
        for _ in range(_BATCHES_MIN if scale.on_gpu else 1):
            next(batches)
        seconds = 1.5 if scale.on_gpu else None
        measure_rate(row, lambda: next(batches).images, scale, seconds=seconds)
    finally:
        batches.close()
        loader.close()
    row.facts["explain"] = loader.explain()[:300]


def _decoders(scale: Scale) -> list[Decoder]:
    """Those that can be used here; the first one is compared with the CPU's."""
    if not scale.on_gpu:
        return ["cpu"]
    return ["cuda", *(["dali"] if not available_decoders()["dali"] else []), "cpu"]  # type: ignore[list-item]


def _loader(
    scale: Scale,
    dataset: Dataset,
    decoder: Decoder,
    recipe: Recipe,
    batch_size: int,
    **options: Any,
) -> Loader:
    usual = {"device": scale.device, "engine": "fused", "dtype": torch.bfloat16}
    if not scale.on_gpu:
        batch_size = 8
    return Loader(dataset, recipe, batch_size=batch_size, decoder=decoder, **{**usual, **options})


def _endless(loader: Loader) -> Any:
    while True:
        yield from loader


def _crops(
    scale: Scale, dataset: Dataset, decoder: Decoder, epochs: int, **options: Any
) -> torch.Tensor:
    """All crops of the last of some epochs as the decode stage leaves them: int16 [n, 3, 96, 96] on the host."""
    recipe = Recipe([RandomResizedCrop(96)])
    options |= {"dtype": torch.uint8, "last_batch": "partial"}
    loader = _loader(scale, dataset, decoder, recipe, 64, **options)
    for _ in range(epochs):
        images = [batch.images.clone() for batch in loader]
    finish(scale.device)
    return torch.cat([one.cpu().to(torch.int16) for one in images])
