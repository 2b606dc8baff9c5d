"""The episodes of a LeRobot dataset: which rows of which table they are, when they begin in which video, and which frame a sample is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.formats.files.described import FilesBelow
from readers.formats.lerobot.meta import Feature, Info
from readers.formats.lerobot.tables import Table, to_array
from readers.formats.named_splits import choose_name
from readers.plural import counted
from readers.sample import SourceError

FOLDER = "meta/episodes"
_OWN = ("episode_index", "length", "dataset_from_index", "dataset_to_index")
_DATA = ("data/chunk_index", "data/file_index")
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Episodes:
    """All E episodes of a dataset, in the order of their numbers.

    Attributes:
        numbers: int64 [E], ascending.
        lengths: int64 [E], in frames.
        table_names: Names of the tables of frames.
        tables: int64 [E], which of them holds each episode.
        first_rows: int64 [E], row of its first frame there.
        video_names: Names of the videos of all cameras.
        videos: int64 [E] by camera, which of them shows each episode.
        starts: float64 [E] by camera, seconds at which it begins there.
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
        """Number of rows that a table must have."""
        return int(self.lengths[self.tables == table].sum())


def read_episodes(root: Path, info: Info) -> Episodes:
    """Read the episodes' table, without the statistics in it.

    Raises:
        SourceError: There is none, it lacks a column, or it contradicts itself.
    """
    cameras = [name for name, one in info.features.items() if one.kind == "video"]
    columns = [*_OWN, *_DATA]
    for camera in cameras:
        columns += [f"videos/{camera}/{name}" for name in ("chunk_index", "file_index")]
    starts = [f"videos/{camera}/from_timestamp" for camera in cameras]
    told = _read(root, columns, starts)
    order = np.argsort(told["episode_index"], kind="stable")
    told = {name: values[order] for name, values in told.items()}
    _check(told)
    table_of, table_names = _numbered(
        [info.data_file(*pair) for pair in _pairs(told[_DATA[0]], told[_DATA[1]])]
    )
    names: list[str] = []
    videos = {}
    for camera in cameras:
        chunks, files = (told[f"videos/{camera}/{name}"] for name in ("chunk_index", "file_index"))
        own, own_names = _numbered(
            [info.video_file(camera, *pair) for pair in _pairs(chunks, files)]
        )
        videos[camera] = own + len(names)
        names += own_names
    return Episodes(
        told["episode_index"],
        told["length"],
        tuple(table_names),
        table_of,
        _first_rows(told["dataset_from_index"], told["length"], table_of),
        tuple(names),
        videos,
        {camera: told[f"videos/{camera}/from_timestamp"] for camera in cameras},
    )


def _read(
    root: Path, whole_numbers: Sequence[str], seconds: Sequence[str]
) -> dict[str, NDArray[Any]]:
    found = sorted((root / FOLDER).glob("*/*.parquet"))
    if not found:
        raise SourceError(
            f"{root} has no tables of episodes ({FOLDER}/chunk-000/file-000.parquet): copy it whole"
        )
    features = [Feature(name, "number", "int64", ()) for name in whole_numbers]
    features += [Feature(name, "number", "float64", ()) for name in seconds]
    parts: dict[str, list[NDArray[Any]]] = {one.name: [] for one in features}
    for path in found:
        table = Table(root, path.relative_to(root).as_posix())
        for group in table.groups([one.name for one in features]):
            for one in features:
                parts[one.name].append(to_array(group.column(one.name), one, table.name))
    told = {name: np.concatenate(values) for name, values in parts.items() if values}
    if not told or not len(told["episode_index"]):
        raise SourceError(f"{root} lists no episodes in {FOLDER}: record some, or copy it whole")
    return told


def _check(told: dict[str, NDArray[Any]]) -> None:
    numbers, lengths = told["episode_index"], told["length"]
    again = np.flatnonzero(np.diff(numbers) == 0)
    if len(again):
        raise SourceError(
            f"{FOLDER} lists episode {numbers[again[0]]} twice: leave one out, or write the dataset again"
        )
    spans = told["dataset_to_index"] - told["dataset_from_index"]
    wrong = np.flatnonzero((lengths != spans) | (lengths < 1))
    if len(wrong):
        one = int(wrong[0])
        raise SourceError(
            f"{FOLDER} says that episode {numbers[one]} has {lengths[one]} frames, which are those from "
            f"{told['dataset_from_index'][one]} to {told['dataset_to_index'][one]}: write the dataset again"
        )


def _first_rows(
    firsts: NDArray[np.int64], lengths: NDArray[np.int64], table_of: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the row of each episode's first frame in its table: a table's episodes follow one another."""
    order = np.lexsort((firsts, table_of))
    before = np.cumsum(lengths[order]) - lengths[order]
    tables = table_of[order]
    begins = np.flatnonzero(np.diff(tables, prepend=-1))
    rows = np.empty_like(before)
    rows[order] = before - np.repeat(before[begins], np.diff([*begins.tolist(), len(order)]))
    return rows


def _pairs(chunks: NDArray[np.int64], files: NDArray[np.int64]) -> list[tuple[int, int]]:
    return list(zip(chunks.tolist(), files.tolist(), strict=True))


def _numbered(names: list[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the number of each name, and the names in the order in which they first come."""
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(name, len(numbers)) for name in names]
    return np.array(found, np.int64), list(numbers)


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
    if episodes is not None and split is not None:
        raise SourceError("split= and episodes= both say which episodes to take: give one of them")
    if split is None and (episodes is not None or len(info.splits) < 2):
        return episodes
    name = choose_name({name: name for name in info.splits}, split, root, "episodes=[0, 1, 2]")
    return info.splits[name]


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
