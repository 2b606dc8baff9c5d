"""Parser of the row groups in a Parquet footer, without pyarrow.

pyarrow aborts the process if its metadata objects are asked about a row group or column with an invalid description;
its read functions raise exceptions instead. Format:
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from typing import Any, NamedTuple

from readers.formats.parquet.thrift import Wanted, read_struct
from readers.sample import Payload

_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_CHUNK: Wanted = {**dict.fromkeys((1, 4, 5, 6, 7, 9, 11)), 12: {3: None}}  # 12: statistics
_WANTED: Wanted = {
    4: {  # row groups
        1: {1: None, 3: _CHUNK, 8: {}, 9: {}},  # columns: file, chunk, encryption
        3: None,
    }
}
_LIMIT = 1 << 62  # numbers must be smaller, so that sums of a few fit 64 bits


class ColumnChunk(NamedTuple):
    """The data of one column in a row group, as the footer describes it.

    Attributes:
        codec: Name of the compression in Parquet.
        num_values: Number of values, including nulls and empty lists.
        text_bytes: Decompressed size in bytes.
        stored_bytes: Stored size in bytes.
        start: Offset of the first page in the file.
        is_here: Whether the data lies in this file.
        is_encrypted: Whether the column is encrypted.
        num_nulls: Number of nulls, 0 if the footer does not state it.
    """

    codec: str
    num_values: int
    text_bytes: int
    stored_bytes: int
    start: int
    is_here: bool
    is_encrypted: bool
    num_nulls: int = 0


class Group(NamedTuple):
    """A row group.

    Attributes:
        num_rows: Number of rows.
        columns: The columns, in the order of the schema.
    """

    num_rows: int
    columns: tuple[ColumnChunk, ...]


def read_groups(footer: Payload, is_list: list[bool]) -> list[Group]:
    """Return the row groups that a footer describes.

    Args:
        footer: Bytes of the footer, without its length and magic.
        is_list: For each column, whether a row may hold several values.

    Raises:
        ValueError: The footer is damaged; the text gives the reason.
    """
    try:
        fields, _ = read_struct(footer, 0, _WANTED)
        return [_group(group, is_list) for group in fields.get(4, ())]
    except IndexError:
        raise ValueError("it is cut off") from None
    except (KeyError, TypeError, AttributeError):
        raise ValueError("a row group lacks what it must tell") from None


def _group(fields: dict[int, Any], is_list: list[bool]) -> Group:
    num_rows, columns = _number(fields[3]), fields[1]
    if len(columns) != len(is_list):
        raise ValueError(f"a row group has {len(columns)} columns instead of {len(is_list)}")
    chunks = tuple(map(_column, columns))
    for chunk, several in zip(chunks, is_list, strict=True):
        fits = chunk.num_values >= num_rows if several else chunk.num_values == num_rows
        if not fits and not chunk.is_encrypted:
            raise ValueError(
                f"a row group of {num_rows} rows has a column of {chunk.num_values} values"
            )
    return Group(num_rows, chunks)


def _column(fields: dict[int, Any]) -> ColumnChunk:
    is_encrypted = 8 in fields or 9 in fields
    if is_encrypted and 3 not in fields:
        return ColumnChunk("UNCOMPRESSED", 0, 0, 0, 4, 1 not in fields, True)
    chunk = fields[3]
    codec = _number(chunk[4])
    if codec >= len(_CODECS):
        raise ValueError(f"a column is compressed in a way without a name (number {codec})")
    pages, dictionary = _number(chunk[9]), _number(chunk.get(11, 0))
    return ColumnChunk(
        _CODECS[codec],
        _number(chunk[5]),
        _number(chunk[6]),
        _number(chunk[7]),
        # Some writers write 0 for "none".
        min(pages, dictionary) if pages and dictionary else pages or dictionary,
        not fields.get(1),
        is_encrypted,
        _number(chunk.get(12, {}).get(3, 0)),
    )


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LIMIT:
        raise ValueError(f"{value!r} stands where a number must")
    return value
