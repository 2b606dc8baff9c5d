"""Count and display the progress of `gpu-aug run`: changing rows on a terminal, otherwise a line at intervals."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from rich.console import Console
from rich.live import Live
from rich.table import Table

from bench.output.text import fact_table, print_line
from bench.timing import Measurement, Turn
from dali_pipes import Batch, Loader
from dali_pipes.monitoring import STAGES, Stats
from dali_pipes.monitoring.counts import STAGE_GROUPS
from dali_pipes.monitoring.stage_stats import shown_name
from gpu_aug.compiled.clock import clock
from readers.plural import counted

_WINDOW_SECONDS = 2.0  # window of the values that are shown as "now"
_LINE_SECONDS = 10.0
_REFRESHES = 4  # of the display, per second


_STRETCH_SECONDS = 1.0  # length of an interval: several batches, but a slow one is still visible


@dataclass
class Tally:
    """Measures the rate of a run in intervals of a second; all other values are in the loader's statistics."""

    images: int = 0
    turns: list[Turn] = field(default_factory=list)
    began: float = field(default_factory=clock)
    seconds: float = 0.0
    # Count of images before the interval, and the interval's start time.
    _stretch: tuple[int, float] | None = None

    def add(self, num_images: int) -> None:
        """Count a batch."""
        now = clock()
        self.images += num_images
        self.seconds = now - self.began
        if self._stretch is None:  # the first batch includes the start
            self._stretch = (self.images, now)
        before, began = self._stretch
        if now - began >= _STRETCH_SECONDS:
            self.turns.append(Turn(self.images - before, now - began))
            self._stretch = (self.images, now)

    @property
    def rate(self) -> Measurement:
        """Images per second, in intervals of a second after the first batch.

        A run that is too short for an interval is measured over all of its time: otherwise batches that were made along
        with the first one would seem to take no time.
        """
        return Measurement(tuple(self.turns or [Turn(self.images, self.seconds)]))


def batches_of(
    loader: Loader,
    *,
    epochs: int | None,
    steps: int | None,
    on_epoch: Callable[[Stats], None] = lambda _: None,
) -> Iterator[Batch]:
    """Yield batches, epoch after epoch.

    Args:
        loader: The loader.
        epochs: Count of epochs; None means one epoch or, if `steps` is given, as many as the steps need.
        steps: Total count of batches; None means full epochs.
        on_epoch: Called with the statistics of each epoch at its end, also if the epoch is left early.
    """
    taken = 0
    for epoch in count():
        if epochs == epoch or (epochs is None and not steps and epoch):
            return
        try:
            for batch in loader:
                taken += 1
                yield batch
                if taken == steps:
                    return
        finally:
            on_epoch(loader.stats())


def num_steps(loader: Loader, *, epochs: int | None, steps: int | None) -> int:
    """Return how many batches `batches_of` will yield."""
    whole = len(loader) * (epochs or 1)
    if steps is None:
        return whole
    return steps if epochs is None else min(steps, whole)


def work_shares(stats: Stats) -> dict[str, float | None]:
    """Return the shares of read, decode, augment and copy in the loader's work; each is None before the first work."""
    seconds = {
        name: sum(stats.stages[stage].busy_seconds for stage in stages)
        for name, stages in STAGE_GROUPS.items()
    }
    total = sum(seconds.values())
    return {name: round(own / total, 3) if total > 0 else None for name, own in seconds.items()}


class RunView:
    """Displays a running loader.

    Args:
        loader: The loader.
        console: The console to display on.
        total: Count of batches of the run.
        unit: "images" or "clips".
        step_ms: Length of the simulated training step in milliseconds; None without a step.
    """

    def __init__(
        self, loader: Loader, console: Console, *, total: int, unit: str, step_ms: float | None
    ) -> None:
        self._loader, self._console, self._total = loader, console, total
        self._unit, self._step_ms = unit, step_ms
        self._before = self._latest = (clock(), loader.stats("run"))
        self._next_line = clock() + _LINE_SECONDS

    def live(self) -> Live:
        """Return a context manager that shows the rows on a terminal."""
        return Live(
            console=self._console,
            get_renderable=self.render,
            refresh_per_second=_REFRESHES,
            transient=True,
        )

    def update(self) -> None:
        """Without a terminal, print a line every ten seconds."""
        if not self._console.is_terminal and clock() >= self._next_line:
            self._next_line = clock() + _LINE_SECONDS
            print_line("; ".join(f"{name}: {text}" for name, text in self._facts()))

    def render(self) -> Table:
        """Return the rows for a terminal."""
        return fact_table(self._facts())

    def _facts(self) -> Iterator[tuple[str, str]]:
        latest = (clock(), self._loader.stats("run"))
        if latest[0] - self._latest[0] >= _WINDOW_SECONDS:
            self._before, self._latest = self._latest, latest
        seconds, now = latest[0] - self._before[0], latest[1] - self._before[1]
        epoch, run = self._loader.stats("epoch"), latest[1]
        yield f"epoch {epoch.epoch}", f"{run.steps:,} of {counted(self._total, 'batch')}"
        is_first = not epoch.queue.asked  # its first batches are not meaningful yet
        epoch = run if is_first else epoch
        yield "rate", self._rates(now, epoch, "run" if is_first else "epoch")
        shares = stage_shares(seconds, now).items()
        yield "threads", ", ".join(f"{shown_name(name)} {share:.0%}" for name, share in shares)
        if self._step_ms is not None:
            yield "waiting", waiting_in_words(epoch)
        elif epoch.limit:
            yield "limit", shown_name(epoch.limit) if epoch.limit in STAGES else "the loop itself"
        queue = epoch.queue
        if queue.capacity:
            size = counted(queue.capacity, "batch")
            yield "queue", f"{queue.depth} of {size} ready, {queue.mean:.1f} on average"
        if bad := bad_in_words(self._loader):
            yield "bad", bad
        if run.remote.requests or run.remote.cache_hits:
            yield "remote", run.remote.describe().partition(": ")[2]

    def _rates(self, now: Stats, longer: Stats, name: str) -> str:
        if not longer.images_per_second:
            return "one batch per epoch is too few to tell" if longer.steps else "no batch yet"
        nothing = "" if self._step_ms is not None else " (nothing trains: the loader alone)"
        rates = f"{now.images_per_second:,.0f} {self._unit}/s now"
        return f"{rates}, {longer.images_per_second:,.0f} over the {name}{nothing}"


def stage_shares(seconds: float, stats: Stats) -> dict[str, float]:
    """Return for each stage that took time its share of the threads' time, and the share in which threads were idle.

    Args:
        seconds: Available seconds of all threads together.
        stats: The statistics of the period in which this time was available.
    """
    busy = {name: stats.stages[name].busy_seconds for name in STAGES}
    available = max(seconds * stats.num_threads, 1e-9, sum(busy.values()))
    shares = {name: spent / available for name, spent in busy.items() if spent >= 0.005 * available}
    return shares | {"idle": max(0.0, 1 - sum(busy.values()) / available)}


def bad_in_words(loader: Loader) -> str:
    """Return a text with the count of different bad samples, which each epoch finds again; "" if no sample was bad."""
    met = [record.index for record in loader.bad_samples]
    num_different = len(set(met))
    times = f", met {len(met):,} times" if len(met) > num_different else ""
    return counted(num_different, "sample") + times if met else ""


def waiting_in_words(stats: Stats) -> str:
    """Return a text with the waiting time of the training loop, and the stages that it waited for."""
    if not stats.queue.asked:
        return "for the first batch"
    owed = sorted(stats.late.items(), key=lambda part: -part[1])
    parts = [
        f"{shown_name(name)} {part / stats.wait_seconds:.0%}" for name, part in owed[:3] if part
    ]
    return f"{stats.wait_share:.0%} of the time{', owed to ' if parts else ''}{', '.join(parts)}"
