"""What `gpu-aug run` counts and shows while it runs: rows that change on a terminal, else a line now and then."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from rich.console import Console
from rich.live import Live
from rich.table import Table

from bench.cli.tables import fact_table
from bench.output.text import print_line
from bench.timing import Measurement, Turn
from dali_pipes import Batch, Loader
from dali_pipes.monitoring import STAGES, Stats
from dali_pipes.monitoring.counts import STAGE_GROUPS
from dali_pipes.monitoring.stage_stats import shown_name
from gpu_aug.compiled.clock import clock
from readers.plural import counted

_WINDOW_SECONDS = 2.0  # over which "now" is meant
_LINE_SECONDS = 10.0
_REFRESHES = 4  # per second


_STRETCH_SECONDS = 1.0  # long enough for several batches, short enough to see a slow one


@dataclass
class Tally:
    """The rate in stretches of a second; all else stands in the loader's statistics."""

    images: int = 0
    turns: list[Turn] = field(default_factory=list)
    began: float = field(default_factory=clock)
    seconds: float = 0.0
    _stretch: tuple[int, float] | None = None  # the images before it, and when it began

    def add(self, num_images: int) -> None:
        """Count a batch."""
        now = clock()
        self.images += num_images
        self.seconds = now - self.began
        if self._stretch is None:  # the first batch pays for the start
            self._stretch = (self.images, now)
        before, began = self._stretch
        if now - began >= _STRETCH_SECONDS:
            self.turns.append(Turn(self.images - before, now - began))
            self._stretch = (self.images, now)

    @property
    def rate(self) -> Measurement:
        """Images per second in stretches of a second after the first batch.

        A run that is too short for one goes by all of its time: batches that were made beside the first one would
        count as if they took none.
        """
        return Measurement(tuple(self.turns or [Turn(self.images, self.seconds)]))


def batches_of(
    loader: Loader,
    *,
    epochs: int | None,
    steps: int | None,
    on_epoch: Callable[[Stats], None] = lambda _: None,
) -> Iterator[Batch]:
    """Take batches, epoch after epoch.

    Args:
        loader: Where they come from.
        epochs: None means one epoch, or with `steps` as many as those take.
        steps: Batches in all; None means whole epochs.
        on_epoch: Gets the statistics of each epoch at its end, also where it is left before.
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
    """Number of batches that `batches_of` will take."""
    whole = len(loader) * (epochs or 1)
    if steps is None:
        return whole
    return steps if epochs is None else min(steps, whole)


def work_shares(stats: Stats) -> dict[str, float | None]:
    """Which part of the loader's work each of read, decode, augment and copy was; None before there is any."""
    seconds = {
        name: sum(stats.stages[stage].busy_seconds for stage in stages)
        for name, stages in STAGE_GROUPS.items()
    }
    total = sum(seconds.values())
    return {name: round(own / total, 3) if total > 0 else None for name, own in seconds.items()}


class RunView:
    """Shows a loader that is run.

    Args:
        loader: The loader.
        console: Where it is shown.
        total: Batches that the run will take.
        unit: "images" or "clips".
        step_ms: How long a training step is played; None where nothing trains.
    """

    def __init__(
        self, loader: Loader, console: Console, *, total: int, unit: str, step_ms: float | None
    ) -> None:
        self._loader, self._console, self._total = loader, console, total
        self._unit, self._step_ms = unit, step_ms
        self._before = self._latest = (clock(), loader.stats("run"))
        self._next_line = clock() + _LINE_SECONDS

    def live(self) -> Live:
        """Return what shows the rows on a terminal while it is entered."""
        return Live(
            console=self._console,
            get_renderable=self.render,
            refresh_per_second=_REFRESHES,
            transient=True,
        )

    def update(self) -> None:
        """Print a line where there is no terminal, every ten seconds."""
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
        is_first = not epoch.queue.asked  # its first batches tell nothing yet
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
    """Return the part of the threads' time that each stage took, of those that took any, and the part that is left.

    Args:
        seconds: How long all threads were there.
        stats: What happened meanwhile.
    """
    busy = {name: stats.stages[name].busy_seconds for name in STAGES}
    available = max(seconds * stats.num_threads, 1e-9, sum(busy.values()))
    shares = {name: spent / available for name, spent in busy.items() if spent >= 0.005 * available}
    return shares | {"idle": max(0.0, 1 - sum(busy.values()) / available)}


def bad_in_words(loader: Loader) -> str:
    """Say how many different samples were bad, "" where none was; an epoch meets each of them again."""
    met = [record.index for record in loader.bad_samples]
    num_different = len(set(met))
    times = f", met {len(met):,} times" if len(met) > num_different else ""
    return counted(num_different, "sample") + times if met else ""


def waiting_in_words(stats: Stats) -> str:
    """Say how long the training loop waited, and for which stages."""
    if not stats.queue.asked:
        return "for the first batch"
    owed = sorted(stats.late.items(), key=lambda part: -part[1])
    parts = [
        f"{shown_name(name)} {part / stats.wait_seconds:.0%}" for name, part in owed[:3] if part
    ]
    return f"{stats.wait_share:.0%} of the time{', owed to ' if parts else ''}{', '.join(parts)}"
