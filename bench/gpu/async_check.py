"""Step: losses are the same whether or not the loop waits for the device."""

from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.gpu.our_loader import Decoder, decoders, endless, loader_for
from bench.gpu.photographs import photographs, write_files
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, finish
from gpu_aug import Recipe


def races(scale: Scale, data: Path, rows: Rows) -> None:
    """Losses without waiting, twice, beside those of a loop that waits after each batch."""
    count = 500 if scale.on_gpu else 6
    with TemporaryDirectory() as root:
        folder = write_files(Path(root) / "small", photographs(data, (96, 128), 64))
        for decoder in decoders(scale):
            with rows.check(decoder, batches=count) as row:
                patient = losses(scale, folder, decoder, waits=True, count=count)
                hasty = [losses(scale, folder, decoder, waits=False, count=count) for _ in "ab"]
                other = losses(scale, folder, decoder, waits=True, count=count // 20 + 2, seed=1)
                apart = [[n for n in range(count) if run[n] != patient[n]] for run in hasty]
                row.unit = "losses that differ"
                row.facts["first at step"] = [steps[0] for steps in apart if steps]
                control = sum(one != two for one, two in zip(other, patient, strict=False))
                row.judge(sum(map(len, apart)), 0, control)


def losses(
    scale: Scale, folder: Path, decoder: Decoder, *, waits: bool, count: int, seed: int = 0
) -> list[float]:
    """Losses of a small model that learns, in a loop that gives memory back and takes it again all the time."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(3 * 49, 64, dtype=torch.float64, generator=generator) / 10
    weights = weights.to(scale.device)
    found = []
    options: dict[str, Any] = {"batch_size": min(scale.batch_size, 32), "seed": seed}
    recipe = Recipe.imagenet_train_jitter(size=64)
    with loader_for(scale, folder, decoder, recipe=recipe, **options) as loader:
        for batch in islice(endless(loader), count):
            if waits:
                finish(scale.device)
            pooled = torch.nn.functional.adaptive_avg_pool2d(batch.images.double(), 7).flatten(1)
            answers = pooled @ weights
            found.append(answers.square().mean())
            weights = weights - 0.01 * (pooled.T @ answers) / answers.numel()
            shape = batch.images.shape
            del batch, pooled, answers
            # Where a kernel of the loader still writes to memory that is given out again, this shows.
            litter = [torch.full(shape, torch.nan, device=scale.device) for _ in range(4)]
            del litter
    return torch.stack(found).tolist()
