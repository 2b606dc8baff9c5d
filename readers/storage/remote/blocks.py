"""Files of the block cache: each holds one block of a remote file.

The file consists of a header, the CRC-32 of each 64 KiB piece, and the bytes of the block. Only the pieces that are needed
are read and verified.
"""

import hashlib
import os
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from readers.sample import Payload

Range = tuple[int, int]

PIECE_BYTES = 1 << 16
"""Size of a piece, the unit of checksums."""
_HEAD = struct.Struct("<4s16sII")
"""Layout of the header: format, digest of the block, number of bytes, and CRC-32 of the checksums, which starts from the
number of bytes."""
_FORMAT = b"gab1"
"""First bytes of each file. A new layout needs a new digit."""


class Block(NamedTuple):
    """A block of a remote file, and the part of it that is needed.

    Attributes:
        digest: Hash of the file and the block's number, which names the block in the cache.
        span: Offsets of the block's first byte in the file, and after its last byte.
        wanted: Offsets of the first needed byte and after the last one, counted from the start of the block.
    """

    digest: bytes
    span: Range
    wanted: Range


class Part(NamedTuple):
    """A part of a block that was read.

    Attributes:
        start: Offset of the part in the block.
        data: Bytes of the part.
    """

    start: int
    data: memoryview


def find_blocks(key: str, size: int, length: int, ranges: Sequence[Range]) -> dict[int, Block]:
    """Return the blocks that contain ranges of a file, by block number.

    Args:
        key: Text that identifies the file and its content.
        size: Size of a block in bytes.
        length: Size of the file in bytes.
        ranges: Pairs of the first byte and the byte after the last one.
    """
    wanted: dict[int, Range] = {}
    for start, stop in ranges:
        for number in range(start // size, -(-stop // size) if start < stop else 0):
            low, high = max(start - number * size, 0), min(stop - number * size, size)
            before = wanted.get(number, (low, high))
            wanted[number] = min(low, before[0]), max(high, before[1])
    return {
        number: Block(
            _digest(key, size, number), (number * size, min((number + 1) * size, length)), span
        )
        for number, span in wanted.items()
    }


def cut(parts: dict[int, Part], start: int, stop: int, size: int) -> Payload:
    """Return the bytes of a file from `start` up to, but not including, `stop`, joined from parts of its blocks.

    Args:
        parts: Parts of blocks, by block number; they must contain the range.
        start: Offset of the first byte.
        stop: Offset after the last byte.
        size: Size of a block in bytes.
    """
    pieces = []
    while start < stop:
        number, offset = divmod(start, size)
        end = min(stop, (number + 1) * size)
        part = parts[number]
        pieces.append(part.data[offset - part.start : offset - part.start + end - start])
        start = end
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def describe(block: Block, data: Payload) -> bytes:
    """Return the header and the checksums of a block, which precede its bytes in the file."""
    starts = range(0, len(data), PIECE_BYTES)
    pieces = [zlib.crc32(data[start : start + PIECE_BYTES]) for start in starts]
    checks = struct.pack(f"<{len(pieces)}I", *pieces)
    return _HEAD.pack(_FORMAT, block.digest, len(data), zlib.crc32(checks, len(data))) + checks


def read_part(descriptor: int, block: Block) -> Part:
    """Return the needed part of a block, extended to full pieces of 64 KiB.

    Args:
        descriptor: Descriptor of the file of the block.
        block: The block.

    Raises:
        ValueError: The file is damaged, or holds another block.
        OSError: The file cannot be read.
    """
    length = block.span[1] - block.span[0]
    num_pieces = -(-length // PIECE_BYTES)
    head = os.pread(descriptor, _HEAD.size + 4 * num_pieces, 0)
    if len(head) != _HEAD.size + 4 * num_pieces:
        raise ValueError("cut off")
    checks = head[_HEAD.size :]
    expected = (_FORMAT, block.digest, length, zlib.crc32(checks, length))
    if _HEAD.unpack(head[: _HEAD.size]) != expected:
        raise ValueError("damaged description")
    first = block.wanted[0] // PIECE_BYTES
    start, stop = first * PIECE_BYTES, min(-(-block.wanted[1] // PIECE_BYTES) * PIECE_BYTES, length)
    data = memoryview(os.pread(descriptor, stop - start, len(head) + start))
    if len(data) != stop - start:
        raise ValueError("cut off")
    checksums = struct.unpack(f"<{num_pieces}I", checks)[first:]
    for offset, checksum in zip(range(0, len(data), PIECE_BYTES), checksums, strict=False):
        if zlib.crc32(data[offset : offset + PIECE_BYTES]) != checksum:
            raise ValueError("damaged bytes")
    return Part(start, data)


def _digest(key: str, size: int, number: int) -> bytes:
    name = f"{key}\0{size}\0{number}".encode("utf-8", "surrogateescape")
    return hashlib.sha256(name).digest()[:16]
