"""Parquet files: finding them, opening them, and reading their footers."""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from readers.detect.registry import require
from readers.detect.splits import choose_split
from readers.formats.parquet.decoded_size import (
    OWN_CODECS,
    check_column,
    hold,
    stored_range,
)
from readers.formats.parquet.detect import refuse_parts_of_tables
from readers.formats.parquet.footer import ColumnChunk, Group, read_groups
from readers.formats.parquet.pages import Chunk, Read
from readers.formats.tables.columns import one_line
from readers.formats.tables.layout import Layout
from readers.sample import PathLike, Payload, SourceError
from readers.storage.blob import Blob, ContentFile, LocalBlob, is_url, open_blob
from readers.storage.blob.mapped import copied
from readers.storage.limits import TooLargeError, check_bytes
from readers.storage.paths import shown_path, without_query
from readers.storage.unreadable import files_below, oserror_as_source_error

_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
# Bytes that are read first: most footers fit in, so that a remote file costs one request.
_TAIL_BYTES = 1 << 16
_END_BYTES = 8  # bytes of the footer's length and the magic
_SIGNATURE_BYTES = 28  # signature after the footer if columns are encrypted and the footer is not
_DECRYPT = "write it again without encryption, keys are not handled here"
_PAGED_VALUE_BYTES = 2048  # smaller values are decoded faster by pyarrow, a row group at a time
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Location:
    """Path and partition values of one Parquet file.

    Attributes:
        text: Path or URL.
        name: Name with which keys begin: relative to the folder that the caller gave, if any.
        partitions: Values of partition columns, from folder names such as ``label=3``: {"label": "3"}.
    """

    text: str
    name: str
    partitions: Mapping[str, str | None]

    @property
    def shown(self) -> str:
        """Path or URL for messages, without passwords and signatures."""
        return shown_path(self.text)


def find_files(files: PathLike | Sequence[PathLike | Location]) -> list[Location]:
    """Return the locations of Parquet files; those in a folder are sorted by name.

    Args:
        files: Path or URL of a file, path of a folder, or a sequence of these.

    Raises:
        SourceError: A folder holds no Parquet files or several splits; or a file belongs to a Delta or Iceberg table.
    """
    given: list[Any] = [files] if isinstance(files, str | os.PathLike) else list(files)
    found: list[Location] = []
    for item in given:
        if isinstance(item, Location):
            found.append(item)
            continue
        there = _find(os.fspath(item))
        refuse_parts_of_tables(one.text for one in there if not is_url(one.text))
        found += there
    if not found:
        raise SourceError("the list of Parquet files is empty: give paths of .parquet files")
    return found


def _find(text: str) -> list[Location]:
    if is_url(text):
        return [_locate(text, without_query(text).split("/"))]
    path = Path(text).absolute()
    if not path.is_dir():
        return [_locate(str(path), list(path.parts))]
    inside = sorted(
        each.relative_to(path) for each in files_below(path) if each.suffix.lower() == ".parquet"
    )
    inside = [each for each in inside if not any(part[0] in "._" for part in each.parts)]
    if not inside:
        raise SourceError(f"{path} holds no .parquet files: correct the path")
    choose_split([f"{path}/{each.as_posix()}" for each in inside], None, str(path))
    return [
        Location(str(path / each), each.as_posix(), _partitions(each.parts[:-1])) for each in inside
    ]


def _locate(text: str, parts: Sequence[str]) -> Location:
    first = len(parts) - 1
    while first > 0 and "=" in parts[first - 1]:
        first -= 1
    return Location(text, "/".join(parts[first:]), _partitions(parts[first:-1]))


def _partitions(folders: Sequence[str]) -> dict[str, str | None]:
    pairs = [folder.partition("=") for folder in folders if "=" in folder]
    return {
        unquote(name): None if value == _NO_VALUE else unquote(value) for name, _, value in pairs
    }


class File:
    """One open Parquet file. Of its footer, only the row counts and null counts stay in memory.

    Args:
        location: Location of the file.

    Attributes:
        blob: Reads the bytes of the file.
        rows: Number of rows of each row group, int64 [groups].
        digest: Hash of the footer, 64 hex digits.
        nulls: Number of nulls by column, as the footer states it; columns without nulls are left out.
        waits: Whether reading means decompressing or fetching, which threads speed up.

    Raises:
        SourceError: The file is missing, truncated, encrypted or not Parquet.
    """

    __slots__ = ("blob", "digest", "nulls", "rows", "schema", "waits")

    def __init__(self, location: Location) -> None:
        self.blob = open_blob(location.text)
        with oserror_as_source_error(location.text):
            content = _read_footer(self.blob, location)
        self.digest = hashlib.sha256(content).hexdigest()
        metadata, groups = _metadata(content, location)
        self.rows: NDArray[np.int64] = np.array([group.num_rows for group in groups], np.int64)
        if sum(self.rows.tolist()) >= 1 << 62:
            raise SourceError(
                f"the footer of {location.shown} cannot be read: a row group has no such number of rows"
            )
        try:
            check_bytes(8 * int(self.rows.max(initial=0)), "a number for each row of a row group")
        except TooLargeError as error:
            raise SourceError(f"{location.shown}: {error}") from None
        self.nulls = _nulls_of(metadata, groups)
        self.schema: Any = metadata.schema.to_arrow_schema()
        self.waits = not isinstance(self.blob, LocalBlob) or _is_compressed(groups)

    def read_group(self, footer: "Footer", group: int, paths: Sequence[str], what: str) -> Any:
        """Return some columns of a row group, decoded by pyarrow, as a pyarrow.Table.

        Args:
            footer: The footer of this file.
            group: Index of the row group.
            paths: Paths of the columns in Parquet's schema; see `Footer.path`.
            what: Name of the columns with an article, for the error.

        Raises:
            TooLargeError: The columns would take too much memory.
            DamagedPageError: A page is damaged, or lies outside the file.
            ValueError: A column has another number of rows than the footer states.
            OSError: The file cannot be read. pyarrow raises errors of other classes, too.
        """
        size_bytes = self.blob.size_bytes
        leaves = [leaf for path in paths for leaf in footer.leaves(group, path)]
        read = hold(self.blob, [stored_range(size_bytes, *leaf) for leaf in leaves])
        check_bytes(sum(check_column(read, *leaf) for leaf in leaves), what)
        opened = require("pyarrow.parquet", extra="arrow").ParquetFile(
            ContentFile(_Ranges(read, size_bytes)),
            metadata=footer.metadata,
            pre_buffer=False,  # reads chunk by chunk, which `hold` has fetched
            page_checksum_verification=True,
        )
        table = opened.read_row_group(group, columns=list(paths), use_threads=False)
        for column in table.columns:
            if len(column) != self.rows[group]:
                raise ValueError(f"it holds {len(column)} rows instead of {self.rows[group]}")
        return table

    def footer(self, location: Location) -> "Footer":
        """Read the file's footer again, and return it.

        Raises:
            OSError: The file was removed or has changed.
        """
        content = _read_footer(self.blob, location)
        return Footer(*_metadata(content, location), self.blob.size_bytes)


class Footer:
    """The footer of a file: its columns and row groups.

    Args:
        metadata: The footer's pyarrow.parquet.FileMetaData. Never ask it for a row group, see
            `readers.formats.parquet.footer`.
        groups: The row groups in the footer.
        file_bytes: Length of the file in bytes.

    Attributes:
        metadata: The pyarrow.parquet.FileMetaData, as given.
        names: Names of the columns.
    """

    def __init__(self, metadata: Any, groups: list[Group], file_bytes: int) -> None:
        self.metadata, self._groups, self._file_bytes = metadata, groups, file_bytes
        leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
        self._leaves = {leaf.path: (number, leaf) for number, leaf in enumerate(leaves)}
        self.names = frozenset(metadata.schema.to_arrow_schema().names)
        self.nbytes = 3 * metadata.serialized_size + (1000 + 300 * len(groups)) * len(leaves)

    def path(self, name: str, layout: Layout) -> str:
        """Return the path in Parquet's schema of the data that is read for a column: ``NAME.bytes`` for an image in a struct."""
        return f"{name}.bytes" if name == layout.image and layout.image_in_struct else name

    def leaves(self, group: int, path: str) -> list[tuple[Any, ColumnChunk]]:
        """Return the leaf columns below a path in one row group, each as (pyarrow's ColumnSchema, ColumnChunk)."""
        columns = self._groups[group].columns
        return [
            (leaf, columns[number])
            for name, (number, leaf) in self._leaves.items()
            if name == path or name.startswith(f"{path}.")
        ]

    def chunk(self, group: int, name: str, layout: Layout, any_size: bool) -> Chunk | None:
        """Return the location of a column in a row group, if it can be read page by page.

        Args:
            group: Index of the row group.
            name: Name of the column.
            layout: Roles of the columns.
            any_size: Whether columns of small values are included.

        Returns:
            None for columns that only pyarrow can read and, unless `any_size` is true, for columns of small values.
        """
        number, leaf = self._leaves.get(self.path(name, layout), (0, None))
        if leaf is None or leaf.physical_type != "BYTE_ARRAY" or leaf.max_repetition_level:
            return None
        column = self._groups[group].columns[number]
        known = column.codec in OWN_CODECS and column.is_here
        large = column.text_bytes >= _PAGED_VALUE_BYTES * column.num_values
        if not known or not (large or any_size) or leaf.logical_type.type != "NONE":
            return None
        return Chunk(
            column.start,
            column.num_values,
            column.codec,
            leaf.max_definition_level,
            self._file_bytes,
        )


def _nulls_of(metadata: Any, groups: list[Group]) -> Counter[str]:
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    counts = [
        sum(group.columns[number].num_nulls for group in groups) for number in range(len(paths))
    ]
    return Counter({path: count for path, count in zip(paths, counts, strict=True) if count})


def _is_compressed(groups: list[Group]) -> bool:
    """Return whether the largest column of the first row group is compressed."""
    if not groups or not groups[0].columns:
        return False
    return max(groups[0].columns, key=lambda column: column.stored_bytes).codec != "UNCOMPRESSED"


def _read_footer(blob: Blob, location: Location) -> bytes:
    """Return the bytes of the footer, without its length and magic."""
    if blob.size_bytes == 0:
        raise SourceError(f"{location.shown} is empty (0 bytes): write the file again")
    tail = _read_end(blob, _TAIL_BYTES)
    end = bytes(tail[-4:])
    if end == _ENCRYPTED:
        raise SourceError(f"{location.shown} is encrypted: {_DECRYPT}")
    if end != _MAGIC or len(tail) < _END_BYTES:
        [head] = blob.read([(0, 4)])
        if bytes(head) != _MAGIC:
            raise SourceError(f"{location.shown} is not a Parquet file: correct the path")
        raise SourceError(
            f"{location.shown} is cut off: a Parquet file ends in {_MAGIC!r}, this one in {end!r}; "
            "copy or write it again"
        )
    length = int.from_bytes(tail[-_END_BYTES:-4], "little")
    if length > blob.size_bytes - _END_BYTES:
        raise SourceError(
            f"{location.shown} is cut off or damaged: its footer would be longer than it is; write it again"
        )
    if length + _END_BYTES > len(tail):
        tail = _read_end(blob, length + _END_BYTES)
    return bytes(tail[-_END_BYTES - length : -_END_BYTES])


def _read_end(blob: Blob, size_bytes: int) -> Payload:
    # Through a temporary memory map: of thousands of files, few are in use at a time.
    source = blob.unmapped() if isinstance(blob, LocalBlob) else blob
    [tail] = source.read([(max(0, blob.size_bytes - size_bytes), blob.size_bytes)])
    return copied(tail)


def _metadata(footer: bytes, location: Location) -> tuple[Any, list[Group]]:
    pa, parquet = require("pyarrow", extra="arrow"), require("pyarrow.parquet", extra="arrow")
    file = _MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC
    try:
        metadata = parquet.read_metadata(pa.BufferReader(file))
        _ = metadata.schema.to_arrow_schema().names  # raises if a name is not valid text
        leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
        groups = read_groups(footer, [leaf.max_repetition_level > 0 for leaf in leaves])
    except Exception as error:  # noqa: BLE001, pyarrow has an error of each of Python's kinds
        raise SourceError(
            f"the footer of {location.shown} cannot be read: {one_line(error)}"
        ) from None
    encrypted = any(column.is_encrypted for group in groups for column in group.columns)
    if encrypted or len(footer) - metadata.serialized_size == _SIGNATURE_BYTES:
        raise SourceError(f"columns of {location.shown} are encrypted: {_DECRYPT}")
    return metadata, groups


class _Ranges:
    """The bytes of a file as a `Content`, read by a function of byte ranges."""

    def __init__(self, read: Read, size_bytes: int) -> None:
        self._read, self._size_bytes = read, size_bytes

    def __len__(self) -> int:
        return self._size_bytes

    def __getitem__(self, part: slice) -> Payload:
        start, stop, _ = part.indices(self._size_bytes)
        return self._read([(start, stop)])[0] if start < stop else b""
