"""Mapping files without descriptors, and requesting their pages before they are needed."""

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
"""madvise(2) and mincore(2) need addresses of whole pages."""
_MERGE_BYTES = 1 << 14
"""Extents closer than four pages are requested together, which saves system calls."""
_NUM_PROBES = 8
"""Samples of a batch that are tested for being in memory."""
_NUM_COLD_BATCHES = 64
"""Batches that are requested without a test after one that was not in memory."""

Extent = tuple[int, int]
"""Addresses of the first byte and after the last one."""


def map_file(path: PathLike, check: Callable[[os.stat_result], None] | None = None) -> memoryview:
    """Return the bytes of a file, mapped for reading, without a descriptor that stays open.

    The mapping lives as long as the last view into it. If the file is shortened in place, the operating system kills processes
    that touch the missing bytes: read them by `readers.storage.blob.mapped.copied`.

    Args:
        path: Path of the file.
        check: Called with the status of the file before it is mapped; may raise.
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
    """Return the address of a mapped file."""
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def advise(extent: Extent, advice: int) -> None:
    """Advise the operating system about the use of a part of a mapped file, by an `mmap.MADV_` number.

    MADV_WILLNEED starts to read it. MADV_DONTNEED releases its pages from this process; they come back when they are touched.
    """
    begin = extent[0] & _PAGE_MASK
    _libc.madvise(begin, extent[1] - begin, advice)  # a refusal changes nothing but speed


class PagePrefetcher:
    """Requests the pages of a batch together if they are not in memory.

    A missing page that is touched is read alone, with its neighbours up to the read-ahead of the disk: a batch of 256 scattered
    samples of 100 kB took 48 times as long that way. A request takes 5 us per sample even if nothing is missing, so a few
    samples of each batch are tested first.
    """

    def __init__(self) -> None:
        self._num_cold = 0
        self._turn = 0

    def look(self, address_of: Callable[[int], int], batch: Callable[[], Iterable[Extent]]) -> None:
        """Request the pages of a batch if a tested sample is not in memory.

        Args:
            address_of: Returns the address of a sample for any number, 0 without one.
            batch: Returns the extents of all samples, in stored order per file.
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
    """Return whether a byte of a mapped file is in memory."""
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
