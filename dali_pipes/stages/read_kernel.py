"""Read many encoded images in one call without the GIL: open, read and close files, and read JPEG headers."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.file_bytes import read_bytes
from dali_pipes.jpeg.header import read_size
from dali_pipes.jpeg.memory import memory_at
from dali_pipes.stages.encoded_rows import SIZED, UNREAD
from gpu_aug.compiled.jit import c_function, inlined, kernel, load_i64, signed

# All offsets and lengths have 64 bits: only 64-bit Linux is supported. Addresses are passed as numbers.
_open = c_function("open", 32, 64, 32, variadic=True)
_seek = c_function("lseek", 64, 32, 64, 32)
_close = c_function("close", 32, 32)
_clock_gettime = c_function("clock_gettime", 32, 32, 64)
_getrusage = c_function("getrusage", 32, 32, 64)

_TO_END, _MONOTONIC, _THREAD = 2, 1, 1  # Linux's SEEK_END, CLOCK_MONOTONIC, RUSAGE_THREAD
_VOLUNTARY = 128  # offset of the voluntary context switches in `struct rusage`, on 64-bit Linux
# With fewer remaining files, more threads do not pay off, however slow the storage is.
_FEW = 16
_PROBE = 4  # files between two readings of the clock, each of which takes 30 ns
_SLOW_NANOSECONDS = 200_000  # per file: ten times the time for a file in the page cache


@kernel
def read_images(
    paths: Any,
    flags: int,
    limit: int,
    places: Any,
    first: int,
    arena: Any,
    memory: Any,
    spans: Any,
    sizes: Any,
    states: Any,
) -> int:
    """Read images into an arena until the arena is full or the storage is found to be slow.

    Args:
        paths: uint8 [...], null-terminated file names; empty if the files are open.
        flags: Flags of open(2).
        limit: Length in bytes; images that are longer are not read.
        places: int64 [n, 3]: the offset of the file's name in `paths`, or the descriptor of an open file; the offset
            of the image's first byte in the file; the image's length in bytes, -1 to read up to the end of the file.
        first: The row to start with.
        arena: uint8 [...], written.
        memory: uint8 [MEMORY_BYTES], scratch for headers.
        spans: int64 [n, 2], written: address and length in bytes of each image that was read.
        sizes: int64 [n, 2], height and width of the upright images, 0 for unknown sizes; those of JPEGs are written.
        states: uint8 [n], on entry READ for rows to read and UNREAD for others; written.

    Returns:
        The first row that was not read, n if all were read; -1 minus that row if reading stopped because the storage
        is slow.
    """
    base, used, count = signed(arena.ctypes.data), signed(0), len(states)
    record = memory_at(signed(memory.ctypes.data))
    clock = np.zeros(32, np.int64)
    begun, waits, probed = _now(clock), _waits(clock), 0
    for row in range(first, count):
        if states[row] == UNREAD:
            continue
        if probed == _PROBE and count - row >= _FEW:
            now = _now(clock)
            # A thread that lost its core is slow, too, but then its context switches are involuntary.
            if now - begun > _PROBE * _SLOW_NANOSECONDS and _waits(clock) >= waits + _PROBE:
                return signed(-1 - row)
            begun, waits, probed = now, _waits(clock), 0
        probed += 1
        start, length = places[row, 1], places[row, 2]
        file = places[row, 0]
        if len(paths):
            file = _open(signed(paths.ctypes.data) + places[row, 0], flags)
            if length < 0 and file >= 0:
                length = _seek(file, 0, _TO_END) - start
        if (
            file < 0 or length <= 0 or length > limit
        ):  # no message here: these rows are read again one by one, which finds the reason
            states[row] = UNREAD
            if len(paths) and file >= 0:
                _close(file)
            continue
        is_room = used + length <= len(arena)
        is_read = is_room and read_bytes(file, base + used, length, start)
        if len(paths):
            _close(file)
        if not is_room:
            if used == 0:  # larger than an arena: read separately, into its own memory
                states[row] = UNREAD
                continue
            return signed(row)
        if not is_read:
            states[row] = UNREAD
            continue
        spans[row, 0], spans[row, 1] = base + used, length
        used += (length + 63) // 64 * 64
        if sizes[row, 0] == 0:
            record.job.data, record.job.length = spans[row, 0], length
            read_size(record, sizes[row])
        if sizes[row, 0] > 0:
            states[row] = SIZED
    return signed(count)


@inlined
def _waits(room: Any) -> int:
    """Return how often this thread has waited voluntarily, for instance for a disk."""
    address = signed(room.ctypes.data)
    _getrusage(_THREAD, address)
    return signed(load_i64(address + _VOLUNTARY))


@inlined
def _now(clock: Any) -> int:
    address = signed(clock.ctypes.data)
    _clock_gettime(_MONOTONIC, address)
    return signed(load_i64(address) * 1_000_000_000 + load_i64(address + 8))
