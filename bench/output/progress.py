"""Show progress bars for long tasks."""

from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class Bar:
    """A progress bar that appears with the first call; without a terminal it shows nothing.

    Args:
        console: The console on which the bar is shown.
        columns: The columns of the bar.
        after: A bar that is removed when this one appears, because a terminal shows one bar at a time.
    """

    def __init__(
        self, console: Console, *columns: ProgressColumn, after: Self | None = None
    ) -> None:
        disable, self._after = not console.is_terminal, after
        self._bar = Progress(*columns, console=console, transient=True, disable=disable)

    def __call__(self, done: float, total: float | None, text: str = "") -> None:
        """Show the progress, the total (None if unknown), and a text."""
        if not self._bar.tasks:
            if self._after is not None:
                self._after._bar.stop()
            self._bar.start()
            self._bar.add_task("")
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, description=text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def bytes_bar() -> Bar:
    """Return a bar that shows bytes, their rate and the remaining time."""
    columns = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    return Bar(Console(), BarColumn(), *columns)


def samples_bar(console: Console | None = None, after: Bar | None = None) -> Bar:
    """Return a bar that shows counts of samples and the remaining time.

    Args:
        console: The console; None is standard output.
        after: Another bar, which is removed when the new bar appears.
    """
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Bar(console or Console(), *columns, after=after)
