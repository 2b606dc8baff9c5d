"""Episodes of a LeRobot dataset: their rows in tables, their start in videos, and the location of each sample."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.formats.files.described import FilesBelow
from readers.formats.lerobot.meta import Feature, Info, Root
from readers.formats.lerobot.tables import Table, UnreadableTable, to_array
from readers.formats.named_splits import choose_name
from readers.plural import counted
from readers.sample import SourceError
from readers.storage.unreadable import is_missing, is_transient

FOLDER = "meta/episodes"
# Columns of the episode tables.
_OWN = ("episode_index", "length", "dataset_from_index", "dataset_to_index")
_DATA = ("data/chunk_index", "data/file_index")
_MOST_SHOWN = 5  # episode numbers that an error quotes


@dataclass(frozen=True, slots=True)
class Episodes:
    """All E episodes of a dataset, in the order of their numbers.

    Attributes:
        numbers: Number of each episode, int64 [E], ascending.
        lengths: Number of frames of each episode, int64 [E].
        table_names: Names of the tables that hold the frames.
        tables: Index in `table_names` of each episode's table, int64 [E].
        first_rows: Row of each episode's first frame in its table, int64 [E].
        video_names: Names of the videos of all cameras.
        videos: By camera, the index in `video_names` of each episode's video, int64 [E].
        starts: By camera, the time in seconds at which each episode begins in its video, float64 [E].
    """

    numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]
    table_names: tuple[str, ...]
    tables: NDArray[np.int64]
    first_rows: NDArray[np.int64]
    video_names: tuple[str, ...]
    videos: dict[str, NDArray[np.int64]]
    starts: dict[str, NDArray[np.float64]]

    def __len__(self) -> int:
        return len(self.numbers)

    def rows_of_table(self, table: int) -> int:
        """Return the number of rows that the table with this index must have: the frames of all its episodes."""
        return int(self.lengths[self.tables == table].sum())


def read_episodes(root: Root, info: Info) -> Episodes:
    """Return all episodes that the tables in meta/episodes list.

    Raises:
        SourceError: There is no episode table, a column is missing, or values contradict each other.
    """
    cameras = {one.column: name for name, one in info.features.items() if one.kind == "video"}
    columns = [*_OWN, *_DATA]
    for camera in cameras:
        columns += [f"videos/{camera}/{name}" for name in ("chunk_index", "file_index")]
    starts = [f"videos/{camera}/from_timestamp" for camera in cameras]
    stored = _read(root, info, columns, starts)
    order = np.argsort(stored["episode_index"], kind="stable")
    stored = {name: values[order] for name, values in stored.items()}
    _check(stored)
    chunks, files = (stored[name].tolist() for name in _DATA)
    table_of, table_names = _numbered(map(info.data_file, chunks, files))
    names: list[str] = []
    videos = {}
    for camera, shown_name in cameras.items():
        places = (
            stored[f"videos/{camera}/{name}"].tolist() for name in ("chunk_index", "file_index")
        )
        own, own_names = _numbered(map(partial(info.video_file, camera), *places))
        videos[shown_name] = own + len(names)
        names += own_names
    return Episodes(
        stored["episode_index"],
        stored["length"],
        tuple(table_names),
        table_of,
        _first_rows(stored["dataset_from_index"], stored["length"], table_of),
        tuple(names),
        videos,
        {name: stored[f"videos/{one}/from_timestamp"] for one, name in cameras.items()},
    )


def _read(
    root: Root, info: Info, whole_numbers: Sequence[str], seconds: Sequence[str]
) -> dict[str, NDArray[Any]]:
    tables = _tables(root, info)
    if not tables:
        raise SourceError(
            f"{root} has no tables of episodes ({FOLDER}/chunk-000/file-000.parquet): copy it whole"
        )
    features = [Feature(name, "number", "int64", ()) for name in whole_numbers]
    features += [Feature(name, "number", "float64", ()) for name in seconds]
    parts: dict[str, list[NDArray[Any]]] = {one.name: [] for one in features}
    for table in tables:
        for group in table.groups([one.name for one in features]):
            for one in features:
                parts[one.name].append(to_array(group.column(one.name), one, table.name))
    stored = {name: np.concatenate(values) for name, values in parts.items() if values}
    if not stored or not len(stored["episode_index"]):
        raise SourceError(f"{root} lists no episodes in {FOLDER}: record some, or copy it whole")
    return stored


def _tables(root: Root, info: Info) -> list[Table]:
    """Return the tables of episodes, in the order of their names.

    A server need not list its files, so remote tables are opened by their numbers up to the last one.

    Raises:
        SourceError: A table cannot be opened, or the remote tables do not have all episodes.
    """
    if isinstance(root, Path):
        paths = sorted((root / FOLDER).glob("*/*.parquet"))
        return [Table(root, path.relative_to(root).as_posix()) for path in paths]
    tables: list[Table] = []
    chunk, file = 0, 0
    while True:
        table = _table_or_none(root, chunk, file)
        if table is not None:
            tables.append(table)
            file += 1
        elif file == 0:
            break
        else:
            chunk, file = chunk + 1, 0
    count = sum(int(table.rows.sum()) for table in tables)
    if tables and info.total_episodes not in (None, count):
        raise SourceError(
            f"{root} states {info.total_episodes} episodes, and its {FOLDER}/chunk-*/file-*.parquet, counted without gaps, "
            f"have {count}: copy it whole"
        )
    return tables


def _table_or_none(root: Root, chunk: int, file: int) -> Table | None:
    try:
        return Table(root, f"{FOLDER}/chunk-{chunk:03d}/file-{file:03d}.parquet")
    except SourceError as error:
        if not is_missing(error):
            raise
        return None


def _check(stored: dict[str, NDArray[Any]]) -> None:
    numbers, lengths = stored["episode_index"], stored["length"]
    again = np.flatnonzero(np.diff(numbers) == 0)
    if len(again):
        raise SourceError(
            f"{FOLDER} lists episode {numbers[again[0]]} twice: leave one out, or write the dataset again"
        )
    spans = stored["dataset_to_index"] - stored["dataset_from_index"]
    wrong = np.flatnonzero((lengths != spans) | (lengths < 1))
    if len(wrong):
        one = int(wrong[0])
        raise SourceError(
            f"{FOLDER} says that episode {numbers[one]} has {lengths[one]} frames, which are those from "
            f"{stored['dataset_from_index'][one]} to {stored['dataset_to_index'][one]}: write the dataset again"
        )


def _first_rows(
    firsts: NDArray[np.int64], lengths: NDArray[np.int64], table_of: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the row of each episode's first frame in its table, int64 [E].

    Args:
        firsts: Index of each episode's first frame in the dataset, int64 [E].
        lengths: Number of frames of each episode, int64 [E].
        table_of: Index of each episode's table, int64 [E]; a table holds its episodes one after the other.
    """
    order = np.lexsort((firsts, table_of))
    before = np.cumsum(lengths[order]) - lengths[order]
    tables = table_of[order]
    begins = np.flatnonzero(np.diff(tables, prepend=-1))
    rows = np.empty_like(before)
    rows[order] = before - np.repeat(before[begins], np.diff([*begins.tolist(), len(order)]))
    return rows


def _numbered(names: Iterable[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the unique names in the order of their first appearance, preceded by the index of each given name in them."""
    numbers: dict[str, int] = {}
    of_each = [numbers.setdefault(name, len(numbers)) for name in names]
    return np.array(of_each, np.int64), list(numbers)


class Place(NamedTuple):
    """The location of a frame in episodes and tables.

    Attributes:
        episode: Index of the episode in `Episodes`.
        number: Number of the episode.
        table: Index of the table in `Places.tables`.
        row: Row of the frame in the table.
        start: Row of the episode's first frame in the table.
        stop: Row after the episode's last frame in the table.
    """

    episode: int
    number: int
    table: int
    row: int
    start: int
    stop: int

    @property
    def key(self) -> str:
        """Key of the sample: the episode's number and the frame's index in the episode."""
        return f"episode_{self.number:06d}#{self.row - self.start}"


class Places:
    """Locations of all samples: the frames of the selected episodes, one after the other.

    Args:
        root: Folder of the dataset.
        episodes: All episodes.
        wanted: Numbers of the selected episodes; None for all.

    Attributes:
        taken: Indices of the selected episodes in `Episodes`, int64 [n], ascending.
        tables: The tables that hold these episodes.
        unreadable: Those of them that cannot be opened; their frames are bad samples.

    Raises:
        SourceError: There is no such episode, a table has another number of rows, or no table can be opened.
    """

    def __init__(self, root: Root, episodes: Episodes, wanted: Iterable[int] | None) -> None:
        self._episodes = episodes
        self.taken = _taken(episodes.numbers, wanted)
        used, self._table_of = np.unique(episodes.tables[self.taken], return_inverse=True)
        self.tables = [_open_table(root, episodes, number) for number in used.tolist()]
        self._firsts = np.concatenate([[0], np.cumsum(episodes.lengths[self.taken])])
        self.unreadable = [one for one in self.tables if isinstance(one, UnreadableTable)]
        if len(self.unreadable) == len(self.tables):
            raise SourceError(f"no table of {root} can be read: {self.unreadable[0].reason}")
        sizes = [0 if table in self.unreadable else int(table.rows.sum()) for table in self.tables]
        self._table_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of frames of each selected episode, int64 [n]."""
        return np.diff(self._firsts)

    def of(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Place]:
        """Return the locations of the samples with these indices."""
        at = np.searchsorted(self._firsts, indices, side="right") - 1
        chosen, episodes = self.taken[at], self._episodes
        starts, numbers = episodes.first_rows[chosen], episodes.numbers[chosen]
        rows, stops = starts + indices - self._firsts[at], starts + episodes.lengths[chosen]
        columns = (chosen, numbers, self._table_of[at], rows, starts, stops)
        return list(map(Place._make, np.stack(columns, axis=1).tolist()))

    def episodes_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the episode number of each sample, int64 [n]."""
        at = np.searchsorted(self._firsts, indices, side="right") - 1
        numbers: NDArray[np.int64] = self._episodes.numbers[self.taken[at]]
        return numbers

    def in_tables(self, table: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert rows of one table to rows in the concatenation of all tables that can be read."""
        return rows + int(self._table_starts[table])

    def gather(self, values: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Select the values of the samples from the values of all table rows.

        Args:
            values: For each opened table one value per row, int64 [rows].

        Returns:
            One value per sample, int64 [samples].
        """
        result = np.empty(len(self), np.int64)
        for at, episode in enumerate(self.taken.tolist()):
            start = int(self._episodes.first_rows[episode])
            begin, end = self._firsts[at : at + 2].tolist()
            result[begin:end] = values[int(self._table_of[at])][start : start + end - begin]
        return result


def episodes_of_split(
    root: Root, info: Info, split: str | None, episodes: Iterable[int] | None
) -> Iterable[int] | None:
    """Return the numbers of the episodes that the caller selects by split or by number, None for all.

    Raises:
        SourceError: `split` and `episodes` are both given, there is no such split, or there are several splits and both are
            None.
    """
    if episodes is not None and split is not None:
        raise SourceError("split= and episodes= both say which episodes to take: give one of them")
    if split is None and (episodes is not None or len(info.splits) < 2):
        return episodes
    name = choose_name({name: name for name in info.splits}, split, root, "episodes=[0, 1, 2]")
    return info.splits[name]


def _taken(numbers: NDArray[np.int64], wanted: Iterable[int] | None) -> NDArray[np.int64]:
    if wanted is None:
        return np.arange(len(numbers))
    given = list(wanted) if isinstance(wanted, Iterable) else []
    if not given or not all(isinstance(n, int | np.integer) and n is not True for n in given):
        shown = given[:_MOST_SHOWN] if isinstance(wanted, Iterable) else wanted
        raise SourceError(
            f"episodes must be a list of at least one number of an episode, got {shown!r}"
        )
    missing = sorted({int(n) for n in given} - set(numbers.tolist()))
    if missing:
        raise SourceError(
            f"the dataset has no episode {missing[0]}: its {counted(len(numbers), 'episode')} "
            f"{'is' if len(numbers) == 1 else 'are'} numbered from {numbers[0]} to {numbers[-1]}"
        )
    return np.flatnonzero(np.isin(numbers, given))


def _open_table(root: Root, episodes: Episodes, number: int) -> Table:
    name = episodes.table_names[number]
    expected = episodes.rows_of_table(number)
    try:
        name = FilesBelow(root, "the folder of the dataset").name(name)
    except ValueError as error:
        raise SourceError(f"{root}: {error}") from None
    try:
        table = Table(root, name)
    except SourceError as error:
        if is_transient(error):
            raise
        return UnreadableTable(name, expected, str(error).replace(f"{root}/", ""))
    num_rows = int(table.rows.sum())
    if num_rows != expected:
        raise SourceError(
            f"{FOLDER} says that the episodes of {name} have {expected} frames together, but it has "
            f"{num_rows} rows: copy the dataset whole, or write it again"
        )
    return table
