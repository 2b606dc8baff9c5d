"""`gpu-aug run`: run one loader over one dataset and show its speed."""

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import Any

import typer
from rich.console import Console

from bench.cli.execution import INTERRUPTED
from bench.cli.loader_arguments import loader_arguments
from bench.cli.options import RunOptions, SampledClipOptions, SourceOptions
from bench.cli.run_live import RunView, Tally, batches_of, num_steps, stage_shares, work_shares
from bench.compare.result import rates_of
from bench.output.arguments import check_different, check_writable
from bench.output.errors import BenchError, show_plainly
from bench.output.results import save_result
from bench.output.run_log import RunLogWriter
from bench.output.text import print_first, print_line, print_sentence, print_written
from bench.timing import synchronise
from dali_pipes import Loader
from dali_pipes.arguments.names import with_settings
from dali_pipes.monitoring import STAGES, Stats
from dali_pipes.monitoring.stage_stats import shown_name
from dali_pipes.monitoring.stats import ENOUGH_CORES
from dali_pipes.monitoring.trace import Trace, traced
from dali_pipes.preview.chosen_batches import pair_name
from readers.plural import counted

_NUM_BAD_SHOWN = 5
_MOST_STEP_MS = 3_600_000


def _check(settings: RunOptions) -> None:
    """Raise if the training step takes no time, a file cannot be written, or two outputs have one file."""
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
    data: str,
    recipe: str | None,
    asked: RunOptions,
    clips: SampledClipOptions,
    source: SourceOptions,
) -> None:
    """Run a loader, show its progress, print a summary and write the results.

    Raises:
        BenchError: An argument is invalid; other errors come from the packages themselves.
    """
    _check(asked)
    arguments, described = loader_arguments(data, recipe, asked, clips, source)
    # The loader's default chooses a count of helper processes; here, no option means no processes.
    arguments = with_settings(
        arguments, {"ledger": asked.ledger, "helper_process": asked.helper_process}
    )
    with closing(Loader(**arguments)) as loader:
        print_line(loader.explain(), "dim")
        described |= {"device": str(loader.device), "batch_size": loader.steps.batch_size}
        unit = "images" if described["clips"] is None else "clips"
        tally, interrupted = Tally(), False
        try:
            _run(loader, asked, described, unit, tally)
        except KeyboardInterrupt:
            interrupted = True
        synchronise(loader.device)
        row = _row(loader, tally, described["clips"] or {}, unit)
        _print_summary(loader, tally, unit, asked.step_ms)
    for path in (asked.log, asked.trace):
        if path is not None:
            print_written(Console(), path)
    save_result(asked.json, Console(), "run", described, [row])
    if interrupted:
        show_plainly("interrupted: the numbers are of what was run until then")
        raise typer.Exit(INTERRUPTED)


def _run(
    loader: Loader, asked: RunOptions, described: Mapping[str, Any], unit: str, tally: Tally
) -> None:
    """Take the batches and count them in `tally`, which stays valid after an interrupt."""
    long = {"epochs": asked.epochs, "steps": asked.steps}
    total, console, log = num_steps(loader, **long), Console(), None
    with ExitStack() as stack:
        if asked.log is not None:
            named = {name: described[name] for name in ("data", "recipe")}
            writer = RunLogWriter(asked.log, loader, {**named, "settings": described})
            log = stack.enter_context(writer)
        if asked.trace is not None:
            trace = stack.enter_context(traced(loader, asked.trace))
            stack.callback(_print_left_out, trace)
        view = RunView(loader, console, total=total, unit=unit, step_ms=asked.step_ms)
        if console.is_terminal:
            stack.enter_context(view.live())
        end_epoch = (lambda _: None) if log is None else log.end_epoch
        for batch in batches_of(loader, **long, on_epoch=end_epoch):
            tally.add(len(batch))
            if log is not None:
                log.count(batch)
            view.update()
            if asked.step_ms is not None:
                time.sleep(asked.step_ms / 1000)
            del batch


def _print_left_out(trace: Trace) -> None:
    if trace.left_out:
        left_out = counted(trace.left_out, "event")
        print_line(f"the trace was full before the end: {left_out} left out", "yellow")


def _row(loader: Loader, tally: Tally, clips: Mapping[str, Any], unit: str) -> dict[str, object]:
    stats = loader.stats("run")
    return {
        "name": pair_name(loader.decoder, loader.engine),
        "kind": "engine",
        **rates_of(tally.rate, clips.get("num_frames", 0)),
        "share": {**work_shares(stats), "wait": round(stats.wait_share, 3)},
        unit: stats.samples,
        "steps": stats.steps,
        "seconds": round(tally.seconds, 3),
        "bad_samples": len(loader.bad_samples),
    }


def _print_summary(loader: Loader, tally: Tally, unit: str, step_ms: float | None) -> None:
    stats = loader.stats("run")
    parts = [f"{name} {part:.0%}" for name, part in work_shares(stats).items() if part is not None]
    print_sentence(
        f"{counted(stats.samples, unit[:-1])} in {counted(stats.steps, 'batch')}, {tally.seconds:.1f} s, "
        f"{tally.rate.median:.{0 if unit == 'images' else 1}f} {unit}/s; work: {', '.join(parts)}"
    )
    print_sentence(verdict(stats, unit, step_ms))
    if stats.remote.requests or stats.remote.cache_hits:
        print_sentence(stats.remote.describe())
    records = {record.index: record for record in loader.bad_samples}.values()
    bad = [f"bad sample {one.key} ({one.stage}): {one.reason}" for one in records]
    print_first(bad, _NUM_BAD_SHOWN)
    if (times := len(loader.bad_samples)) > len(bad):
        print_line(f"{counted(len(bad), 'bad sample')}, met {times} times", "yellow")


def verdict(stats: Stats, unit: str, step_ms: float | None) -> str:
    """Return a sentence that says what limits a run.

    Args:
        stats: The statistics of the full run.
        unit: "images" or "clips".
        step_ms: Length of the simulated training step in milliseconds; None without a step.
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
