"""Rows of variable length, read at their places in an HDF5 file: h5py takes 50 to 100 us for each.

Such a row is stored as 16 bytes that say where in the file a heap lies, which holds the bytes of one row or
several. The format is that of HDF5's specification, version 3; nothing in the file is trusted.
"""

import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.blob.mapped import MappedFile, mapped_file
from readers.blob.pages import map_file
from readers.sample import Payload

_ROW = struct.Struct("<IQI")  # length, address of the heap, number of the object in it
_HEAP = struct.Struct("<4sB3xQ")  # signature, version, size with this header
_OBJECT = struct.Struct("<HHIQ")  # number, references, reserved, size
_NEAR_BYTES = 4096  # the shortest heap, of which objects are looked for one after the other


class HeapRows:
    """The rows of one dataset of bytes of variable length.

    Args:
        file: The file, mapped.
        starts: Where the 16 bytes of the first row of each chunk lie, -1 where they lie nowhere.
        num_chunk_rows: Rows of a chunk.
        base: Where the addresses in the file begin.
    """

    def __init__(
        self, file: MappedFile, starts: NDArray[np.int64], num_chunk_rows: int, base: int
    ) -> None:
        self._file, self._base = file, base
        self._starts, self._num_chunk_rows = starts, num_chunk_rows

    def read(self, row: int) -> Payload:
        """Return a row.

        Raises:
            OSError: The file is damaged there, or has shrunk.
        """
        chunk, row = divmod(row, self._num_chunk_rows)
        start = int(self._starts[chunk])
        if start < 0:  # never written
            return b""
        try:
            length, address, number = self._unpack(_ROW, start + row * _ROW.size)
            return self._find(self._base + address, number, length) if length else b""
        except struct.error:
            raise OSError("it is cut off") from None

    def _find(self, place: int, number: int, length: int) -> Payload:
        signature, version, size = self._unpack(_HEAP, place)
        end = place + size
        if signature != b"GCOL" or version != 1 or end > self._file.size_bytes:
            raise OSError(f"there is no heap at byte {place}")
        place += _HEAP.size
        near = place, self._file.read(place, min(end, place + _NEAR_BYTES))
        while place + _OBJECT.size <= end:
            found, _, _, object_bytes = self._unpack(_OBJECT, place, near)
            place += _OBJECT.size
            if found == number:
                if length > object_bytes or place + length > end:
                    break
                return self._file.payload(place, place + length)
            if found == 0:  # the free space at the end
                break
            place += object_bytes + 7 & ~7
        raise OSError(f"the heap that ends at byte {end} lacks the object {number}")

    def _unpack(
        self, what: struct.Struct, place: int, near: tuple[int, bytes] = (0, b"")
    ) -> tuple[Any, ...]:
        start, data = near
        if start <= place and place + what.size <= start + len(data):
            return what.unpack_from(data, place - start)
        return what.unpack(self._file.read(place, place + what.size))


def open_heap(h5py: ModuleType, dataset: Any, path: Path) -> HeapRows | None:
    """Open a dataset of one dimension; None where it is compressed, or not as this module reads it."""
    plan = dataset.id.get_create_plist()
    if plan.get_nfilters() or dataset.file.id.get_create_plist().get_sizes() != (8, 8):
        return None
    if plan.get_layout() == h5py.h5d.CONTIGUOUS:
        offset = dataset.id.get_offset()
        starts = np.array([-1 if offset is None else offset], np.int64)
        num_chunk_rows = len(dataset)
    elif plan.get_layout() == h5py.h5d.CHUNKED:
        num_chunk_rows = dataset.chunks[0]
        starts = np.full(-(-len(dataset) // num_chunk_rows), -1, np.int64)

        def note(chunk: Any) -> None:
            starts[chunk.chunk_offset[0] // num_chunk_rows] = chunk.byte_offset

        dataset.id.chunk_iter(note)
    else:
        return None
    file = mapped_file(map_file(path))
    if file is None:
        return None
    rows = HeapRows(file, starts, num_chunk_rows, dataset.file.userblock_size)
    # A look at both ends, since nothing else says that this module and the library agree.
    try:
        same = all(dataset[row].tobytes() == rows.read(row) for row in (0, len(dataset) - 1))
    except OSError:
        return None
    return rows if same else None
