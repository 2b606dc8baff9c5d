"""What `gpu-aug run` shows while it runs: rows that change on a terminal, else a line now and then."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bench.output.text import print_plain
from dali_pipes import Loader
from dali_pipes.stats import STAGES, Stats
from dali_pipes.stats.table import shown_name
from gpu_aug.compiled.clock import clock
from readers.plural import counted

_WINDOW_SECONDS = 2.0  # over which "now" is meant
_LINE_SECONDS = 10.0
_REFRESHES = 4  # per second
_BAR_WIDTH = 40
_STAGE_WIDTH = 30


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
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=_REFRESHES,
            transient=True,
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def update(self) -> None:
        """Say a line where there is no terminal, every ten seconds."""
        if self._console.is_terminal or clock() < self._next_line:
            return
        self._next_line = clock() + _LINE_SECONDS
        now = self._advance()
        done = self._latest[1].steps
        parts = [f"batch {done:,} of {self._total:,}", self._rate(now[1])]
        name, share = max(stage_shares(*now).items(), key=lambda part: part[1])
        parts.append(f"{shown_name(name)} {share:.0%} of the threads' time")
        if self._step_ms is not None:
            parts.append(f"waited {now[1].wait_share:.0%}")
        if bad := bad_in_words(self._loader):
            parts.append(f"bad: {bad}")
        print_plain(self._console, ", ".join(parts))

    def render(self) -> Table:
        """The rows as they are now."""
        seconds, now = self._advance()
        rows = Table.grid(padding=(0, 2, 0, 0))
        rows.add_column(style="bold", no_wrap=True)
        rows.add_column(overflow="fold")
        for name, content in self._rows(seconds, now):
            rows.add_row(name, content)
        return rows

    def _advance(self) -> tuple[float, Stats]:
        """Return what happened in the last seconds, and how many those were."""
        latest = (clock(), self._loader.stats("run"))
        if latest[0] - self._latest[0] >= _WINDOW_SECONDS:
            self._before, self._latest = self._latest, latest
        return latest[0] - self._before[0], latest[1] - self._before[1]

    def _rows(self, seconds: float, now: Stats) -> Iterator[tuple[str, Text | Table]]:
        epoch, run = self._loader.stats("epoch"), self._loader.stats("run")
        yield f"epoch {epoch.epoch}", self._progress(run.steps)
        if not epoch.queue.asked:  # its first batches tell nothing yet
            epoch = run
        yield "rate", Text(self._rates(now, epoch, run))
        yield "threads", _stage_bars(stage_shares(seconds, now))
        if self._step_ms is None:
            limit = epoch.limit if epoch.limit in STAGES else "the loop itself"
            unknown = "not known before the second batch"
            yield "limit", Text(shown_name(limit) if epoch.limit else unknown)
        else:
            yield "waiting", Text(waiting_in_words(epoch))
        queue = epoch.queue
        ready = f"{queue.depth} of {counted(queue.capacity, 'batch')} ready, {queue.mean:.1f} on average"
        yield "queue", Text(ready if queue.capacity else "no batch yet")
        if bad := bad_in_words(self._loader):
            yield "bad", Text(bad, style="yellow")
        if run.remote.requests or run.remote.cache_hits:
            yield "remote", Text(run.remote.shown().partition(": ")[2])

    def _rates(self, now: Stats, whole: Stats, run: Stats) -> str:
        if not whole.images_per_second:
            return "one batch per epoch is too few to tell" if run.steps else "no batch yet"
        nothing = "" if self._step_ms is not None else "; nothing trains: the loader alone"
        over = "run" if whole is run else "epoch"
        return f"{self._rate(now)} now, {whole.images_per_second:,.0f} over the {over}{nothing}"

    def _rate(self, stats: Stats) -> str:
        return f"{stats.images_per_second:,.0f} {self._unit}/s"

    def _progress(self, done: int) -> Table:
        row = Table.grid(padding=(0, 2, 0, 0))
        bar = ProgressBar(total=self._total, completed=done, width=_BAR_WIDTH)
        row.add_row(bar, Text(f"{done:,} of {counted(self._total, 'batch')}"))
        return row


def stage_shares(seconds: float, stats: Stats) -> dict[str, float]:
    """Return the part of the threads' time that each stage took, of those that took any, and the part that is left.

    Args:
        seconds: How long all threads were there.
        stats: What happened meanwhile.
    """
    available = max(seconds * stats.num_threads, 1e-9)
    busy = {name: stats.stages[name].busy_seconds for name in STAGES}
    available = max(available, sum(busy.values()))
    shares = {name: spent / available for name, spent in busy.items() if spent >= 0.005 * available}
    return shares | {"idle": max(0.0, 1 - sum(busy.values()) / available)}


def bad_in_words(loader: Loader) -> str:
    """Say how many different samples were bad, "" where none was; an epoch meets each of them again."""
    met = [record.index for record in loader.bad_samples]
    if not met:
        return ""
    different = counted(len(set(met)), "sample")
    return different if len(set(met)) == len(met) else f"{different}, met {len(met):,} times"


def waiting_in_words(stats: Stats) -> str:
    """Say how long the training loop waited, and for which stages."""
    if not stats.queue.asked:
        return "for the first batch"
    owed = sorted(stats.late.items(), key=lambda part: -part[1])
    parts = [
        f"{shown_name(name)} {part / stats.wait_seconds:.0%}" for name, part in owed[:3] if part
    ]
    return f"{stats.wait_share:.0%} of the time{', owed to ' if parts else ''}{', '.join(parts)}"


def _stage_bars(shares: dict[str, float]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(no_wrap=True)
    for name, share in shares.items():
        style = "bright_black" if name == "idle" else "cyan"
        bar = ("█" * round(share * _STAGE_WIDTH)).ljust(_STAGE_WIDTH)
        table.add_row(shown_name(name), Text(bar, style=style), f"{share:4.0%}")
    return table
