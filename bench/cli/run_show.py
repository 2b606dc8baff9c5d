"""One loader over one dataset, with its speed shown as it goes."""

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, cast

import torch
import typer
from rich.console import Console

from bench.cli.execution import INTERRUPTED
from bench.cli.options import RunOptions
from bench.cli.run_epochs import Tally, batches_of, num_steps, work_shares
from bench.cli.run_live import RunView, stage_shares
from bench.cli.tables import print_first
from bench.compare.clips import ClipSettings, usual_batch_size
from bench.compare.result import rates_of
from bench.output.arguments import check_different, check_writable, dtype_from, recipe_from
from bench.output.errors import BenchError, show_plainly
from bench.output.results import save_result
from bench.output.run_log import RunLogWriter
from bench.output.text import print_plain, print_sentence, print_written
from dali_pipes import Loader
from dali_pipes.evaluation import random_steps
from dali_pipes.preview.pairs import pair_name
from dali_pipes.stats import STAGES, Stats
from dali_pipes.stats.stats import ENOUGH_CORES
from dali_pipes.stats.table import shown_name
from dali_pipes.stats.trace import Trace, traced
from dali_pipes.variants import make_variants
from readers import Dataset
from readers.plural import counted
from readers.prepare.source import open_at_random

_NUM_BAD_SHOWN = 5
_MOST_STEP_MS = 3_600_000


def _check(settings: RunOptions) -> None:
    """Refuse a step of no time, files that cannot be written, or one file for two of them."""
    step_ms = settings.step_ms
    if step_ms is not None and not 0 < step_ms <= _MOST_STEP_MS:
        raise BenchError(
            f"step_ms must be greater than 0 and at most {_MOST_STEP_MS:,}, got {step_ms}: leave it out where nothing "
            "shall train"
        )
    files = {name: getattr(settings, name) for name in ("log", "trace", "json", "ledger")}
    for path in files.values():
        check_writable(path)
    check_different(**files)


def run_epochs(
    source: str,
    recipe: str,
    settings: RunOptions,
    clips: ClipSettings | None,
    *,
    how: Mapping[str, Any],
) -> None:
    """Run a loader, show its progress, print a summary and write it down.

    Raises:
        BenchError: An argument that cannot work; other errors come from the packages themselves.
    """
    _check(settings)
    console, unit = Console(), "images" if clips is None else "clips"
    with closing(_loader(source, recipe, settings, clips, how)) as loader:
        print_plain(console, loader.explain(), "dim")
        described = {
            **{
                name: str(of) if isinstance(of, Path) else of for name, of in vars(settings).items()
            },
            "clips": clips and vars(clips),
            "source_options": {name: str(value) for name, value in how.items()},
            "data": source,
            "recipe": recipe,
            "device": str(loader.device),
            "batch_size": loader.steps.batch_size,
        }
        tally, interrupted = Tally(), False
        try:
            _run(loader, settings, console, described, tally)
        except KeyboardInterrupt:
            interrupted = True
        row = _row(loader, tally, clips, unit)
        _print_summary(loader, tally, unit, console, settings.step_ms)
    for path in (settings.log, settings.trace):
        if path is not None:
            print_written(console, path)
    save_result(settings.json, console, "run", described, [row])
    if interrupted:
        show_plainly("interrupted: the numbers are of what was run until then")
        raise typer.Exit(INTERRUPTED)


def _run(
    loader: Loader,
    settings: RunOptions,
    console: Console,
    described: dict[str, Any],
    tally: Tally,
) -> None:
    """Take the batches and count them in `tally`, which an interrupt leaves as it was then."""
    long = {"epochs": settings.epochs, "steps": settings.steps}
    step_ms, unit = settings.step_ms, "images" if described["clips"] is None else "clips"
    log = None
    with ExitStack() as stack:
        if settings.log is not None:
            named = {name: described[name] for name in ("data", "recipe")}
            writer = RunLogWriter(settings.log, loader, {**named, "settings": described})
            log = stack.enter_context(writer)
        if settings.trace is not None:
            trace = stack.enter_context(traced(loader, settings.trace))
            stack.callback(_print_left_out, console, trace)
        total = num_steps(loader, **long)
        view = RunView(loader, console, total=total, unit=unit, step_ms=step_ms)
        if console.is_terminal:
            stack.enter_context(view.live())
        end_epoch = (lambda _: None) if log is None else log.end_epoch
        for batch in batches_of(loader, **long, on_epoch=end_epoch):
            tally.add(len(batch))
            if log is not None:
                log.count(batch)
            view.update()
            if step_ms is not None:
                time.sleep(step_ms / 1000)
            del batch


def _print_left_out(console: Console, trace: Trace) -> None:
    if trace.left_out:
        left_out = counted(trace.left_out, "event")
        print_plain(console, f"the trace was full before the end: {left_out} left out", "yellow")


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
        prefetch="auto" if settings.prefetch is None else settings.prefetch,
        helper_process=settings.helper_process,
        # As the loader's own, but a recipe for evaluation leaves nothing out.
        last_batch="drop" if random_steps(make_variants(chosen, None).recipes) else "partial",
    )


def _row(loader: Loader, tally: Tally, clips: ClipSettings | None, unit: str) -> dict[str, object]:
    if loader.device.type == "cuda":
        torch.cuda.synchronize(loader.device)
    stats = loader.stats("run")
    return {
        "name": pair_name(loader.decoder, loader.engine),
        "kind": "engine",
        **rates_of(tally.rate, clips.num_frames if clips else 0),
        "share": {**work_shares(stats), "wait": round(stats.wait_share, 3)},
        unit: stats.samples,
        "steps": stats.steps,
        "seconds": round(tally.seconds, 3),
        "bad_samples": len(loader.bad_samples),
    }


def _print_summary(
    loader: Loader, tally: Tally, unit: str, console: Console, step_ms: float | None
) -> None:
    stats = loader.stats("run")
    parts = [f"{name} {part:.0%}" for name, part in work_shares(stats).items() if part is not None]
    print_sentence(
        console,
        f"{counted(stats.samples, unit[:-1])} in {counted(stats.steps, 'batch')}, {tally.seconds:.1f} s, "
        f"{tally.rate.median:.{0 if unit == 'images' else 1}f} {unit}/s; work: {', '.join(parts)}",
    )
    print_sentence(console, verdict(stats, unit, step_ms))
    if stats.remote.requests or stats.remote.cache_hits:
        print_sentence(console, stats.remote.shown())
    records = {record.index: record for record in loader.bad_samples}.values()
    bad = [f"bad sample {one.key} ({one.stage}): {one.reason}" for one in records]
    print_first(console, bad, _NUM_BAD_SHOWN)
    if (times := len(loader.bad_samples)) > len(bad):
        print_plain(console, f"{counted(len(bad), 'bad sample')}, met {times} times", "yellow")


def verdict(stats: Stats, unit: str, step_ms: float | None) -> str:
    """Say in one sentence what limits a run.

    Args:
        stats: Of the whole run.
        unit: "images" or "clips".
        step_ms: How long a training step was played; None where nothing trained.
    """
    if step_ms is not None:
        played = f"with a training step of {step_ms:g} ms, played by sleeping"
        return f"{played}, {stats.verdict or 'one batch per epoch is too few to tell what limits'}"
    shares = stage_shares(stats.start_seconds + stats.seconds, stats)
    most = max(STAGES, key=lambda name: shares.get(name, 0.0))
    limit = stats.limit if stats.limit in STAGES else most
    rate = stats.images_per_second
    alone = f"; the loader alone makes {rate:,.0f} {unit}/s" if rate else ""
    cores = (
        f"; threads had a core for only {stats.core_share:.0%} of their work"
        if stats.core_share < ENOUGH_CORES
        else ""
    )
    return (
        f"nothing trained{alone}, and {shown_name(limit)} limits it, with {shares.get(limit, 0.0):.0%} of the threads' "
        f"time{cores} (--step-ms N plays a training step)"
    )
