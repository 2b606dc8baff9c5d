"""Reading of column values in row groups: columns of small values by pyarrow, columns of large values page by page."""

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any

from readers.formats.parquet.decoded_size import decompress
from readers.formats.parquet.files import File, Footer, Location
from readers.formats.parquet.pages import (
    Chunk,
    DamagedPageError,
    PageTable,
    Read,
    UnknownPagesError,
    walk,
)
from readers.formats.parquet.values import (
    Decompress,
    Values,
    decode,
    decode_dictionary,
    decompress_whole,
    take,
)
from readers.formats.tables.columns import Column, Columns, UnreadableValue, column_of, one_line
from readers.formats.tables.layout import Layout
from readers.sample import SourceError
from readers.storage.limits import TooLargeError
from readers.storage.lru_cache import Recent
from readers.storage.unreadable import is_transient, reason_of

_FOOTERS_BYTES = 64 << 20  # limit for the footers of all files; a parsed one may take some MB
_BLOCKS_PER_VALUE = 2  # 64 KiB blocks that a single value of a Snappy page usually costs


class RowGroups:
    """Reads columns of row groups, with a cache of decoded values. Several threads may use it.

    A forked process must create its own object.

    Args:
        locations: Locations of the files.
        files: The opened files, in the order of `locations`.
        layout: The columns that are read, and their roles.
        decoded_bytes: Size of the cache in bytes: three quarters for pages, the rest for columns of small values.
    """

    def __init__(
        self,
        locations: Sequence[Location],
        files: Sequence[File],
        layout: Layout,
        decoded_bytes: int,
    ) -> None:
        self._locations, self._files, self._layout = locations, files, layout
        self._footers: Recent[Footer] = Recent(_FOOTERS_BYTES)
        self._columns: Recent[Columns] = Recent(decoded_bytes // 4)
        self._pages: Recent[Any] = Recent(decoded_bytes - decoded_bytes // 4)

    def values(self, file: int, group: int, rows: list[int]) -> dict[str, Sequence[Any]]:
        """Return the values of all columns of the layout for some rows of a row group.

        Args:
            file: Index of the file.
            group: Index of the row group in the file.
            rows: Rows in the row group, ascending and possibly repeated.

        Returns:
            By column name, one value per row; an UnreadableValue for a value that cannot be read.
        """
        location = self._locations[file]
        values: dict[str, Sequence[Any]] = {}
        small = []
        try:
            footer = self._footer(file)
            for name in self._layout.columns:
                if name not in footer.names:
                    values[name] = [location.partitions.get(name)] * len(rows)
                    continue
                paged = self._paged(file, group, name, rows)
                if paged is None:
                    small.append(name)
                else:
                    values[name] = paged
            for name, column in self._small(file, group, tuple(small)).items():
                if isinstance(column, Column):
                    values[name] = column.values(rows)
                else:  # values in undamaged pages of some columns can be read
                    paged = self._paged(file, group, name, rows, any_size=True)
                    values[name] = paged or [column] * len(rows)
        except (OSError, SourceError) as error:
            unreadable = UnreadableValue(
                f"the file cannot be read: {reason_of(error)}", is_transient(error)
            )
            values = {name: [unreadable] * len(rows) for name in self._layout.columns}
        return values

    def whole(self, file: int, group: int, name: str) -> "Column | UnreadableValue | str | None":
        """Return all values of one column of small values in a row group.

        If the file lacks the column, return the text that the name of its partition folder holds for it, or None.
        """
        if name not in self._footer(file).names:
            return self._locations[file].partitions.get(name)
        return self._read_small(file, group, (name,))[name]

    def _footer(self, file: int) -> Footer:
        return self._footers.get(file, lambda: self._files[file].footer(self._locations[file]))

    # Small columns, by pyarrow, a row group at a time.

    def _small(self, file: int, group: int, names: tuple[str, ...]) -> Columns:
        if not names:
            return Columns()
        key = (file, group, names)
        found = self._columns.get(key, lambda: self._read_small(file, group, names))
        if found.has_unreadable:
            self._columns.drop(key)  # a read that failed may succeed later
        return found

    def _read_small(self, file: int, group: int, names: tuple[str, ...]) -> Columns:
        try:
            return self._decode_small(file, group, names)
        except Exception as error:  # noqa: BLE001, pyarrow has an error of each of Python's kinds
            if len(names) == 1:
                reason = f"column {names[0]!r} of row group {group} cannot be read: "
                return Columns.unreadable(names, reason + one_line(error), error)
        found = Columns()
        for name in names:  # so that only damaged columns are lost
            found.update(self._read_small(file, group, (name,)))
        return found

    def _decode_small(self, file: int, group: int, names: tuple[str, ...]) -> Columns:
        footer = self._footer(file)
        paths = [footer.path(name, self._layout) for name in names]
        table = self._files[file].read_group(footer, group, paths, "it")
        return Columns({name: column_of(self._layout, name, table.column(name)) for name in names})

    # Columns of large values, page by page.

    def _paged(
        self, file: int, group: int, name: str, rows: list[int], any_size: bool = False
    ) -> list[Any] | None:
        """Return the values of a column for some rows, one per row; None if the column is not read page by page."""
        pages, blob = self._pages, self._files[file].blob
        key = (file, group, name, any_size)
        walked = pages.get(key, lambda: self._walk(file, group, name, any_size))
        if walked.table is None:
            return None
        table, chunk = walked.table, walked.chunk
        codec = partial(decompress, chunk.codec)

        def decoded(number: int) -> Values:
            if number >= 0:
                return decode(blob.read, chunk, table.pages[number], codec)
            if table.dictionary is None:
                raise DamagedPageError("a page lacks its dictionary")
            return decode_dictionary(blob.read, chunk, table.dictionary, codec)

        def values_of(number: int) -> Values:
            found: Values = pages.get((*key, number), lambda: decoded(number))
            return found

        found: list[Any] = []
        for number, inside in _by_page(table, rows):
            try:
                page = values_of(number)
                if page.in_dictionary:
                    number, page_of_values = -1, values_of(-1)
                else:
                    page_of_values = page
                target = self._whole_if_it_pays(
                    (*key, number), page_of_values, len(inside), blob.read, codec
                )
                found += take(blob.read, page, target, inside, codec)
            except (DamagedPageError, TooLargeError) as error:
                found += [
                    UnreadableValue(f"column {name!r} of row group {group} is damaged: {error}")
                ] * len(inside)
        return found

    def _whole_if_it_pays(
        self, key: Hashable, page: Values, num_wanted: int, read: Read, codec: Decompress
    ) -> Values:
        """Return the value locations of a page to read from: `page`, or a cached copy that holds the decompressed page.

        A Snappy page is decompressed as a whole as soon as reading single values has cost as much. A shuffle within row
        groups then reads the other values from the cache, and a shuffle over all rows costs at most twice as much.
        """
        if page.blocks is None:
            return page
        whole = self._pages.peek((key, "whole"))
        if whole is None:
            page.num_taken += num_wanted
            if page.num_taken * _BLOCKS_PER_VALUE < len(page.blocks):
                return page
            page.num_taken = 0
            whole = self._pages.get((key, "whole"), lambda: decompress_whole(read, page, codec))
        found: Values = whole
        return found

    def _walk(self, file: int, group: int, name: str, any_size: bool) -> "_Walked":
        chunk = self._footer(file).chunk(group, name, self._layout, any_size)
        if chunk is None:
            return _Walked()
        try:
            return _Walked(chunk, walk(self._files[file].blob.read, chunk))
        except (UnknownPagesError, DamagedPageError, TooLargeError):
            return _Walked()  # pyarrow may be able to read it, or reports the damage


class _Walked:
    """The page table of a column; `chunk` and `table` are None if the column is not read page by page."""

    def __init__(self, chunk: Chunk | None = None, table: PageTable | None = None) -> None:
        self.chunk, self.table = chunk, table
        self.nbytes = 300 + (table.nbytes if table else 0)


def _by_page(table: PageTable, rows: list[int]) -> Iterator[tuple[int, list[int]]]:
    """Group ascending rows by page; yield (index of the page, rows relative to the page's first row)."""
    begin = 0
    while begin < len(rows):
        number = table.page_of(rows[begin])
        page = table.pages[number]
        end = bisect_left(rows, page.first_row + page.num_rows, begin)
        yield number, [row - page.first_row for row in rows[begin:end]]
        begin = end
