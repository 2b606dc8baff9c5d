"""Steps: the batch stage and the loaders beside those of others."""

from pathlib import Path

import typer

from bench.batch import BatchSettings, measure_batch
from bench.compare import Settings, compare
from bench.gpu_visit.scale import Notes, Scale
from bench.pictures import load_pictures
from bench.report import comparison_document
from bench.works import Case
from gpu_aug import Recipe

_ROWS = ("gpu-aug/dali+fused", "gpu-aug/cpu+fused", "gpu-aug/dali+kornia")


def batch_stage(scale: Scale, data: Path, notes: Notes) -> None:
    """Affine, jitter, erasing and normalising: ours, Kornia's, Kornia compiled, torchvision's v2."""
    for with_compiled in (False, True) if scale.on_gpu else (False,):  # compiling may take its time
        settings = BatchSettings(
            scale.batch_size,
            scale.side,
            turns=3,
            seconds=scale.seconds / 2,
            with_compiled=with_compiled,
        )
        pictures = load_pictures(str(data), scale.batch_size, scale.side)
        result = measure_batch(Case(pictures, scale.device), settings)
        speeds = {name: scale.batch_size / turns.median for name, turns in result.turns.items()}
        name = "with Kornia compiled" if with_compiled else "eager"
        notes.put(**{name: {"images_per_second": speeds, "absent": result.absent}})
        ours = speeds["gpu-aug/fused"]
        ratios = ", ".join(f"{peer} {ours / speed:.1f}x" for peer, speed in speeds.items())
        notes.put(headline=f"fused {ours:.0f} images/s; against {ratios}")


def compare_loaders(scale: Scale, data: Path, notes: Notes) -> None:
    """Our loaders, ordinary and tiled, beside DALI's own pipeline, in turns."""
    tiled = tuple(f"{row} (tiled)" for row in _ROWS[:2])
    settings = Settings(
        seconds=scale.seconds * 5,
        rounds=3 if scale.on_gpu else 1,
        batch_size=min(scale.batch_size, 128),
        device=scale.device.type,
        only=(*_ROWS, *tiled, "dali-gpu" if scale.on_gpu else "dali-cpu", "decode-only"),
        tiled=True,
    )
    recipe = Recipe.imagenet_train(size=scale.side)
    comparison = compare(str(data), recipe, settings, typer.echo)
    ranked = "; ".join(f"{row.name} {row.rate.median:.0f}" for row in comparison.rows)
    notes.put(**comparison_document(comparison), headline=f"images/s: {ranked}")
    for absent in comparison.absent:
        typer.echo(f"---- {absent.name}: {absent.reason}\n{absent.trace}")
