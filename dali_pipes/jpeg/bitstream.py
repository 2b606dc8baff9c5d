"""Copy the entropy-coded bytes of a scan, without the zero stuffed after each 0xFF, up to the next marker.

The bytes are copied piece by piece into a buffer that fits the L1 cache. Zeros follow the last byte, so reading a
symbol needs no check for the end. The fields of `feed` are documented in ``memory.py``.
"""

from typing import Any

import numpy as np

from dali_pipes.jpeg.progressive.bits import count
from gpu_aug.compiled.jit import (
    has_ff,
    inlined,
    inner,
    load_be64,
    load_u8,
    signed,
    store_be64,
    store_u8,
)

MCU_BYTES = 2560
"""More than an MCU can take: ten blocks of 64 symbols of at most 31 bits are 2480 bytes."""
CLEAN_BYTES = 16384
"""Bytes of the buffer before the zeros: half of an L1 cache of 32 kB."""
_KEPT_BYTES = 8
"""Bytes before the first unread one that stay in the buffer, because they may hold the bits that were read ahead."""
BUFFER_BYTES = (
    _KEPT_BYTES + CLEAN_BYTES + MCU_BYTES + 32
)  # plus the bytes that 64-bit reads touch beyond the end

_U3, _U63 = np.uint64(3), np.uint64(63)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)  # all bits but the highest one of each byte


@inlined
def set_buffer(feed: Any, buffer: Any) -> None:
    """Set the buffer, uint8 [at least BUFFER_BYTES]."""
    feed.clean = signed(buffer.ctypes.data) + _KEPT_BYTES


@inner
def start_feed(feed: Any, source: int) -> None:
    """Start reading at an address: nothing is read ahead, and all DC predictions are zero."""
    feed.source = source
    feed.filled = feed.position = feed.clean
    feed.ended = feed.bits = feed.buffer = 0
    feed.walked, feed.walked_to, feed.limit = feed.clean, source, feed.clean + CLEAN_BYTES
    feed.prediction[:] = 0


@inner
def top_up(feed: Any) -> None:
    """Move the unread bytes to the start of the buffer, and fill the rest with the bytes that follow."""
    rest = feed.filled - feed.position
    target = feed.clean
    for offset in range(-_KEPT_BYTES, rest, 8):
        store_be64(target + offset, load_be64(feed.position + offset))
    feed.position = target
    target += rest
    source, stop, limit = feed.source, feed.stop, feed.limit
    feed.walked = feed.clean - _KEPT_BYTES
    feed.walked_to = source - (target - feed.walked) - count_ff(feed.walked, target)
    while target < limit:
        if source + 8 <= stop and target + 8 <= limit:
            word = load_be64(source)
            if not has_ff(word):
                store_be64(target, word)
                source += 8
                target += 8
                continue
        byte = signed(load_u8(source)) if source < stop else 0xFF
        if byte == 0xFF:
            if source + 2 > stop or load_u8(source + 1) != 0:
                feed.ended = 1
                break
            source += 1
        store_u8(target, byte)
        source += 1
        target += 1
    feed.source, feed.filled = source, target
    for offset in range(0, MCU_BYTES + 32, 8):
        if feed.ended:
            store_be64(target + offset, np.uint64(0))


@inner
def count_ff(start: int, stop: int) -> int:
    """Return how many bytes between two addresses are 0xFF; up to seven bytes behind them are read, too."""
    found = signed(0)
    for at in range(start, stop, 8):
        # A byte of `rest` has its highest bit if it is not 0xFF; the bytes from `stop` on are shifted out.
        rest = ~load_be64(at)
        rest = (rest & _LOW) + _LOW | rest
        found += signed(count(~(rest | _LOW) >> np.uint64(8 * max(at + 8 - stop, 0))))
    return found


@inlined
def prepare_mcu(feed: Any, bits: Any, position: int) -> Any:
    """Ensure that all bytes of the next MCU are in the buffer.

    Args:
        feed: FEED, the position of reading in the scan.
        bits: uint64, whose six lowest bits are the count of bits that were read ahead.
        position: Address of the first byte that was not read ahead.

    Returns:
        The new position (the bytes may move), and whether the scan has this MCU: False if it ended before.
    """
    is_there = True
    if position > feed.filled - MCU_BYTES:
        if not feed.ended:
            feed.position = position
            top_up(feed)
            position = feed.position
        is_there = position - signed((bits & _U63) >> _U3) <= feed.filled
    return position, is_there
