"""Chunks of an HDF5 dataset that filters compressed: their decompressed size and content.

HDF5's library decompresses whatever deflate makes of a chunk, also what is a thousand times as long as the
chunk, and follows the offsets that rows of variable length tell. So the one is looked at first, and the other
is undone without the rows.
"""

import zlib
from collections.abc import Sequence
from itertools import product
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from readers.sample import Payload
from readers.storage.blob.mapped import ReadView
from readers.storage.limits import TooLargeError, check_bytes, max_sample_bytes

_ROW_BYTES = 16  # of a reference to a row of variable length, by the specification of HDF5
_MOST_EXPANSION = 1032  # of deflate
_PIECE_BYTES = 1 << 20  # decompressed at a time, so that a bomb never lies in memory as a whole
_SPARE_BYTES = 1 << 16  # that filters may add to what they cannot compress


def has_filters(dataset: Any) -> bool:
    """Return whether the chunks of a dataset are compressed or checked."""
    return bool(dataset.id.get_create_plist().get_nfilters())


def row_bytes(dataset: Any) -> int:
    """Return the size in bytes of a row of a dataset whose rows have one length, by its shape and type."""
    return int(prod(dataset.shape[1:]) * dataset.dtype.itemsize)


def chunk_refusal(h5py: ModuleType, dataset: Any) -> str:
    """Return why chunks of a dataset must not be read, a sentence without a subject; "" where they may."""
    try:
        check_bytes(_chunk_bytes(dataset), f"a chunk of {dataset.name}")
    except TooLargeError as error:
        return f"is too large: {error}"
    twice = _filters(dataset).count(h5py.h5z.FILTER_DEFLATE) > 1
    return "is compressed twice by deflate: write it anew" if twice else ""


def _chunk_bytes(dataset: Any) -> int:
    element_bytes = _ROW_BYTES if dataset.dtype.kind == "O" else dataset.dtype.itemsize
    return int(prod(dataset.chunks) * element_bytes)


def _filters(dataset: Any) -> list[int]:
    """Return the codes of the filters, in the order in which they are used on writing."""
    plan = dataset.id.get_create_plist()
    return [plan.get_filter(number)[0] for number in range(plan.get_nfilters())]


class ChunkCheck:
    """A check that chunks decompress to no more than they claim. Each chunk is checked once.

    Args:
        h5py: The library.
        dataset: An open dataset that is chunked.
        file_bytes: Length of its file.

    Raises:
        ValueError: There is a `chunk_refusal`.
    """

    def __init__(self, h5py: ModuleType, dataset: Any, file_bytes: int) -> None:
        if why := chunk_refusal(h5py, dataset):
            raise ValueError(f"{dataset.name} {why}")
        self._dataset, self._file_bytes, self._seen = dataset, file_bytes, set[int]()
        self._chunk_bytes, codes = _chunk_bytes(dataset), _filters(dataset)
        self._has_filters = bool(codes)
        deflate = h5py.h5z.FILTER_DEFLATE
        self._deflate = codes.index(deflate) if deflate in codes else None

    def check(self, rows: Sequence[int]) -> None:
        """Check that the library may read these rows.

        Raises:
            OSError: A chunk is damaged.
        """
        if not self._has_filters:
            return
        chunks, shape = self._dataset.chunks, self._dataset.shape
        for first in {row // chunks[0] for row in rows} - self._seen:
            others = (
                range(0, size, chunk) for size, chunk in zip(shape[1:], chunks[1:], strict=True)
            )
            for other in product(*others):
                self._check((first * chunks[0], *other))
            self._seen.add(first)

    def _check(self, corner: tuple[int, ...]) -> None:
        info = self._dataset.id.get_chunk_info_by_coord(corner)
        if info.byte_offset is None or not info.size:
            return  # was never written
        if info.byte_offset + info.size > self._file_bytes:
            raise OSError("a chunk leads out of the file")
        if info.size > self._chunk_bytes + self._chunk_bytes // 64 + _SPARE_BYTES:
            raise OSError(f"a chunk of {self._chunk_bytes} bytes takes {info.size}")
        number = self._deflate
        if (
            number is None
            or info.filter_mask >> number & 1
            or info.size * _MOST_EXPANSION <= max_sample_bytes()
        ):
            return
        _, stored = self._dataset.id.read_direct_chunk(corner)
        if (
            _inflated_bytes(stored, self._chunk_bytes + _SPARE_BYTES)
            > self._chunk_bytes + _SPARE_BYTES
        ):
            raise OSError(f"a chunk of {self._chunk_bytes} bytes becomes longer when decompressed")


def _inflated_bytes(stored: bytes, most: int) -> int:
    """Return the length of what deflate makes of bytes, or a number above ``most``."""
    stream, total = zlib.decompressobj(), 0
    try:
        while stored and not stream.eof and total <= most:
            total += len(stream.decompress(stored, _PIECE_BYTES))
            stored = stream.unconsumed_tail
    except zlib.error as error:
        raise OSError(f"a chunk cannot be decompressed ({error})") from None
    return total


class Chunks:
    """The 16 bytes of each row of a dataset of variable length, whose chunks are compressed.

    A chunk is copied as it is into a dataset in memory with the same filters, whose rows are plain bytes.

    Args:
        h5py: The library.
        dataset: A dataset of one dimension.
        content: All of the file.

    Raises:
        ValueError: There is a `chunk_refusal`.
    """

    def __init__(self, h5py: ModuleType, dataset: Any, content: ReadView) -> None:
        [self._num_rows] = dataset.chunks
        self._content, self._space = content, h5py.h5s.ALL
        self._check = ChunkCheck(h5py, dataset, len(content))
        self._type = h5py.h5t.create(h5py.h5t.OPAQUE, _ROW_BYTES)
        self._type.set_tag(b"row")
        source, plan = dataset.id.get_create_plist(), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk((self._num_rows,))
        for number in range(source.get_nfilters()):
            plan.set_filter(*source.get_filter(number)[:3])
        memory = h5py.File(f"{id(self)}", "w", driver="core", backing_store=False)
        space = h5py.h5s.create_simple((self._num_rows,))
        self._copy = h5py.h5d.create(memory.id, b"rows", self._type, space, plan)
        self._spans: dict[int, tuple[int, int, int]] = {}
        self._last: tuple[int, bytes] = (-1, b"")

        def note(chunk: Any) -> None:
            number = chunk.chunk_offset[0] // self._num_rows
            self._spans[number] = (chunk.byte_offset, chunk.size, chunk.filter_mask)

        dataset.id.chunk_iter(note)

    def row(self, row: int) -> Payload:
        """Return the 16 bytes of a row, zeros where it was never written.

        Raises:
            OSError: Its chunk is damaged.
        """
        number, inside = divmod(row, self._num_rows)
        if number not in self._spans:
            return bytes(_ROW_BYTES)
        if self._last[0] != number:
            self._last = (number, self._decoded(number))
        return self._last[1][inside * _ROW_BYTES : (inside + 1) * _ROW_BYTES]

    def _decoded(self, number: int) -> bytes:
        self._check.check([number * self._num_rows])
        start, size, mask = self._spans[number]
        self._copy.write_direct_chunk((0,), self._content[start : start + size], mask)
        rows = np.empty(self._num_rows, f"V{_ROW_BYTES}")
        self._copy.read(self._space, self._space, rows, self._type)
        return rows.tobytes()
