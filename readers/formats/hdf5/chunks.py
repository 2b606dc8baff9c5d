"""Compressed chunks of an HDF5 dataset: checks of their decompressed size, and their content.

The HDF5 library decompresses a chunk without a limit, although deflate can expand it a thousand times, and it follows the
offsets stored in rows of variable length without checks. So the decompressed size is checked here first, and chunks with
rows of variable length are decompressed without following these offsets.
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

_ROW_BYTES = 16  # size of the reference to a row of variable length, by the specification of HDF5
_MOST_EXPANSION = 1032  # largest ratio by which deflate can compress
_PIECE_BYTES = 1 << 20  # decompressed at a time, so that a bomb never fills the memory
_SPARE_BYTES = 1 << 16  # bytes by which a filter may enlarge a chunk that it cannot compress


def has_filters(dataset: Any) -> bool:
    """Return whether a dataset has filters, such as compression or checksums."""
    return bool(dataset.id.get_create_plist().get_nfilters())


def row_bytes(dataset: Any) -> int:
    """Return the size in bytes of one row of a dataset whose rows have a fixed length."""
    return int(prod(dataset.shape[1:]) * dataset.dtype.itemsize)


def chunk_refusal(h5py: ModuleType, dataset: Any) -> str:
    """Return why chunks of a dataset must not be read, as a sentence without its subject; "" if they may be read."""
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
    """Return the codes of a dataset's filters, in the order in which they are applied on writing."""
    plan = dataset.id.get_create_plist()
    return [plan.get_filter(number)[0] for number in range(plan.get_nfilters())]


class ChunkCheck:
    """Checks that no chunk decompresses to more bytes than its shape needs. Each chunk is checked once.

    Args:
        h5py: The module h5py.
        dataset: An open, chunked dataset.
        file_bytes: Length of its file in bytes.

    Raises:
        ValueError: The chunks must not be read; see `chunk_refusal`.
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
        """Check the chunks that hold the given rows, before HDF5's library reads them.

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
            return  # the chunk was never written
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
    """Return the decompressed length of deflated bytes; some number above ``most`` if it exceeds ``most``."""
    stream, total = zlib.decompressobj(), 0
    try:
        while stored and not stream.eof and total <= most:
            total += len(stream.decompress(stored, _PIECE_BYTES))
            stored = stream.unconsumed_tail
    except zlib.error as error:
        raise OSError(f"a chunk cannot be decompressed ({error})") from None
    return total


class Chunks:
    """Reads the 16-byte row references of a compressed dataset whose rows have a variable length.

    A compressed chunk is copied into an in-memory dataset with the same filters, whose rows are opaque bytes, so that
    HDF5 decompresses it without following the references.

    Args:
        h5py: The module h5py.
        dataset: An open dataset of one dimension.
        content: All bytes of the file.

    Raises:
        ValueError: The chunks must not be read; see `chunk_refusal`.
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
        """Return the 16-byte reference of a row, zeros if the row was never written.

        Raises:
            OSError: The chunk of the row is damaged.
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
