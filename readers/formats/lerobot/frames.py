"""The values of frames: states, actions, time stamps, out of row groups of which some are kept decoded."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.formats.lerobot.meta import Feature
from readers.formats.lerobot.tables import Table, to_array, to_array_with_gaps
from readers.formats.parquet.files import Footer
from readers.sample import SourceError
from readers.storage.lru_cache import Recent

_FOOTERS_BYTES = 64 << 20


class Frames:
    """Reads what belongs to frames; pictures excepted. Safe from several threads, and in a forked process.

    Args:
        tables: The tables of frames.
        features: What is read of them.
        decoded_bytes: How much may be kept decoded.
    """

    def __init__(
        self, tables: Sequence[Table], features: Sequence[Feature], decoded_bytes: int
    ) -> None:
        self._tables, self._features = tables, {one.name: one for one in features}
        self._decoded_bytes = decoded_bytes
        self._starts = [np.concatenate([[0], np.cumsum(one.rows)]) for one in tables]
        self._live = _Live(decoded_bytes)

    def values(self, table: int, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return a feature of some frames.

        Args:
            table: Number of the table.
            name: The feature.
            rows: int64 [T], in any order, repetitions allowed.

        Returns:
            [T, *shape]; of texts an array of objects.

        Raises:
            SourceError: They cannot be read.
            OSError: The file is gone or has changed.
        """
        starts = self._starts[table]
        groups = np.searchsorted(starts, rows, side="right") - 1
        first = int(groups[0])
        if (groups == first).all():
            return self._group(table, first).take(name, rows - starts[first])
        feature = self._features[name]
        values = np.empty((len(rows), *feature.shape), feature.dtype or object)
        for group in np.unique(groups).tolist():
            here = groups == group
            values[here] = self._group(table, group).take(name, rows[here] - starts[group])
        return values

    def whole(self, table: int, name: str) -> NDArray[Any]:
        """Return a feature of all frames of a table; nothing of it is kept."""
        feature, one = self._features[name], self._tables[table]
        parts = [to_array(group.column(name), feature, one.name) for group in one.groups([name])]
        return np.concatenate(parts) if parts else np.empty(0, feature.dtype or object)

    def _group(self, table: int, group: int) -> "_Arrays":
        live = self._here()
        return live.arrays.get((table, group), lambda: self._read(live, table, group))

    def _read(self, live: "_Live", table: int, group: int) -> "_Arrays":
        one = self._tables[table]
        footer = live.footers.get(table, one.footer)
        read = one.read(group, list(self._features), footer)
        arrays = _Arrays()
        for name, told in self._features.items():
            arrays[name], gaps = to_array_with_gaps(read.column(name), told, one.name)
            if gaps is not None:
                arrays.gaps[name] = gaps
        return arrays

    def _here(self) -> "_Live":
        if (
            self._live.pid != os.getpid()
        ):  # another thread may have held a lock when this process was forked
            self._live = _Live(self._decoded_bytes)
        return self._live


class _Live:
    """What one process keeps."""

    def __init__(self, decoded_bytes: int) -> None:
        self.pid = os.getpid()
        self.footers: Recent[Footer] = Recent(_FOOTERS_BYTES)
        self.arrays: Recent[_Arrays] = Recent(decoded_bytes)


class _Arrays(dict[str, NDArray[Any]]):
    """The features of a row group; `gaps` says which rows lack one."""

    def __init__(self) -> None:
        super().__init__()
        self.gaps: dict[str, NDArray[np.bool_]] = {}

    def take(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return a feature of some rows.

        Raises:
            SourceError: One of them lacks it.
        """
        if name in self.gaps and self.gaps[name][rows].any():
            raise SourceError(f"a row of its window has no {name!r}")
        found: NDArray[Any] = self[name][rows]
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of memory, about."""
        texts = sum(len(text) for one in self.values() if one.dtype == object for text in one)
        return 500 + texts + sum(one.nbytes for one in self.values())
