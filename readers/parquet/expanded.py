"""How much memory a column of a row group takes once pyarrow has decoded it, known before that."""

from functools import partial
from typing import Any

import numpy as np

from readers.blob import Blob, LocalBlob
from readers.formats import require
from readers.limits import check_bytes
from readers.parquet.footer import ColumnChunk
from readers.parquet.pages import Chunk, DamagedPageError, Read, check_pages
from readers.parquet.values import decode_dictionary
from readers.sample import Payload

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
_OWN_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "BROTLI")


def check_column(blob: Blob, leaf: Any, column: ColumnChunk) -> int:
    """See that pyarrow may read a column of a row group, and return how many bytes it becomes, or more.

    A few bytes can stand for a million values: a run of one number, or of one long text in a dictionary.

    Args:
        blob: The file.
        leaf: Its pyarrow.parquet.ColumnSchema.
        column: Where it lies.

    Raises:
        DamagedPageError: Its pages hold another number of values than the footer says.
        TooLargeError: It would take too much memory.
        OSError: See `Blob.read`.
    """
    kind, num_values = leaf.physical_type, column.num_values
    width = leaf.length if kind == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(kind, 4)
    num_bytes = num_values * max(1, width)
    check_bytes(max(num_bytes, column.text_bytes), f"the column {leaf.path!r}")
    stop = column.start + column.stored_bytes
    if not column.is_here or not 4 <= column.start <= stop <= blob.size_bytes:
        raise DamagedPageError("its pages lie outside the file")
    read = blob.read if isinstance(blob, LocalBlob) else _held(blob, column.start, stop)
    dictionary = check_pages(read, column.start, stop, num_values)
    if kind != "BYTE_ARRAY" or dictionary is None or column.codec not in _OWN_CODECS:
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


def decompress(codec: str, stored: Payload, text_bytes: int) -> Payload:
    """Return the text of a page; the codec is called as Parquet calls it."""
    # A codec of its own each time: some keep their state between calls.
    pa = require("pyarrow", extra="arrow")
    return memoryview(pa.Codec(codec.lower()).decompress(stored, text_bytes)).cast("B")


def _held(blob: Blob, start: int, stop: int) -> Read:
    """Read a part of a file from afar once, instead of header by header."""
    [held] = blob.read([(start, stop)])
    return lambda ranges: [held[first - start : last - start] for first, last in ranges]
