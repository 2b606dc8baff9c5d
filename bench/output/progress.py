"""Progress bars for long tasks."""

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
    """A bar that appears with the first call; nothing where there is no terminal.

    Args:
        console: Where it is shown.
        columns: What it consists of.
        after: A bar that is taken away when this one appears, since a terminal shows one bar at a time.
    """

    def __init__(
        self, console: Console, *columns: ProgressColumn, after: Self | None = None
    ) -> None:
        disable, self._after = not console.is_terminal, after
        self._bar = Progress(*columns, console=console, transient=True, disable=disable)

    def __call__(self, done: float, total: float | None, text: str = "") -> None:
        """Show how much is done, of how much (None where that is unknown), and a text."""
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
    """Return a bar that shows bytes, their rate and the time left."""
    columns = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    return Bar(Console(), BarColumn(), *columns)


def samples_bar(console: Console | None = None, after: Bar | None = None) -> Bar:
    """Return a bar that shows numbers of samples and the time left.

    Args:
        console: Where it is shown; standard output when None.
        after: Another bar, which is taken away when this one appears.
    """
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Bar(console or Console(), *columns, after=after)
