"""Which frame of which episode a sample is, and where that lies in the tables."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.formats.files.beside import FilesBelow
from readers.formats.lerobot.episodes import FOLDER, Episodes
from readers.formats.lerobot.meta import Info
from readers.formats.lerobot.tables import Table
from readers.plural import counted
from readers.sample import SourceError

_MOST_SHOWN = 5


class Place(NamedTuple):
    """Where a frame lies.

    Attributes:
        episode: Place of its episode among all of the dataset.
        number: The episode's number.
        table: Number of its table among those that are opened.
        row: Its row there.
        start: The row of its episode's first frame.
        stop: The row behind its episode's last frame.
    """

    episode: int
    number: int
    table: int
    row: int
    start: int
    stop: int

    @property
    def key(self) -> str:
        """Name for people."""
        return f"episode_{self.number:06d}#{self.row - self.start}"


class Places:
    """The frames of the episodes that are taken, one after the other.

    Args:
        root: Folder of the dataset.
        episodes: All episodes.
        wanted: Numbers of those that are taken; None takes all.

    Attributes:
        taken: int64 [n], the episodes' places among all, ascending.
        tables: The tables that hold them, opened.

    Raises:
        SourceError: There is no such episode, or a table is missing or has another number of rows.
    """

    def __init__(self, root: Path, episodes: Episodes, wanted: Iterable[int] | None) -> None:
        self._episodes = episodes
        self.taken = _taken(episodes.numbers, wanted)
        used, self._table_of = np.unique(episodes.tables[self.taken], return_inverse=True)
        self.tables = [_open_table(root, episodes, number) for number in used.tolist()]
        self._firsts = np.concatenate([[0], np.cumsum(episodes.lengths[self.taken])])
        sizes = [int(table.rows.sum()) for table in self.tables]
        self._table_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64 [n], frames of each episode that is taken."""
        return np.diff(self._firsts)

    def of(self, index: int) -> Place:
        """Where a sample lies."""
        at = int(np.searchsorted(self._firsts, index, side="right")) - 1
        episode = int(self.taken[at])
        start = int(self._episodes.first_rows[episode])
        row = start + index - int(self._firsts[at])
        stop = start + int(self._episodes.lengths[episode])
        number = int(self._episodes.numbers[episode])
        return Place(episode, number, int(self._table_of[at]), row, start, stop)

    def first_of(self, number: int) -> Place:
        """Where the first frame of an episode lies, by its number; it must be taken."""
        at = int(np.searchsorted(self._episodes.numbers[self.taken], number))
        return self.of(int(self._firsts[at]))

    def episodes_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the episodes of samples, int64 [n]."""
        at = np.searchsorted(self._firsts, indices, side="right") - 1
        numbers: NDArray[np.int64] = self._episodes.numbers[self.taken[at]]
        return numbers

    def in_tables(self, table: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of a table, counted through all tables that are opened."""
        return rows + int(self._table_starts[table])

    def gather(self, values: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Put what all rows of each table hold into the order of samples."""
        found = np.empty(len(self), np.int64)
        for at, episode in enumerate(self.taken.tolist()):
            start = int(self._episodes.first_rows[episode])
            begin, end = self._firsts[at : at + 2].tolist()
            found[begin:end] = values[int(self._table_of[at])][start : start + end - begin]
        return found


def episodes_of_split(
    root: Path, info: Info, split: str | None, episodes: Iterable[int] | None
) -> Iterable[int] | None:
    """Return the numbers of the episodes that are asked for, None for all.

    Raises:
        SourceError: Both are given, there is no such split, or there are several and none is named.
    """
    names = ", ".join(info.splits) or "none"
    if split is None:
        if episodes is None and len(info.splits) > 1:
            raise SourceError(
                f"{root} holds several splits ({names}): take one with split=, or episodes with episodes="
            )
        return episodes
    if episodes is not None:
        raise SourceError("split= and episodes= both say which episodes to take: give one of them")
    if split not in info.splits:
        raise SourceError(f"{root} has no split {split!r}: it has {names}")
    return info.splits[split]


def _taken(numbers: NDArray[np.int64], wanted: Iterable[int] | None) -> NDArray[np.int64]:
    if wanted is None:
        return np.arange(len(numbers))
    given = list(wanted)
    if not given or not all(isinstance(n, int | np.integer) and n is not True for n in given):
        raise SourceError(
            f"episodes must be at least one number of an episode, got {given[:_MOST_SHOWN]!r}"
        )
    missing = sorted({int(n) for n in given} - set(numbers.tolist()))
    if missing:
        raise SourceError(
            f"the dataset has no episode {missing[0]}: its {counted(len(numbers), 'episode')} {'is' if len(numbers) == 1 else 'are'} "
            "numbered from "
            f"{numbers[0]} to {numbers[-1]}"
        )
    return np.flatnonzero(np.isin(numbers, given))


def _open_table(root: Path, episodes: Episodes, number: int) -> Table:
    name = episodes.table_names[number]
    try:
        table = Table(root, FilesBelow(root, "the folder of the dataset").name(name))
    except ValueError as error:
        raise SourceError(f"{root}: {error}") from None
    num_rows, expected = int(table.rows.sum()), episodes.rows_of_table(number)
    if num_rows != expected:
        raise SourceError(
            f"{FOLDER} says that the episodes of {name} have {expected} frames together, but it has "
            f"{num_rows} rows: copy the dataset whole, or write it again"
        )
    return table
