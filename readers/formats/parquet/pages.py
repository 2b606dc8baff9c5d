"""The pages of a binary column in a row group of a Parquet file, found by their headers.

Format: https://parquet.apache.org/docs/file-format/
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from readers.formats.parquet.thrift import read_struct
from readers.sample import Payload
from readers.storage.limits import check_bytes

Read = Callable[[Sequence[tuple[int, int]]], list[Payload]]
"""Function that returns the bytes in half-open byte ranges of a file, as `readers.storage.blob.Blob.read` does."""

PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
_DATA, _INDEX, _DICTIONARY, _DATA_2 = 0, 1, 2, 3
_DETAILS = {_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}  # header field with the details of a kind
_HEADER_BYTES = 4096  # bytes that are read first, as most headers are shorter
_MAX_HEADER_BYTES = 1 << 20  # a longer header counts as damaged


class UnknownPagesError(Exception):
    """Raised if a column is stored in a way that only pyarrow can read."""


class DamagedPageError(Exception):
    """Raised if a page is damaged or does not match its header; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The location of one column's data in one row group.

    Attributes:
        start: Offset of the first page in the file.
        num_values: Number of values, including nulls.
        codec: Name of the compression in Parquet.
        max_level: Definition level of a value that is not null.
        file_bytes: Length of the file in bytes.
    """

    start: int
    num_values: int
    codec: str
    max_level: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Page:
    """The location and header of one page.

    Attributes:
        first_row: First row of the page, counted in the row group.
        num_rows: Number of rows in the page; for a dictionary page, number of values.
        start: Offset in the file at which the content begins, after the header.
        stop: Offset in the file at which the content ends.
        text_bytes: Decompressed length of the content.
        encoding: Parquet's code of the values' encoding.
        level_bytes: Size of the uncompressed levels at the beginning of a page of version 2; None for other pages.
        compressed: Whether the content is compressed by the column's codec.
        checksum: CRC-32 of the stored bytes, None if the header has none.
    """

    first_row: int
    num_rows: int
    start: int
    stop: int
    text_bytes: int
    encoding: int
    level_bytes: int | None
    compressed: bool
    checksum: int | None


class PageTable:
    """The pages of a column in one row group.

    Args:
        dictionary: The dictionary page, None if there is none.
        pages: The data pages, in order.
    """

    def __init__(self, dictionary: Page | None, pages: list[Page]) -> None:
        self.dictionary = dictionary
        self.pages = pages
        self._first_rows = [page.first_row for page in pages]

    @property
    def nbytes(self) -> int:
        """Approximate size in memory, in bytes."""
        return 250 * len(self.pages) + 500

    def page_of(self, row: int) -> int:
        """Return the index of the page that holds a row."""
        return bisect_right(self._first_rows, row) - 1


def walk(read: Read, chunk: Chunk) -> PageTable:
    """Read the headers of all pages of a column, and return the table of pages.

    Raises:
        UnknownPagesError: A page is of a kind or encoding that only pyarrow can read.
        DamagedPageError: A header is damaged, or the pages hold another number of values than the footer states.
        TooLargeError: A page would take too much memory.
        OSError: The file cannot be read.
    """
    dictionary, row, offset = None, 0, chunk.start
    pages: list[Page] = []
    while row < chunk.num_values:
        kind, page = _page_at(read, offset, chunk.file_bytes, row, chunk.max_level)
        if chunk.codec != "UNCOMPRESSED":  # uncompressed pages are views into the file
            check_bytes(page.text_bytes, "a page")
        if kind in (_DATA, _DATA_2):
            if page.num_rows < 0 or page.encoding not in (PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY):
                raise UnknownPagesError
            pages.append(page)
            row += page.num_rows
        elif kind == _DICTIONARY and not pages and page.encoding in (PLAIN, PLAIN_DICTIONARY):
            dictionary = page
        elif kind != _INDEX:
            raise UnknownPagesError
        offset = page.stop
    if row != chunk.num_values:
        raise DamagedPageError(f"the pages hold {row} rows instead of {chunk.num_values}")
    return PageTable(dictionary, pages)


def check_pages(read: Read, start: int, stop: int, num_values: int) -> Page | None:
    """Check the headers of all pages of a column, so that pyarrow may read it; return its dictionary page.

    Args:
        read: Reads byte ranges of the file.
        start: Offset of the first page header.
        stop: Offset of the end of the last page.
        num_values: Number of values that the footer states for all pages together.

    Returns:
        The dictionary page if it is the first page, otherwise None.

    Raises:
        DamagedPageError: A header is damaged, or the pages hold another number of values.
        TooLargeError: A page would take too much memory.
        OSError: The file cannot be read.
    """
    dictionary, offset, found = None, start, 0
    while offset < stop:
        kind, page = _page_at(read, offset, stop)
        check_bytes(page.text_bytes, "a page")
        if kind == _DICTIONARY and offset == start:
            dictionary = page
        elif kind in (_DATA, _DATA_2):
            found += max(0, page.num_rows)
        offset = page.stop
    if found != num_values:
        raise DamagedPageError(f"its pages hold {found} values instead of {num_values}")
    return dictionary


def _page_at(
    read: Read, offset: int, stop: int, first_row: int = 0, max_level: int = 0
) -> tuple[int, Page]:
    """Parse the page header at an offset; return the kind of the page, and the page.

    For kinds other than data and dictionary pages, only the location and size of the page are valid.

    Args:
        read: Reads byte ranges of the file.
        offset: Offset of the header in the file.
        stop: Offset of the end of the last page.
        first_row: First row of the page; see `Page`.
        max_level: Definition level of a value; see `Chunk`. 0 if the levels of the page are not read.

    Raises:
        UnknownPagesError: The levels have an unsupported encoding.
        DamagedPageError: The header is damaged.
        OSError: The file cannot be read.
    """
    header, begin = _header(read, offset, stop)
    try:
        kind, text_bytes, end = header[1], header[2], begin + header[3]
        details = header[_DETAILS[kind]] if kind in _DETAILS else {1: 0, 2: PLAIN}
        if kind == _DATA and max_level and details[3] != RLE:
            raise UnknownPagesError
        encoding, level_bytes = details[2], None
        if kind == _DATA_2:
            encoding, level_bytes = details[4], details[5] + details[6]
        compressed = kind != _DATA_2 or bool(details.get(7, True))
        if not begin <= end <= stop or text_bytes < 0:
            raise DamagedPageError("a page header tells an impossible length")
        num_rows = int(details[1])
    except (KeyError, TypeError):
        raise DamagedPageError("a page header lacks a number") from None
    checksum = header.get(4)
    return kind, Page(
        first_row, num_rows, begin, end, text_bytes, encoding, level_bytes, compressed, checksum
    )


def _header(read: Read, offset: int, file_bytes: int) -> tuple[dict[int, Any], int]:
    size_bytes = _HEADER_BYTES
    while True:
        if offset >= file_bytes:
            raise DamagedPageError("a page would begin behind the end of the file")
        [data] = read([(offset, min(offset + size_bytes, file_bytes))])
        try:
            header, length = read_struct(data, 0)
        except IndexError:
            if size_bytes >= _MAX_HEADER_BYTES or len(data) < size_bytes:
                raise DamagedPageError("a page header is cut off") from None
            size_bytes *= 16
        except ValueError as error:
            raise DamagedPageError(f"a page header cannot be read: {error}") from None
        else:
            return header, offset + length
