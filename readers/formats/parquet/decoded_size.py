"""Limits on the memory that pyarrow takes to decode columns of a row group, checked before decoding.

Also prefetching of ranges of a remote file that are then read in several calls.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from readers.detect.registry import require
from readers.formats.parquet.footer import ColumnChunk
from readers.formats.parquet.pages import Chunk, DamagedPageError, Read, check_pages
from readers.formats.parquet.values import decode_dictionary
from readers.sample import Payload
from readers.storage.blob import Blob, LocalBlob
from readers.storage.limits import check_bytes

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
OWN_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "BROTLI")
"""Codecs whose pages are decompressed by this package, one by one."""


def stored_range(file_bytes: int, leaf: Any, column: ColumnChunk) -> tuple[int, int]:
    """Return the byte range of a column's pages, after checking the footer's statements about size and location.

    Args:
        file_bytes: Length of the file in bytes.
        leaf: The column's pyarrow.parquet.ColumnSchema.
        column: The column of one row group, as the footer describes it.

    Returns:
        Start and end offset in the file.

    Raises:
        DamagedPageError: The range lies outside the file.
        TooLargeError: The column would take too much memory.
    """
    check_bytes(max(_least_bytes(leaf, column), column.text_bytes), f"the column {leaf.path!r}")
    stop = column.start + column.stored_bytes
    if not column.is_here or not 4 <= column.start <= stop <= file_bytes:
        raise DamagedPageError("its pages lie outside the file")
    return column.start, stop


def check_column(read: Read, leaf: Any, column: ColumnChunk) -> int:
    """Check the pages of a column, so that pyarrow may read it; return an upper limit of its decoded size in bytes.

    A few bytes can encode a million values: a run of one number, or of one long text in a dictionary.

    Args:
        read: Reads byte ranges of the file.
        leaf: The column's pyarrow.parquet.ColumnSchema.
        column: The column of one row group, which `stored_range` has checked.

    Raises:
        DamagedPageError: The pages hold another number of values than the footer states, or are damaged.
        TooLargeError: The column would take too much memory.
        OSError: The file cannot be read; see `Blob.read`.
    """
    num_values, num_bytes = column.num_values, _least_bytes(leaf, column)
    stop = column.start + column.stored_bytes
    dictionary = check_pages(read, column.start, stop, num_values)
    if leaf.physical_type != "BYTE_ARRAY" or dictionary is None or column.codec not in OWN_CODECS:
        return max(num_bytes, column.text_bytes)
    if num_values * dictionary.text_bytes <= num_bytes:
        return num_bytes
    chunk = Chunk(column.start, num_values, column.codec, 0, stop)
    found = decode_dictionary(read, chunk, dictionary, partial(decompress, column.codec))
    longest = int(np.max(found.stops - found.starts, initial=0))
    expanded = num_bytes + num_values * longest
    if expanded > column.text_bytes:
        check_bytes(expanded, f"the column {leaf.path!r}")
    return max(expanded, column.text_bytes)


def _least_bytes(leaf: Any, column: ColumnChunk) -> int:
    """Return the decoded size of a column in bytes, without the bytes of its texts."""
    kind = leaf.physical_type
    width = leaf.length if kind == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(kind, 4)
    return column.num_values * max(1, int(width))


def decompress(codec: str, stored: Payload, text_bytes: int) -> Payload:
    """Return the decompressed bytes of a page.

    Args:
        codec: Name of the codec in Parquet.
        stored: The compressed bytes.
        text_bytes: Length of the result.
    """
    # A new codec object for each call: some keep state between calls.
    pa = require("pyarrow", extra="arrow")
    return memoryview(pa.Codec(codec.lower()).decompress(stored, text_bytes)).cast("B")


def hold(blob: Blob, ranges: Sequence[tuple[int, int]]) -> Read:
    """Return a function that reads byte ranges of a file, after fetching the given ranges if the file is remote.

    The function fetches all other ranges when they are read.

    Args:
        blob: The file.
        ranges: Half-open byte ranges that are fetched now, in one call.

    Raises:
        TooLargeError: The ranges would take too much memory.
        OSError: The file cannot be read; see `Blob.read`.
    """
    if isinstance(blob, LocalBlob):
        return blob.read
    check_bytes(sum(stop - start for start, stop in ranges), "what is stored of it")
    ranges = sorted(ranges)
    starts, held = [start for start, _ in ranges], blob.read(ranges)

    def part(start: int, stop: int) -> Payload:
        number = bisect_right(starts, start) - 1
        if number >= 0 and stop <= ranges[number][1]:
            return held[number][start - starts[number] : stop - starts[number]]
        return blob.read([(start, stop)])[0]

    return lambda wanted: [part(start, stop) for start, stop in wanted]
