"""Rows of variable length, read at their offsets in an HDF5 file: h5py takes 50 to 100 us for each.

Such a row is stored as 16 bytes that say where in the file a heap lies, which holds the bytes of one row or
several. The format is that of HDF5's specification, version 3; nothing in the file is trusted. HDF5's own
library is never asked for such rows before the heap was looked at here: on a damaged one it loops for ever,
or ends the process.
"""

import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.formats.hdf5.chunks import Chunks, has_filters
from readers.sample import Payload
from readers.storage.blob.mapped import MappedFile, ReadView, mapped_file
from readers.storage.blob.mmap_pages import map_file

_ROW = struct.Struct("<IQI")  # length in elements, address of the heap, number of the object in it
_HEAP = struct.Struct("<4sB3xQ")  # signature, version, size with this header
_OBJECT = struct.Struct("<HHIQ")  # number, references, reserved, size
_MOST_OBJECTS = 1 << 16  # they are numbered in 16 bits
_FEW_OBJECTS = 4  # are walked over again each time
_MOST_KEPT = 1 << 20  # objects whose spans are kept, in 16 MB


class HeapRows:
    """The rows of one dataset whose rows have different lengths.

    Args:
        file: The file.
        chunks: Where the 16 bytes of each row lie.
        base: Where the addresses in the file begin.
        element_bytes: Size of one element.
    """

    def __init__(
        self, file: MappedFile, chunks: "Chunks | Spans", base: int, element_bytes: int
    ) -> None:
        self._file, self._base = file, base
        self._content = ReadView(file, 0, file.size_bytes)
        self._chunks, self._element_bytes = chunks, element_bytes
        self._spans: dict[int, tuple[array[int], int]] = {}  # of the objects in heaps of many
        self._num_kept = 0

    def read(self, row: int) -> Payload:
        """Return a row.

        Raises:
            OSError: The file is damaged there, or has shrunk.
        """
        found = self._locate(row)
        return self._find(*found) if found else b""

    def check(self, row: int) -> None:
        """Check that HDF5's own library can read a row.

        Raises:
            OSError: The file is damaged there.
        """
        found = self._locate(row)
        if found:
            self._find(*found)
            self._walk_all(found[0])

    def _locate(self, row: int) -> tuple[int, int, int] | None:
        """Return where the heap of a row lies, the number of its object there, and its length."""
        try:
            length, address, number = _ROW.unpack(self._chunks.row(row))
        except struct.error:
            raise OSError("it is cut off") from None
        if not length:
            return None
        return self._base + address, number, length * self._element_bytes

    def _find(self, offset: int, number: int, length: int) -> Payload:
        cached = self._spans.get(offset)
        if cached is None:
            for walked, (found, start, size, end) in enumerate(self._objects(offset)):
                if found == number:
                    if length > size or start + length > end:
                        break
                    return self._file.payload(start, start + length)
                if walked == _FEW_OBJECTS:
                    cached = self._keep(offset)
                    break
        if cached is not None and 0 < number < len(cached[0]) // 2:
            spans, end = cached
            start, size = spans[2 * number], spans[2 * number + 1]
            if length <= size and start + length <= end:
                return self._file.payload(start, start + length)
        raise OSError(f"the heap at byte {offset} lacks the object {number}")

    def _keep(self, offset: int) -> "tuple[array[int], int]":
        """Return the first byte and the size of each object of a heap, size 0 for unused numbers, and keep them."""
        objects = list(self._objects(offset))
        spans = array("q", bytes(16 * (1 + max(each[0] for each in objects))))
        for number, start, size, _ in reversed(objects):  # of two the first counts
            spans[2 * number], spans[2 * number + 1] = start, min(size, 1 << 62)
        if self._num_kept > _MOST_KEPT:
            self._spans.clear()
            self._num_kept = 0
        self._num_kept += len(spans) // 2
        self._spans[offset] = spans, objects[-1][3]
        return self._spans[offset]

    def _walk_all(self, offset: int) -> None:
        last, size, start, end = -1, 0, 0, 0
        for last, start, size, end in self._objects(offset):
            if start - _OBJECT.size + size > end if last == 0 else start + size > end:
                raise OSError(f"an object of the heap at byte {offset} leads out of it")
        # What the library does not get past: free space that takes no space.
        if last == 0 and size < _OBJECT.size:
            raise OSError(f"the free space of the heap at byte {offset} has {size} bytes")

    def _objects(self, offset: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield number, first byte and size of each object of a heap, and the heap's end; 0 is the free space."""
        try:
            signature, version, size = _HEAP.unpack(self._content[offset : offset + _HEAP.size])
        except struct.error:
            raise OSError("it is cut off") from None
        end = offset + size
        if signature != b"GCOL" or version != 1 or end > len(self._content):
            raise OSError(f"there is no heap at byte {offset}")
        at = offset + _HEAP.size
        for _ in range(_MOST_OBJECTS):
            if at + _OBJECT.size > end:
                return
            number, _, _, object_bytes = _OBJECT.unpack(self._content[at : at + _OBJECT.size])
            at += _OBJECT.size
            yield number, at, object_bytes, end
            if number == 0:
                return
            at += object_bytes + 7 & ~7
        raise OSError(f"the heap at byte {offset} has more objects than there are numbers")


class Spans:
    """The raw 16-byte reference of each row.

    Args:
        content: All of the file.
        starts: Where the first row of each chunk lies, -1 if the chunk was never written.
        num_chunk_rows: Rows of a chunk.
    """

    def __init__(self, content: ReadView, starts: NDArray[np.int64], num_chunk_rows: int) -> None:
        self._content, self._starts, self._num_chunk_rows = content, starts, num_chunk_rows

    def row(self, row: int) -> Payload:
        """Return the 16 bytes of a row, fewer where the file is cut off; zeros where it was never written."""
        chunk, inside = divmod(row, self._num_chunk_rows)
        start = int(self._starts[chunk])
        if start < 0:
            return bytes(_ROW.size)
        start += inside * _ROW.size
        return self._content[start : start + _ROW.size]


def open_heap(h5py: ModuleType, dataset: Any, path: Path, element_bytes: int) -> HeapRows | None:
    """Open a dataset of one dimension whose rows have elements of this size.

    None where its rows lie in a way that this module does not read.

    Raises:
        TooLargeError: A chunk of it would take too much memory.
        ValueError: It is compressed twice by deflate.
    """
    plan = dataset.id.get_create_plist()
    if dataset.file.id.get_create_plist().get_sizes() != (8, 8):
        return None
    file = mapped_file(map_file(path))
    if file is None:
        return None
    content = ReadView(file, 0, file.size_bytes)
    spans: Chunks | Spans
    if plan.get_layout() == h5py.h5d.CONTIGUOUS:
        offset = dataset.id.get_offset()
        spans = Spans(content, np.array([-1 if offset is None else offset], np.int64), len(dataset))
    elif plan.get_layout() != h5py.h5d.CHUNKED:
        return None
    elif has_filters(dataset):
        spans = Chunks(h5py, dataset, content)
    else:
        num_chunk_rows = dataset.chunks[0]
        starts = np.full(-(-len(dataset) // num_chunk_rows), -1, np.int64)

        def note(chunk: Any) -> None:
            starts[chunk.chunk_offset[0] // num_chunk_rows] = chunk.byte_offset

        dataset.id.chunk_iter(note)
        spans = Spans(content, starts, num_chunk_rows)
    return HeapRows(file, spans, dataset.file.userblock_size, element_bytes)
