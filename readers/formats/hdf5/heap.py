"""Variable-length rows of HDF5 files, read directly at their offsets: h5py takes 50 to 100 us for each row.

A row is stored as a reference of 16 bytes to a heap, a block of the file that holds the bytes of one or more
rows. The format is HDF5's specification, version 3. All offsets and sizes in the file are checked. A heap is always
checked here before HDF5's own library reads it, because the library loops forever or ends the process on a damaged heap.
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

_ROW = struct.Struct("<IQI")  # length in elements, address of the heap, index of the object in it
_HEAP = struct.Struct("<4sB3xQ")  # signature, version, size including this header
_OBJECT = struct.Struct("<HHIQ")  # index, references, reserved, size
_MOST_OBJECTS = 1 << 16  # the index of an object has 16 bits
_FEW_OBJECTS = 4  # smaller heaps are walked again for each row instead of being cached
_MOST_KEPT = 1 << 20  # objects whose spans are cached, in 16 MB


class HeapRows:
    """Reads the rows of one dataset whose rows have a variable length.

    Args:
        file: The memory-mapped file.
        chunks: Reads the 16-byte reference of each row.
        base: Offset in the file to which all addresses are relative.
        element_bytes: Size of one element of a row in bytes.
    """

    def __init__(
        self, file: MappedFile, chunks: "Chunks | Spans", base: int, element_bytes: int
    ) -> None:
        self._file, self._base = file, base
        self._content = ReadView(file, 0, file.size_bytes)
        self._chunks, self._element_bytes = chunks, element_bytes
        self._spans: dict[int, tuple[array[int], int]] = {}  # of large heaps, by their offset
        self._num_kept = 0

    def read(self, row: int) -> Payload:
        """Return the bytes of a row.

        Raises:
            OSError: The file is damaged at the row, or has shrunk.
        """
        found = self._locate(row)
        return self._find(*found) if found else b""

    def check(self, row: int) -> None:
        """Check that HDF5's own library can read a row safely.

        Raises:
            OSError: The file is damaged at the row.
        """
        found = self._locate(row)
        if found:
            self._find(*found)
            self._walk_all(found[0])

    def _locate(self, row: int) -> tuple[int, int, int] | None:
        """Return the offset of a row's heap, the object's index in it, and the row's length in bytes; None for an empty row."""
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
        """Find the objects of a heap, and cache and return their spans.

        Returns:
            Offset and size of each object, one pair for each index and size 0 for an unused index; and the heap's end.
        """
        objects = list(self._objects(offset))
        spans = array("q", bytes(16 * (1 + max(each[0] for each in objects))))
        for number, start, size, _ in reversed(objects):  # of two with one index the first counts
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
        # HDF5's library loops forever on free space that is smaller than its header.
        if last == 0 and size < _OBJECT.size:
            raise OSError(f"the free space of the heap at byte {offset} has {size} bytes")

    def _objects(self, offset: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (index, offset, size, end of the heap) of each object of a heap; the index 0 stands for free space."""
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
    """Reads the 16-byte row references of an uncompressed dataset.

    Args:
        content: All bytes of the file.
        starts: Offset of each chunk in the file, -1 if the chunk was never written.
        num_chunk_rows: Number of rows in a chunk.
    """

    def __init__(self, content: ReadView, starts: NDArray[np.int64], num_chunk_rows: int) -> None:
        self._content, self._starts, self._num_chunk_rows = content, starts, num_chunk_rows

    def row(self, row: int) -> Payload:
        """Return the 16-byte reference of a row: zeros if it was never written, fewer bytes if the file is truncated."""
        chunk, inside = divmod(row, self._num_chunk_rows)
        start = int(self._starts[chunk])
        if start < 0:
            return bytes(_ROW.size)
        start += inside * _ROW.size
        return self._content[start : start + _ROW.size]


def open_heap(h5py: ModuleType, dataset: Any, path: Path, element_bytes: int) -> HeapRows | None:
    """Return a reader of a one-dimensional dataset whose rows have a variable length.

    Args:
        h5py: The module h5py.
        dataset: The open dataset.
        path: Path of its file.
        element_bytes: Size of one element of a row in bytes.

    Returns:
        None if the file's address size or the dataset's storage layout is not supported here.

    Raises:
        TooLargeError: A chunk would take too much memory.
        ValueError: The chunks must not be read; see `chunk_refusal`.
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
