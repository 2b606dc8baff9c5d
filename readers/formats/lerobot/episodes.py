"""The episodes of a LeRobot dataset: which rows of which table they are, and when they begin in which video."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.formats.lerobot.meta import Feature, Info
from readers.formats.lerobot.tables import Table, to_array
from readers.sample import SourceError

FOLDER = "meta/episodes"
_OWN = ("episode_index", "length", "dataset_from_index", "dataset_to_index")
_DATA = ("data/chunk_index", "data/file_index")


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
