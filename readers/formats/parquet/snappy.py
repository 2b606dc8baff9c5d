"""Decompression of single 64 KiB blocks of Snappy data.

Snappy's writers compress 64 KiB of input at a time, and no element refers back beyond such a block. So one pass over the
element headers finds the start of each block, and later only the needed blocks are decompressed: one or two for a
photograph, in a page that holds a thousand.
Format: https://github.com/google/snappy/blob/main/format_description.txt
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from readers.formats.parquet.thrift import read_varint
from readers.sample import Payload

BLOCK_BYTES = 1 << 16  # bytes of input that Snappy compresses at a time
_MAX_ELEMENTS_PER_BLOCK = 512  # with more elements, decompressing is faster than this walk


def block_starts(compressed: Payload) -> NDArray[np.int64] | None:
    """Return the offsets of the blocks in Snappy data, each of 64 KiB when decompressed, and of their end.

    Args:
        compressed: The Snappy data.

    Returns:
        int64 [blocks + 1]. None if the data cannot be read in blocks, because an element crosses or refers back beyond a
        block's border, or if it has so many elements that block access does not pay.

    Raises:
        IndexError: The data is truncated.
    """
    length, offset = read_varint(compressed, 0)
    stop = len(compressed)
    starts = [offset]
    left = _MAX_ELEMENTS_PER_BLOCK * (length // BLOCK_BYTES + 1)
    border, written = BLOCK_BYTES, 0
    while offset < stop:
        tag = compressed[offset]
        kind = tag & 3
        if kind == 0:
            count = (tag >> 2) + 1
            offset += 1
            if count > 60:
                width = count - 60
                count = int.from_bytes(compressed[offset : offset + width], "little") + 1
                offset += width
            written += count
            offset += count
        else:
            if kind == 1:
                back = (tag >> 5) << 8 | compressed[offset + 1]
                count = (tag >> 2 & 7) + 4
                offset += 2
            else:
                width = 2 if kind == 2 else 4
                back = int.from_bytes(compressed[offset + 1 : offset + 1 + width], "little")
                count = (tag >> 2) + 1
                offset += 1 + width
            if back > written - border + BLOCK_BYTES:
                return None
            written += count
        if written >= border:
            if written > border:
                return None
            starts.append(offset)
            border += BLOCK_BYTES
        left -= 1
        if left == 0:
            return None
    if written != length or offset != stop:
        raise IndexError("the text is cut off")
    if starts[-1] != offset:
        starts.append(offset)
    return np.array(starts, np.int64)


def decompress_blocks(
    blocks: Payload, text_bytes: int, decompress: Callable[[bytes, int], Payload]
) -> Payload:
    """Return the decompressed bytes of neighbouring blocks.

    Args:
        blocks: Compressed bytes of the blocks, without a length in front.
        text_bytes: Decompressed length of the blocks.
        decompress: Snappy's decompressor, with the arguments (compressed bytes, decompressed length).
    """
    return decompress(_varint(text_bytes) + blocks, text_bytes)


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    digits.append(number)
    return bytes(digits)
