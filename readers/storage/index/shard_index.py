"""Read entries from the index of one shard; checksums are verified before bytes are used."""

import mmap
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.storage.blob.mapped import mapped_file
from readers.storage.blob.mmap_pages import advise, map_file
from readers.storage.index.index_file import (
    CHUNK_BYTES,
    PAIR,
    ROW,
    ROW_TYPE,
    Head,
    Kind,
    Names,
)
from readers.storage.side_file import DamagedFileError

_DROP_CHUNKS = 128
"""Mapped pages are released once per this many checked chunks, on average, so that read-ahead does not count as memory."""
_FAULT: Kind = ((), None, PAIR)
"""Kind of rows with a fault: their only member is the text of the fault, in the table ``text``."""
_PIECE_ROWS = 1 << 16
"""Number of rows whose sizes are computed at a time, so that temporary arrays stay short."""


class Row(NamedTuple):
    """The entry of one sample in an index, in the form that `ShardDataset.fetch` needs; see `Entry`.

    Attributes:
        key: Key of the sample.
        names: Names of the fields.
        bounds: Start and stop of the first field, start and stop of the second field, and so on, in bytes.
        label: Class number, -1 for no label.
        size: (height, width) of the image; None if unknown.
        fault: Reason why the sample cannot be read; empty if it can.
        restarts: Restart intervals of the image; None if there are none.
        image_field: Name of the field with the image if the format declares one, else None.
    """

    key: str
    names: Names = ()
    bounds: tuple[int, ...] = ()
    label: int = -1
    size: tuple[int, int] | None = None
    fault: str = ""
    restarts: NDArray[np.int64] | None = None
    image_field: str | None = None


class ShardIndex:
    """The index of one shard, memory-mapped from its file.

    Args:
        path: Path of the index file.
        head: The head of the index, from `read_head`.

    Raises:
        DamagedFileError: The file was replaced after its head was read.
        OSError: The file cannot be read.
    """

    def __init__(self, path: Path, head: Head) -> None:
        self.path, self.head = path, head
        data = map_file(path)
        if len(data) != head.file_bytes or Head.mark_of(data) != head.mark:
            raise DamagedFileError("another index than the one that was opened")
        file = mapped_file(data)
        assert file is not None
        self._file, self._data = file, data[head.start :]
        self._chunks = _Chunks(self._data, file.address + head.start, head)
        self._starts = {name: start for name, (start, _) in head.spans.items()}
        self._first_text, self._first_member = self._starts["text"], self._starts["members"]
        start, stop = head.spans["restart_bounds"]
        self._has_restarts = stop > start

    def __len__(self) -> int:
        return len(self.head)

    def rows(self, rows: Iterable[int]) -> list[Row]:
        """Return the entries of samples, given their row numbers; a fetch spends most of its time here.

        Raises:
            DamagedFileError: A checksum does not match.
            OSError: The file has shrunk.
        """
        self._file.check()
        data, kinds, check = self._data, self.head.kinds, self._chunks.check_if_needed()
        first_text, first_member = self._first_text, self._first_member
        found: list[Row] = []
        for row in rows:
            start = ROW.size * row
            if check:
                check(start, start + ROW.size)
            key_start, member, label, height, width, key_bytes, kind = ROW.unpack_from(data, start)
            key_start += first_text
            start = first_member + PAIR.size * member
            names, image_field, bounds_of = kinds[kind] if kind >= 0 else _FAULT
            if check:
                check(key_start, key_start + key_bytes)
                check(start, start + bounds_of.size)
            key = str(data[key_start : key_start + key_bytes], "utf-8", "surrogateescape")
            bounds = bounds_of.unpack_from(data, start)
            if kind < 0:
                found.append(Row(key, label=label, fault=self._fault(*bounds)))
                continue
            size = (height, width) if height else None
            restarts = self._restarts(row) if self._has_restarts else None
            values = (key, names, bounds, label, size, "", restarts, image_field)
            found.append(tuple.__new__(Row, values))  # takes half the time of Row(...)
        return found

    def column(self, name: str) -> NDArray[np.int64]:
        """Return a column of all samples, int64 [len]: ``label``, ``height``, ``width``, ``num_bytes`` or ``kind``.

        Raises:
            DamagedFileError: A checksum does not match.
            OSError: The file has become shorter.
        """
        self._file.check()
        rows = np.frombuffer(self._table("rows"), ROW_TYPE)
        if name != "num_bytes":
            return rows[name].astype(np.int64)
        members = np.frombuffer(self._table("members"), "<u8").reshape(-1, 2)
        pieces = [
            _num_bytes(rows, members, start, start + _PIECE_ROWS)
            for start in range(0, len(rows), _PIECE_ROWS)
        ]
        return np.concatenate([np.empty(0, np.int64), *pieces])

    def verify(self) -> None:
        """Verify all checksums of the tables.

        Raises:
            DamagedFileError: A checksum does not match.
            OSError: The file has become shorter.
        """
        self._file.check()
        self._chunks.check(0, len(self._data))

    def _table(self, name: str) -> memoryview:
        start, stop = self.head.spans[name]
        self._chunks.check(start, stop)
        return self._data[start:stop]

    def _fault(self, start: int, stop: int) -> str:
        start, stop = self._first_text + start, self._first_text + stop
        self._chunks.check(start, stop)
        return str(self._data[start:stop], "utf-8", "surrogateescape")

    def _restarts(self, row: int) -> NDArray[np.int64] | None:
        check = self._chunks.check_if_needed()
        start = self._starts["restart_bounds"] + 8 * row
        if check:
            check(start, start + 16)
        first, last = PAIR.unpack_from(self._data, start)
        if first == last:
            return None
        scan = self._starts["scan_start"] + 4 * row
        lengths = self._starts["restart_length"]
        start, stop = lengths + 2 * first, lengths + 2 * last
        if check:
            check(scan, scan + 4)
            check(start, stop)
        offsets = np.empty(last - first + 1, np.int64)
        offsets[0] = int.from_bytes(self._data[scan : scan + 4], "little")
        offsets[1:] = np.frombuffer(self._data[start:stop], "<u2")
        return np.cumsum(offsets, out=offsets)


class _Chunks:
    """Verifies the tables of an index in chunks of 16 KiB, each when it is first needed."""

    def __init__(self, data: memoryview, address: int, head: Head) -> None:
        self._data, self._address, self._head = data, address, head
        self._checked = bytearray(len(head.checksums) // 4)
        self._num_unchecked = len(self._checked)
        # Rows are read in random order, so the only read-ahead is that of `check`.
        advise((address, address + len(data)), mmap.MADV_RANDOM)

    def check_if_needed(self) -> Callable[[int, int], None] | None:
        """Return the method `check`; None if all chunks were verified already."""
        return self.check if self._num_unchecked else None

    def check(self, start: int, stop: int) -> None:
        """Verify the chunks that hold the bytes from `start` up to, but not including, `stop`, if they were not yet.

        Raises:
            DamagedFileError: A checksum does not match.
        """
        checked = self._checked
        first, last = start // CHUNK_BYTES, (stop - 1) // CHUNK_BYTES
        if last < len(checked) and checked[first] and checked[last] and last <= first + 1:
            return
        begin, end = first * CHUNK_BYTES, min((last + 1) * CHUNK_BYTES, len(self._data))
        advise((self._address + begin, self._address + end), mmap.MADV_WILLNEED)
        for chunk in range(first, last + 1):
            if chunk >= len(checked) or not checked[chunk]:
                self._check_chunk(chunk)

    def _check_chunk(self, chunk: int) -> None:
        begin = chunk * CHUNK_BYTES
        expected = self._head.checksums[4 * chunk : 4 * chunk + 4]
        found = zlib.crc32(self._data[begin : begin + CHUNK_BYTES]).to_bytes(4, "little")
        if found != expected:
            raise DamagedFileError(f"damaged at byte {self._head.start + begin}")
        if self._checked[chunk]:
            return
        self._checked[chunk] = 1
        self._num_unchecked -= 1
        if self._num_unchecked <= 0:  # threads may count a chunk twice, so they are counted again
            self._num_unchecked = self._checked.count(0)
        if chunk % _DROP_CHUNKS == 0:
            advise((self._address, self._address + len(self._data)), mmap.MADV_DONTNEED)


def _num_bytes(
    rows: NDArray[np.void], members: NDArray[np.uint64], start: int, stop: int
) -> NDArray[np.int64]:
    """Return the size in bytes of each sample from `start` up to, but not including, `stop`; -1 for samples with a fault.

    Args:
        rows: The table of samples.
        members: The table of members, uint64 [M, 2]; a sample's members end where those of the next sample begin.
        start: First row.
        stop: Row after the last one; it may be beyond the end.
    """
    first = rows["first"][start : stop + 1].astype(np.int64)
    if stop >= len(rows):
        first = np.append(first, len(members))
    spans = members[first[0] : first[-1]].astype(np.int64)
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(spans[:, 1] - spans[:, 0])])
    sizes = np.diff(sums[first - first[0]])
    return np.where(rows["kind"][start:stop] < 0, -1, sizes)
