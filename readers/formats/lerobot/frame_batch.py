"""The values of a batch of frames and of their neighbours in the same episodes."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from readers.formats.lerobot.episodes import Place
from readers.formats.lerobot.tables import Frames, RowGroup
from readers.sample import SourceError

NOW = np.zeros(1, np.int64)
"""Offsets of a feature without delta_timestamps: the current frame only."""

READ_ERRORS = (SourceError, ValueError, OSError)
ReadError = SourceError | ValueError | OSError
"""Errors that make a sample bad, and no other."""

_Value = TypeVar("_Value")


class Window(NamedTuple):
    """The rows at given offsets from each of B samples, clamped to its episode.

    Attributes:
        rows: Rows in the sample's table, int64 [B, T].
        is_pad: Whether they lay outside the episode, bool [B, T].
        group: The row group that holds all rows of a sample, counted over all tables; -1 if several do. One number per sample.
        groups: The row group of each row, int64 [B, T].
        rows_in_groups: Rows in their row groups, int64 [B, T].
    """

    rows: NDArray[np.int64]
    is_pad: NDArray[np.bool_]
    group: list[int]
    groups: NDArray[np.int64]
    rows_in_groups: NDArray[np.int64]


class FrameBatch:
    """Reads the values of a batch of samples, and looks up each row group once for all samples and features.

    Args:
        frames: Reads row groups.
        places: Locations of the B samples.
    """

    def __init__(self, frames: Frames, places: Sequence[Place]) -> None:
        self.places = places
        self._frames = frames
        columns = np.array(places, np.int64).reshape(-1, len(Place._fields)).T[..., np.newaxis]
        _, _, self._tables, self._current, self._starts, self._stops = columns
        self._windows: dict[bytes, Window] = {}
        self._groups: dict[int, RowGroup | ReadError] = {}

    def window(self, offsets: NDArray[np.int64]) -> Window:
        """Return the rows at given offsets, int64 [T], from each sample."""
        key = offsets.tobytes()
        if key not in self._windows:
            wanted = self._current + offsets
            rows = np.minimum(np.maximum(wanted, self._starts), self._stops - 1)
            groups, rows_in_groups = self._frames.locate(self._tables, rows)
            is_single = (groups == groups[:, :1]).all(axis=1)
            group = np.where(is_single, groups[:, 0], -1).tolist()
            self._windows[key] = Window(rows, wanted != rows, group, groups, rows_in_groups)
        return self._windows[key]

    def current(self, number: int) -> tuple[RowGroup, int]:
        """Return the row group of a sample, by its number in the batch, and its row there; see `values` for errors."""
        window = self.window(NOW)
        return self._group(window.group[number]), int(window.rows_in_groups[number, 0])

    def values(self, number: int, name: str, offsets: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values of one feature at given offsets from a sample.

        Args:
            number: The sample's number in the batch.
            name: Name of the feature.
            offsets: Offsets from the sample's row, int64 [T].

        Returns:
            Array [T, *shape]; for text an object array of str.

        Raises:
            SourceError: The values cannot be read.
            OSError: The file was removed or has changed.
        """
        window = self.window(offsets)
        group, rows = window.group[number], window.rows_in_groups[number]
        if group >= 0:
            values: NDArray[Any] = self._group(group).take(name, rows)
            return values
        groups = window.groups[number]
        parts = [
            self._group(group).take(name, rows[groups == group])
            for group in np.unique(groups).tolist()
        ]
        # The parts are in the order of their groups; the result has the order of the offsets.
        return np.concatenate(parts)[np.argsort(np.argsort(groups, kind="stable"))]

    def _group(self, number: int) -> RowGroup:
        if number not in self._groups:
            try:
                self._groups[number] = self._frames.group(number)
            except READ_ERRORS as error:
                self._groups[number] = error
        return value_or_raise(self._groups[number])


def value_or_raise(found: _Value | Exception) -> _Value:
    """Return a value that was found, or raise the error that was found instead."""
    if isinstance(found, Exception):
        raise found
    return found
