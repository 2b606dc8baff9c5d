"""One loader over one dataset, with its speed shown as it goes."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, cast

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from bench.arguments import check_writable, dtype_from, recipe_from
from bench.compare.contestant import STAGES, share_of
from bench.compare.ours import row_name
from bench.compare.report import document, write_json
from bench.compare.result import rates_of
from bench.errors import BenchError
from bench.source import open_at_random
from bench.timer import Rate
from bench.video.clips import ClipSettings, usual_batch_size
from dali_pipes import Batch, Loader
from dali_pipes.evaluation import random_steps
from gpu_aug.compiled.clock import clock
from readers import Dataset
from readers.plural import counted

_STRETCH_SECONDS = 1.0
_NUM_BAD_SHOWN = 5


@dataclass(frozen=True)
class RunSettings:
    """What `dali_pipes.Loader` is given, in the words of the command line, and how long to go on.

    Attributes:
        batch_size: None is 64 images or 8 clips, or all of the data where that is less.
        epochs: None means one epoch, or with `steps` as many as those take.
        steps: Batches in all; None means whole epochs.
        clips: How clips are taken out of the data, where these are videos; None for images.
        format: Of the data, where its name does not tell it.
    """

    device: str = "auto"
    decoder: str = "auto"
    engine: str = "auto"
    batch_size: int | None = None
    epochs: int | None = None
    steps: int | None = None
    dtype: str = "float32"
    on_bad_sample: str = "raise"
    max_bad_samples: int | None = None
    ledger: Path | None = None
    seed: int = 0
    threads: int | None = None
    clips: ClipSettings | None = None
    format: str | None = None

    @property
    def unit(self) -> str:
        """What is counted."""
        return "images" if self.clips is None else "clips"

    def __post_init__(self) -> None:
        for name in ("epochs", "steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BenchError(
                    f"{name} must be 1 or more, got {value}: leave it out for one epoch"
                )


@dataclass
class Tally:
    """What has been handed over so far."""

    images: int = 0
    steps: int = 0
    wait_seconds: float = 0.0
    stage_seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    rates: list[float] = field(default_factory=list)
    began: float = field(default_factory=clock)
    seconds: float = 0.0
    _stretch_images: int = 0
    _stretch_began: float | None = None

    def add(self, num_images: int, wait_seconds: float) -> None:
        """Count a batch."""
        now = clock()
        self.images += num_images
        self.steps += 1
        self.wait_seconds += wait_seconds
        self.seconds = now - self.began
        if self._stretch_began is None:  # the first batch pays for the start
            self._stretch_began = now
            return
        self._stretch_images += num_images
        if now - self._stretch_began >= _STRETCH_SECONDS:
            self.rates.append(self._stretch_images / (now - self._stretch_began))
            self._stretch_images, self._stretch_began = 0, now

    @property
    def rate(self) -> Rate:
        """Images per second in stretches of a second after the first batch.

        A run that is too short for one goes by all of its time: batches that were made beside the first one would
        count as if they took none.
        """
        if self.rates:
            return Rate(tuple(self.rates))
        return Rate((self.images / max(self.seconds, 1e-9),))

    @property
    def wait_share(self) -> float:
        """Part of the time spent waiting for the loader."""
        return self.wait_seconds / max(self.seconds, 1e-9)


def run_epochs(source: str, recipe: str, settings: RunSettings, *, json_path: Path | None) -> None:
    """Run a loader, show its progress, print a summary and write it down.

    Raises:
        BenchError: An argument that cannot work; other errors come from the packages themselves.
    """
    check_writable(json_path)
    check_writable(settings.ledger)
    console = Console()
    with closing(_loader(source, recipe, settings)) as loader:
        console.print(Text(loader.explain(), style="dim"), soft_wrap=True)
        tally = Tally()
        with _progress(console) as progress:
            task = progress.add_task("", total=_num_steps(loader, settings), speed="")
            for batch in _batches(loader, settings, tally):
                progress.update(task, completed=tally.steps, speed=_speed(tally, loader, settings))
                del batch
        row = _row(loader, tally, settings)
        _summarise(loader, tally, settings, console)
    if json_path is not None:
        described = {name: _plain(value) for name, value in vars(settings).items()}
        described |= {"data": source, "recipe": recipe, "device": str(loader.device)}
        described["batch_size"] = loader.schedule.batch_size
        write_json(json_path, document("run", described, [row]))
        console.print(f"written: {json_path}", soft_wrap=True)


def _loader(source: str, recipe: str, settings: RunSettings) -> Loader:
    dataset: Dataset = open_at_random(source, settings.format)
    if settings.clips is not None:
        dataset = settings.clips.clips(dataset)
    batch_size = settings.batch_size
    if batch_size is None:
        batch_size = max(1, min(usual_batch_size(settings.clips), len(dataset)))
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
        # As the loader's own, but a recipe for evaluation leaves nothing out.
        last_batch="drop" if random_steps(chosen) else "partial",
    )


def _batches(loader: Loader, settings: RunSettings, tally: Tally) -> Iterator[Batch]:
    for epoch in count():
        if settings.epochs == epoch or (settings.epochs is None and not settings.steps and epoch):
            return
        batches = iter(loader)
        try:
            while True:
                asked = clock()
                batch = next(batches, None)
                if batch is None:
                    break
                tally.add(len(batch), clock() - asked)
                yield batch
                if tally.steps == settings.steps:
                    return
        finally:
            for stage in STAGES:
                tally.stage_seconds[stage] += getattr(loader.timings, stage)


def _num_steps(loader: Loader, settings: RunSettings) -> int:
    whole = len(loader) * (settings.epochs or 1)
    if settings.steps is None:
        return whole
    return settings.steps if settings.epochs is None else min(settings.steps, whole)


def _progress(console: Console) -> Progress:
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _speed(tally: Tally, loader: Loader, settings: RunSettings) -> str:
    now = tally.rates[-1] if tally.rates else tally.rate.median
    return (
        f"{now:.0f} {settings.unit}/s, waited {tally.wait_share:.0%}, bad {len(loader.bad_samples)}"
    )


def _row(loader: Loader, tally: Tally, settings: RunSettings) -> dict[str, object]:
    if loader.device.type == "cuda":
        torch.cuda.synchronize(loader.device)
    return {
        "name": row_name(loader.decoder, loader.engine),
        "kind": "engine",
        **rates_of(tally.rate, settings.clips.num_frames if settings.clips else 0),
        "share": {**share_of(tally.stage_seconds), "wait": round(tally.wait_share, 3)},
        settings.unit: tally.images,
        "steps": tally.steps,
        "seconds": round(tally.seconds, 3),
        "bad_samples": len(loader.bad_samples),
    }


def _summarise(loader: Loader, tally: Tally, settings: RunSettings, console: Console) -> None:
    share = share_of(tally.stage_seconds)
    unit, digits = settings.unit, 0 if settings.clips is None else 1
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
        console.print(
            Text(f"bad sample {record.key} ({record.stage}): {record.reason}", style="yellow"),
            soft_wrap=True,
        )
    if len(records) > _NUM_BAD_SHOWN:
        console.print(Text(f"and {len(records) - _NUM_BAD_SHOWN} more", style="yellow"))
    if (times := len(loader.bad_samples)) > len(records):
        console.print(
            Text(f"{counted(len(records), 'bad sample')}, met {times} times", style="yellow"),
            soft_wrap=True,
        )


def _plain(value: object) -> object:
    if isinstance(value, ClipSettings):
        return vars(value)
    return str(value) if isinstance(value, Path) else value
