"""Access to single values in a binary column of a Parquet file, without decoding the complete row group.

A page holds its values one after the other, each with its length in front. The lengths are followed once; then a value is
a byte range in the file (without compression), a part of one or more decompressed 64 KiB blocks (Snappy), or a slice of
the decompressed page (other codecs). In this package, "text" means decompressed bytes.
"""

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from readers.formats.parquet.pages import (
    PLAIN,
    PLAIN_DICTIONARY,
    RLE_DICTIONARY,
    Chunk,
    DamagedPageError,
    Page,
    Read,
)
from readers.formats.parquet.snappy import BLOCK_BYTES, block_starts, decompress_blocks
from readers.formats.parquet.thrift import read_varint
from readers.sample import Payload
from readers.storage.blob.mapped import copied
from readers.storage.limits import check_bytes

Decompress = Callable[[Payload, int], Payload]
"""A decompressor: takes (compressed bytes, decompressed length), and returns the decompressed bytes."""

_BY_BLOCK_BYTES = 4 * BLOCK_BYTES  # shorter pages are decompressed as a whole
_LENGTH = struct.Struct("<I")


@dataclass(slots=True)
class Values:
    """The locations of the values in a page.

    Attributes:
        starts: Start offset of each value, int64 [values]: in the file if `text` and `blocks` are None, otherwise in the
            decompressed page.
        stops: End offset of each value, int64 [values].
        text: The decompressed page, None if values are read from the file.
        blocks: Offsets in the file of the 64 KiB blocks of a Snappy page, and of their end, int64 [blocks + 1];
            None if the page is not read in blocks.
        text_bytes: Decompressed length of the page.
        slots: Index of each row's value, -1 for null, int32 [rows]; None if row k has value k.
        in_dictionary: Whether `slots` are indices into the values of the dictionary page; the page then has no values.
        num_taken: Number of values read by blocks since the page was last decompressed as a whole.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    text: Payload | None
    blocks: NDArray[np.int64] | None
    text_bytes: int
    slots: NDArray[np.int32] | None = None
    in_dictionary: bool = False
    num_taken: int = 0

    @property
    def nbytes(self) -> int:
        """Approximate size in memory, in bytes."""
        arrays = (self.starts, self.stops, self.blocks, self.slots)
        return (
            400
            + sum(len(each) * each.itemsize for each in arrays if each is not None)
            + len(self.text or b"")
        )


def decode(
    read: Read,
    chunk: Chunk,
    page: Page,
    decompress: Decompress,
) -> Values:
    """Read a page, and return the locations of its values.

    Args:
        read: Reads byte ranges of the file.
        chunk: The column's data in the row group.
        page: A data page of the column, or its dictionary page.
        decompress: Decompressor of the column's codec.

    Raises:
        DamagedPageError: The page is damaged, or does not match its header.
        OSError: The file cannot be read.
    """
    is_dictionary = page.encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY)
    [stored] = map(copied, read([(page.start, page.stop)]))
    if len(stored) < page.stop - page.start:
        raise DamagedPageError("the file ends within a page")
    compressed = page.compressed and chunk.codec != "UNCOMPRESSED"
    if (
        compressed
        and page.checksum is not None
        and zlib.crc32(stored) != page.checksum & 0xFFFFFFFF
    ):
        raise DamagedPageError("the checksum of a page is wrong")
    text = stored
    if compressed:
        text = _decompressed(stored, page, decompress)
    elif len(stored) != page.text_bytes:
        raise DamagedPageError("a page is not as long as its header says")
    try:
        offset, slots, num_values = _levels(text, chunk, page)
        if is_dictionary:
            width = text[offset] if offset < len(text) else 0
            numbers = hybrid(text, offset + 1, len(text), width, num_values)
            if slots is not None:
                numbers = np.append(numbers, np.int32(-1))[slots]
            nothing = np.empty(0, np.int64)
            return Values(nothing, nothing, None, None, 0, numbers, in_dictionary=True)
        starts, stops = _plain(text, offset, num_values)
    except (IndexError, struct.error):
        raise DamagedPageError("a page ends within a value") from None
    return _located(starts, stops, stored, text, page, compressed, chunk.codec, slots)


def decode_dictionary(read: Read, chunk: Chunk, page: Page, decompress: Decompress) -> Values:
    """Read a column's dictionary page, and return the locations of its values; see `decode`."""
    return decode(read, chunk, replace(page, encoding=PLAIN, level_bytes=0), decompress)


def _decompressed(stored: Payload, page: Page, decompress: Decompress) -> Payload:
    """Return the levels and values of a page, decompressed."""
    front = page.level_bytes or 0
    try:
        text = (
            decompress(stored[front:], page.text_bytes - front) if page.text_bytes > front else b""
        )
    except (OSError, ValueError) as error:
        raise DamagedPageError(
            f"a page cannot be decompressed ({str(error).partition(chr(10))[0]})"
        ) from None
    return bytes(stored[:front]) + text if front else text


def _levels(text: Payload, chunk: Chunk, page: Page) -> tuple[int, NDArray[np.int32] | None, int]:
    """Decode the definition levels of a page.

    Returns:
        The offset at which the values begin, `Values.slots`, and the number of values that are not null.
    """
    num_values = page.num_rows
    if page.level_bytes is None:
        if chunk.max_level == 0:
            return 0, None, num_values
        [length] = _LENGTH.unpack_from(text)
        begin, end = _LENGTH.size, _LENGTH.size + length
    else:
        begin, end = 0, page.level_bytes
        if begin == end:
            return 0, None, num_values
    if end > len(text):
        raise IndexError
    levels = hybrid(text, begin, end, chunk.max_level.bit_length(), num_values)
    there = levels == chunk.max_level
    if there.all():
        return end, None, num_values
    slots = np.where(there, np.cumsum(there) - 1, -1).astype(np.int32)
    return end, slots, int(there.sum())


def hybrid(text: Payload, offset: int, stop: int, width: int, count: int) -> NDArray[np.int32]:
    """Decode integers in Parquet's RLE/bit-packing hybrid encoding; return int32 [count].

    Args:
        text: Bytes that contain the encoded integers.
        offset: Offset in `text` at which the encoded integers begin.
        stop: Offset in `text` beyond which no integer is read.
        width: Bits per integer, 0 to 32.
        count: Number of integers.

    Raises:
        IndexError: The bytes hold fewer than `count` integers.
        DamagedPageError: The bytes are no valid hybrid encoding.
    """
    if width > 32:
        raise DamagedPageError(f"a page packs its numbers in {width} bits")
    check_bytes(8 * count, "a page's list of values")  # a few bytes can encode any number of values
    if width == 0:
        return np.zeros(count, np.int32)
    numbers = np.empty(count, np.int64)
    done, run_bytes = 0, (width + 7) // 8
    while done < count:
        try:
            head, offset = read_varint(text, offset)
        except ValueError as error:
            raise DamagedPageError(str(error)) from None
        if head & 1:
            taken = min((head >> 1) * 8, count - done)
            size_bytes = (head >> 1) * width
            packed = np.frombuffer(text[offset : min(offset + size_bytes, stop)], np.uint8)
            bits = np.unpackbits(packed, bitorder="little")
            if len(bits) < taken * width:
                raise IndexError
            weights = np.int64(1) << np.arange(width, dtype=np.int64)
            numbers[done : done + taken] = bits[: taken * width].reshape(taken, width) @ weights
            offset += size_bytes
        else:
            taken = min(head >> 1, count - done)
            if offset + run_bytes > stop:
                raise IndexError
            numbers[done : done + taken] = int.from_bytes(
                text[offset : offset + run_bytes], "little"
            )
            offset += run_bytes
        if taken == 0:
            raise DamagedPageError("a page holds a run of no numbers")
        done += taken
    return numbers.astype(np.int32)


def _plain(text: Payload, offset: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the start and end offsets of plain-encoded values, each int64 [count], by the lengths in front of the values."""
    if count * _LENGTH.size > len(text) - offset:
        raise IndexError
    starts, stops = [0] * count, [0] * count
    unpack, size = _LENGTH.unpack_from, _LENGTH.size
    for number in range(count):
        start = offset + size
        offset = start + unpack(text, offset)[0]
        starts[number], stops[number] = start, offset
    if offset > len(text):
        raise IndexError
    return np.array(starts, np.int64), np.array(stops, np.int64)


def _located(
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    stored: Payload,
    text: Payload,
    page: Page,
    compressed: bool,
    codec: str,
    slots: NDArray[np.int32] | None,
) -> Values:
    if not compressed:
        return Values(starts + page.start, stops + page.start, None, None, page.text_bytes, slots)
    front = page.level_bytes or 0
    if codec == "SNAPPY" and page.text_bytes - front >= _BY_BLOCK_BYTES:
        blocks = block_starts(stored[front:])
        if blocks is not None:
            blocks += page.start + front
            return Values(
                starts - front, stops - front, None, blocks, page.text_bytes - front, slots
            )
    return Values(starts, stops, text, None, page.text_bytes, slots)


def decompress_whole(read: Read, values: Values, decompress: Decompress) -> Values:
    """Decompress all blocks of a page; return its value locations with the decompressed page in `text`.

    Raises:
        DamagedPageError: The page cannot be decompressed.
        OSError: The file cannot be read.
    """
    assert values.blocks is not None
    [blocks] = map(copied, read([(int(values.blocks[0]), int(values.blocks[-1]))]))
    text = _text_of_blocks(blocks, values.text_bytes, decompress)
    return Values(values.starts, values.stops, text, None, values.text_bytes, values.slots)


def _text_of_blocks(blocks: Payload, text_bytes: int, decompress: Decompress) -> Payload:
    try:
        return decompress_blocks(blocks, text_bytes, decompress)
    except (OSError, ValueError):
        raise DamagedPageError("a page cannot be decompressed") from None


def take(
    read: Read,
    rows: Values,
    values: Values,
    picked: Sequence[int],
    decompress: Decompress,
) -> list[Payload | None]:
    """Return the values of some rows of a page, None for a null.

    Args:
        read: Reads byte ranges of the file.
        rows: Result of `decode` for the page.
        values: Locations of the values: `rows`, or those of the dictionary page if `rows.in_dictionary` is true.
        picked: Rows, relative to the first row of the page.
        decompress: Decompressor of the column's codec.

    Raises:
        DamagedPageError: The page is damaged, or does not match its header.
        OSError: The file cannot be read.
    """
    slots = [row if rows.slots is None else int(rows.slots[row]) for row in picked]
    wanted = [slot for slot in slots if slot >= 0]
    if wanted and max(wanted) >= len(values.starts):
        raise DamagedPageError("a page points behind the end of its dictionary")
    starts, stops = values.starts[wanted].tolist(), values.stops[wanted].tolist()
    ranges = list(zip(starts, stops, strict=True))
    if values.text is not None:
        view = memoryview(values.text)
        found: list[Payload] = [
            bytes(view[start:stop]) for start, stop in ranges
        ]  # a copy, since a view would keep the page in memory
    elif values.blocks is None:
        found = read(ranges)
    else:
        found = _from_blocks(read, values, ranges, decompress)
    each = iter(found)
    return [None if slot < 0 else next(each) for slot in slots]


def _from_blocks(
    read: Read,
    values: Values,
    ranges: list[tuple[int, int]],
    decompress: Decompress,
) -> list[Payload]:
    assert values.blocks is not None
    spans = [(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES)) for start, stop in ranges]
    bounds = values.blocks
    stored = read([(int(bounds[first]), int(bounds[last])) for first, last in spans])
    found: list[Payload] = []
    for (start, stop), (first, last), blocks in zip(ranges, spans, stored, strict=True):
        if start == stop:
            found.append(b"")
            continue
        base = first * BLOCK_BYTES
        text_bytes = min(last * BLOCK_BYTES, values.text_bytes) - base
        text = _text_of_blocks(copied(blocks), text_bytes, decompress)
        found.append(memoryview(text)[start - base : stop - base])
    return found
