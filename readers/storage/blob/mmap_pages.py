"""Mapped files: without descriptors, and with their pages asked for before they are needed."""

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
_MERGE_BYTES = 1 << 14
_NUM_PROBES = 8
_NUM_COLD_BATCHES = 64

Extent = tuple[int, int]
"""Addresses of the first byte, and behind the last one."""


def map_file(path: PathLike, check: Callable[[os.stat_result], None] | None = None) -> memoryview:
    """Map a file to be read, without a descriptor that stays open.

    The map lives as long as the longest-lived view into it. Where the file is shortened in place the operating
    system kills processes that touch what is gone: read it by `readers.storage.blob.mapped.copied`.

    Args:
        path: Path of the file.
        check: Is called with its status before it is mapped, and may raise.
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
    """Tell the operating system how a part of a mapped file is used: an `mmap.MADV_` number.

    MADV_WILLNEED begins to read it. MADV_DONTNEED takes pages out of this process's memory; they come back
    when they are touched.
    """
    begin = extent[0] & _PAGE_MASK
    _libc.madvise(begin, extent[1] - begin, advice)  # only advice: it may be refused


class PagePrefetcher:
    """Asks for the pages of a whole batch at once where they are not in memory.

    A page that is missing when it is touched is waited for alone, with its neighbours up to the readahead of
    the disk: a batch of 256 scattered samples of 100 kB took 48 times as long so. To ask takes 5 us per
    sample also when nothing is missing, so a few samples of every batch are looked at first.
    """

    def __init__(self) -> None:
        self._num_cold = 0
        self._turn = 0

    def look(self, address_of: Callable[[int], int], batch: Callable[[], Iterable[Extent]]) -> None:
        """Ask for a batch if it seems to be missing.

        Args:
            address_of: Gives the address of one of its samples for any number, 0 for none.
            batch: Gives the extents of all samples, in stored order per file.
        """
        for number in range(self._turn, self._turn + _NUM_PROBES):
            address = address_of(number)
            if address and not is_resident(address):
                self._num_cold = _NUM_COLD_BATCHES
                break
        self._turn += _NUM_PROBES
        if self._num_cold > 0:
            self._num_cold -= 1
            for extent in _merged(batch()):
                advise(extent, mmap.MADV_WILLNEED)


def is_resident(address: int) -> bool:
    """Whether a byte of a mapped file can be had without a wait."""
    found = ctypes.c_ubyte()
    if _libc.mincore(address & _PAGE_MASK, 1, ctypes.byref(found)):
        return True  # it cannot be told
    return bool(found.value & 1)


def _merged(extents: Iterable[Extent]) -> Iterable[Extent]:
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
