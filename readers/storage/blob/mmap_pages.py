"""Map files without keeping descriptors open, and prefetch their pages before they are needed."""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterable

import numpy as np

from readers.sample import PathLike
from readers.storage.blob.mapped import MappedFile

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

_PAGE_MASK = -mmap.PAGESIZE
"""Rounds an address down to a page, as madvise(2) and mincore(2) require."""
_MERGE_BYTES = 1 << 14
"""Extents closer than four pages are requested together, which saves system calls."""
_NUM_PROBES = 8
"""Number of samples of a batch that are tested for being in memory."""
_NUM_COLD_BATCHES = 64
"""Number of batches that are prefetched without a test after a batch that was not in memory."""

Extent = tuple[int, int]
"""Address of the first byte, and the address after the last byte."""


def map_file(path: PathLike, check: Callable[[os.stat_result], None] | None = None) -> memoryview:
    """Return a read-only view of a memory-mapped file; no descriptor stays open.

    The mapping lives as long as the last view into it. If the file is shortened in place, the operating system kills processes
    that access the missing bytes: read the view through `readers.storage.blob.mapped.copied`.

    Args:
        path: Path of the file.
        check: Called with the result of `os.fstat` before the file is mapped; it may raise an error.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if check is not None:
            check(status)
        if not status.st_size:
            return memoryview(b"")
        return np.asarray(MappedFile(path, descriptor, status)).data
    finally:
        os.close(descriptor)


def address_of(view: memoryview) -> int:
    """Return the memory address of the first byte of a view."""
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def advise(extent: Extent, advice: int) -> None:
    """Advise the operating system about the use of a part of a mapped file, by madvise(2).

    Args:
        extent: The part.
        advice: ``mmap.MADV_WILLNEED`` to read the part in the background; ``mmap.MADV_DONTNEED`` to release its pages from this
            process, which are read again when they are accessed; or another constant of `mmap`.
    """
    begin = extent[0] & _PAGE_MASK
    _libc.madvise(begin, extent[1] - begin, advice)  # a refusal changes nothing but speed


class PagePrefetcher:
    """Prefetches the pages of all samples of a batch together, if they are not in memory.

    Without this, each missing page is read alone when it is accessed, with its neighbours up to the read-ahead of the disk: a
    batch of 256 scattered samples of 100 kB took 48 times as long that way. Prefetching takes 5 us per sample even if nothing
    is missing, so a few samples of each batch are tested first.
    """

    def __init__(self) -> None:
        self._num_cold = 0
        self._turn = 0

    def look(self, address_of: Callable[[int], int], batch: Callable[[], Iterable[Extent]]) -> None:
        """Prefetch the pages of a batch if one of the tested samples is not in memory.

        Args:
            address_of: Returns the address of a sample of the batch, given any integer >= 0; 0 if the sample is not mapped.
            batch: Returns the extents of all samples, sorted by address within each file.
        """
        for number in range(self._turn, self._turn + _NUM_PROBES):
            address = address_of(number)
            if address and not is_resident(address):
                self._num_cold = _NUM_COLD_BATCHES
                break
        self._turn += _NUM_PROBES
        if self._num_cold > 0:
            self._num_cold -= 1
            for extent in _merge(batch()):
                advise(extent, mmap.MADV_WILLNEED)


def is_resident(address: int) -> bool:
    """Return whether the byte of a mapped file at an address is in memory; True if this is unknown."""
    found = ctypes.c_ubyte()
    if _libc.mincore(address & _PAGE_MASK, 1, ctypes.byref(found)):
        return True  # unknown
    return bool(found.value & 1)


def _merge(extents: Iterable[Extent]) -> Iterable[Extent]:
    start = stop = 0
    for first, last in extents:
        if start <= first <= stop + _MERGE_BYTES:
            stop = max(stop, last)
            continue
        if stop:
            yield start, stop
        start, stop = first, last
    if stop:
        yield start, stop
