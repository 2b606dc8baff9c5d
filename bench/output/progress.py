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
    """A bar that appears with the first call; nothing where there is no terminal."""

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        disable = not console.is_terminal
        self._bar = Progress(*columns, console=console, transient=True, disable=disable)

    def __call__(self, done: int, total: int | None) -> None:
        """Show how much is done, and of how much; None where that is unknown."""
        if not self._bar.tasks:
            self._bar.start()
            self._bar.add_task("")
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def close(self) -> None:
        """Take the bar away."""
        self._bar.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bytes_bar(console: Console) -> Bar:
    """A bar that shows bytes, their rate and the time left."""
    return Bar(console, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())


def samples_bar(console: Console) -> Bar:
    """A bar that shows numbers of samples and the time left."""
    return Bar(console, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
