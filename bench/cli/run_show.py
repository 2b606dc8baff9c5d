"""One loader over one dataset, with its speed shown as it goes."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from bench.cli.arguments import check_writable, dtype_from, recipe_from
from bench.cli.options import RunOptions
from bench.compare.contestant import share_of
from bench.compare.epochs import Tally, counted_batches, num_steps
from bench.compare.result import rates_of
from bench.output.errors import BenchError
from bench.output.results import save_result
from bench.output.text import print_plain
from bench.video.clips import ClipSettings, usual_batch_size
from dali_pipes import Loader
from dali_pipes.evaluation import random_steps
from dali_pipes.preview.pairs import pair_name
from dali_pipes.variants import make_variants
from readers import Dataset
from readers.plural import counted
from readers.prepare.source import open_at_random

_NUM_BAD_SHOWN = 5


def run_epochs(
    source: str,
    recipe: str,
    settings: RunOptions,
    clips: ClipSettings | None,
    *,
    how: Mapping[str, Any],
    json_path: Path | None,
) -> None:
    """Run a loader, show its progress, print a summary and write it down.

    Raises:
        BenchError: An argument that cannot work; other errors come from the packages themselves.
    """
    for name, value in (("epochs", settings.epochs), ("steps", settings.steps)):
        if value is not None and value < 1:
            raise BenchError(f"{name} must be 1 or more, got {value}: leave it out for one epoch")
    check_writable(json_path)
    check_writable(settings.ledger)
    long = {"epochs": settings.epochs, "steps": settings.steps}
    console = Console()
    with closing(_loader(source, recipe, settings, clips, how)) as loader:
        print_plain(console, loader.explain(), "dim")
        tally, unit = Tally(), "images" if clips is None else "clips"
        with _progress(console) as progress:
            task = progress.add_task("", total=num_steps(loader, **long), speed="")
            for batch in counted_batches(loader, tally, **long):
                progress.update(task, completed=tally.steps, speed=_speed(tally, loader, unit))
                del batch
        row = _row(loader, tally, clips, unit)
        _print_summary(loader, tally, unit, console)
    described: dict[str, object] = {
        **vars(settings),
        "clips": clips and vars(clips),
        "source_options": {name: str(value) for name, value in how.items()},
    }
    described["ledger"] = settings.ledger and str(settings.ledger)
    described |= {"data": source, "recipe": recipe, "device": str(loader.device)}
    described["batch_size"] = loader.steps.batch_size
    save_result(json_path, console, "run", described, [row])


def _loader(
    source: str,
    recipe: str,
    settings: RunOptions,
    clips: ClipSettings | None,
    how: Mapping[str, Any],
) -> Loader:
    dataset: Dataset = open_at_random(source, **how)
    if clips is not None:
        dataset = clips.clips(dataset)
    batch_size = settings.batch_size
    if batch_size is None:
        batch_size = max(1, min(usual_batch_size(clips), len(dataset)))
    chosen = recipe_from(recipe)
    return Loader(
        dataset,
        chosen,
        batch_size=batch_size,
        device=settings.device,
        # The loader checks these words itself and says which are allowed.
        decoder=cast("Any", settings.decoder),
        engine=cast("Any", settings.engine),
        on_bad_sample=cast("Any", settings.on_bad_sample),
        max_bad_samples=settings.max_bad_samples,
        seed=settings.seed,
        dtype=dtype_from(settings.dtype),
        ledger=settings.ledger,
        num_threads=settings.threads,
        prefetch=settings.prefetch,
        helper_process=settings.helper_process,
        # As the loader's own, but a recipe for evaluation leaves nothing out.
        last_batch="drop" if random_steps(make_variants(chosen, None).recipes) else "partial",
    )


def _progress(console: Console) -> Progress:
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _speed(tally: Tally, loader: Loader, unit: str) -> str:
    now = tally.rates[-1] if tally.rates else tally.rate.median
    return f"{now:.0f} {unit}/s, waited {tally.wait_share:.0%}, bad {len(loader.bad_samples)}"


def _row(loader: Loader, tally: Tally, clips: ClipSettings | None, unit: str) -> dict[str, object]:
    if loader.device.type == "cuda":
        torch.cuda.synchronize(loader.device)
    return {
        "name": pair_name(loader.decoder, loader.engine),
        "kind": "engine",
        **rates_of(tally.rate, clips.num_frames if clips else 0),
        "share": {**share_of(tally.stage_seconds), "wait": round(tally.wait_share, 3)},
        unit: tally.images,
        "steps": tally.steps,
        "seconds": round(tally.seconds, 3),
        "bad_samples": len(loader.bad_samples),
    }


def _print_summary(loader: Loader, tally: Tally, unit: str, console: Console) -> None:
    share = share_of(tally.stage_seconds)
    digits = 0 if unit == "images" else 1
    parts = ", ".join(f"{stage} {part:.0%}" for stage, part in share.items() if part is not None)
    console.print(
        f"{counted(tally.images, unit[:-1])} in {counted(tally.steps, 'batch')}, {tally.seconds:.1f} s, "
        f"{tally.rate.median:.{digits}f} {unit}/s (median of {len(tally.rate.runs)}); "
        f"work: {parts}; waited {tally.wait_share:.0%}",
        soft_wrap=True,
        highlight=False,
    )
    records = list({record.index: record for record in loader.bad_samples}.values())
    for record in records[:_NUM_BAD_SHOWN]:
        print_plain(console, f"bad sample {record.key} ({record.stage}): {record.reason}", "yellow")
    if len(records) > _NUM_BAD_SHOWN:
        print_plain(console, f"and {len(records) - _NUM_BAD_SHOWN} more", "yellow")
    if (times := len(loader.bad_samples)) > len(records):
        print_plain(console, f"{counted(len(records), 'bad sample')}, met {times} times", "yellow")
