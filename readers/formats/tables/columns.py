"""Access to values in columns of Arrow data, in memory or in memory-mapped files."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from readers.detect.registry import require
from readers.formats.columns import to_labels
from readers.formats.tables.layout import Layout
from readers.storage.blob.mapped import MappedFile
from readers.storage.unreadable import is_transient, reason_of

_MAX_MESSAGE = 200  # characters of an error message; some hold a complete query or log entry


@dataclass(frozen=True, slots=True)
class UnreadableValue:
    """Takes the place of a value that could not be read.

    Attributes:
        reason: Reason, for messages.
        transient: Whether another attempt may succeed; see `BadSample`.
    """

    reason: str
    transient: bool = False

    def __str__(self) -> str:
        """Return the reason; if another attempt may succeed, add that."""
        return self.reason + " (the storage failed: try again)" * self.transient


class Column:
    """One column of a row group or record batch.

    Args:
        array: The column, a pyarrow.ChunkedArray or pyarrow.Array.
        file: Memory-mapped file that holds the bytes of its values; None if they are in memory. Values in memory are copied,
            since a view would keep the complete column in memory as long as one of its samples exists.
    """

    def __init__(self, array: Any, file: MappedFile | None = None) -> None:
        self._chunks = list(array.chunks) if hasattr(array, "chunks") else [array]
        self._starts = [0]
        for chunk in self._chunks:
            self._starts.append(self._starts[-1] + len(chunk))
        self._plain = _as_numpy(self._chunks)
        self._bytes = [_as_bytes(chunk, file) for chunk in self._chunks]
        self.nbytes = 200 + sum(_bytes_in_memory(chunk, file) for chunk in self._chunks)

    def values(self, rows: Sequence[int]) -> list[Any]:
        """Return the values of rows as Python objects: bytes, str, numbers, None, times, or lists and dicts of these."""
        if self._plain is not None:
            numbers: list[Any] = self._plain[rows].tolist()
            return numbers
        if len(self._chunks) == 1:
            return self._of(0, rows)
        found: list[Any] = [None] * len(rows)
        for number in range(len(self._chunks)):
            start, stop = self._starts[number], self._starts[number + 1]
            wanted = [k for k, row in enumerate(rows) if start <= row < stop]
            inside = self._of(number, [rows[k] - start for k in wanted]) if wanted else []
            for k, value in zip(wanted, inside, strict=True):
                found[k] = value
        return found

    def labels(self) -> NDArray[np.int64]:
        """Return all values as class numbers, int64 [rows]; see `readers.formats.columns.to_labels`."""
        return to_labels(
            self.values(range(self._starts[-1])) if self._plain is None else self._plain
        )

    def _of(self, number: int, rows: Sequence[int]) -> list[Any]:
        chunk, slices = self._chunks[number], self._bytes[number]
        if slices is not None:
            return slices.take(rows)
        pa = require("pyarrow", extra="arrow")
        try:
            taken = chunk.take(pa.array(rows, pa.int64()))
        except NotImplementedError:  # raised for pyarrow's newest types
            return [_python_value(chunk[row]) for row in rows]
        if pa.types.is_timestamp(chunk.type) or pa.types.is_time(chunk.type):
            taken = taken.cast(pa.string())  # Python's own times hold no nanoseconds
        elif pa.types.is_duration(chunk.type):
            taken = taken.cast(pa.int64())
        try:
            values: list[Any] = taken.to_pylist()
        except ValueError:  # text within lists or structs that is not UTF-8, times beyond year 9999
            return [_python_value(scalar) for scalar in taken]
        return values


class Columns(dict[str, Column | UnreadableValue]):
    """Columns of a row group or record batch, by name; an UnreadableValue for one that cannot be read."""

    @classmethod
    def unreadable(cls, names: Iterable[str], reason: str, error: Exception) -> Self:
        """Return columns that are all UnreadableValues, with the given reason.

        Args:
            names: Names of the columns.
            reason: Reason, for messages.
            error: The exception, which decides whether another attempt may succeed.
        """
        return cls(dict.fromkeys(names, UnreadableValue(reason, is_transient(error))))

    @property
    def has_unreadable(self) -> bool:
        """Whether one of the columns cannot be read."""
        return any(isinstance(column, UnreadableValue) for column in self.values())

    @property
    def nbytes(self) -> int:
        """Approximate size in memory, in bytes."""
        return 500 + sum(
            1500 + column.nbytes for column in self.values() if isinstance(column, Column)
        )

    def values_of(self, rows: Sequence[int]) -> dict[str, Sequence[Any]]:
        """Return one value per row for each column, by name; an UnreadableValue for a value that cannot be read."""
        return {
            name: column.values(rows) if isinstance(column, Column) else [column] * len(rows)
            for name, column in self.items()
        }


def column_of(layout: Layout, name: str, array: Any, file: MappedFile | None = None) -> Column:
    """Return a column of a table or record batch; for an image in Hugging Face's struct, the column of its bytes.

    Args:
        layout: Roles of the columns.
        name: Name of the column.
        array: The column, a pyarrow.ChunkedArray or pyarrow.Array.
        file: Memory-mapped file in which buffers of the array may lie, None if there is none. All buffers in it are copied,
            except the bytes of values.

    Raises:
        OSError: The file has shrunk.
    """
    pa = require("pyarrow", extra="arrow")
    texts = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    if pa.types.is_string_view(array.type):
        texts[array.type] = pa.binary_view()
    if array.type in texts:  # read as bytes, so that text which is not UTF-8 causes no error
        array = array.cast(texts[array.type])
    if file is not None:
        array = _private(array, file)
        array.validate(full=True)  # pyarrow would crash the process on a damaged array
    if name == layout.image and layout.image_in_struct:
        array = require("pyarrow.compute", extra="arrow").struct_field(array, "bytes")
    return Column(array, file)


def one_line(error: Exception) -> str:
    """Return the first line of an exception's message, without the source lines that pyarrow, deltalake or pyiceberg append."""
    return str(error).partition("\n")[0][:_MAX_MESSAGE].rstrip(". ") or type(error).__name__


def _private(array: Any, file: MappedFile) -> Any:
    """Return an array whose buffers are copied out of a mapped file, except the bytes of values, which pyarrow does not read."""
    pa = require("pyarrow", extra="arrow")
    kind, test = array.type, pa.types
    parts = None
    if test.is_struct(kind):
        parts = [_private(array.field(number), file) for number in range(kind.num_fields)]
        buffers = array.buffers()[:1]
    elif test.is_binary(kind) or test.is_large_binary(kind):
        *buffers, values = array.buffers()
    elif not test.is_primitive(kind):
        file.check()  # just before pyarrow copies the buffers
        return array.copy_to(pa.default_cpu_memory_manager())
    else:
        buffers = array.buffers()
    copies = [_copy(buffer, file) for buffer in buffers]
    if parts is None and len(buffers) < len(array.buffers()):
        copies.append(values)
    return pa.Array.from_buffers(
        kind, len(array), copies, array.null_count, array.offset, children=parts
    )


def _copy(buffer: Any, file: MappedFile) -> Any:
    if buffer is None or not _lies_in(buffer, file):
        return buffer
    start = buffer.address - file.address
    return require("pyarrow", extra="arrow").py_buffer(file.read(start, start + buffer.size))


def _lies_in(buffer: Any, file: MappedFile | None) -> bool:
    return file is not None and 0 <= buffer.address - file.address < file.size_bytes


def _bytes_in_memory(chunk: Any, file: MappedFile | None) -> int:
    if file is None:
        return int(chunk.nbytes)
    return sum(each.size for each in chunk.buffers() if each and not _lies_in(each, file))


class _Slices:
    """Values of bytes that are stored one after the other in a buffer.

    Args:
        read: Returns the bytes in a range of the buffer.
        offsets: Offset of each value in the buffer, and of the end, [values + 1].
        valid: Which values are not null, bool [values]; None if no value is null.
    """

    def __init__(self, read: Callable[[int, int], Any], offsets: NDArray[Any], valid: Any) -> None:
        self._read, self._offsets, self._valid = read, offsets, valid

    def take(self, rows: Sequence[int]) -> list[Any]:
        """Return the values of rows: bytes, None for a null, or an UnreadableValue if the file has shrunk."""
        read, wanted = self._read, np.asarray(rows, np.int64)
        starts, stops = self._offsets[wanted].tolist(), self._offsets[wanted + 1].tolist()
        there = [True] * len(starts) if self._valid is None else self._valid[wanted].tolist()
        return [
            read(start, stop) if valid else None
            for start, stop, valid in zip(starts, stops, there, strict=True)
        ]


def _as_bytes(chunk: Any, file: MappedFile | None) -> _Slices | None:
    """Return access to the values of a chunk of type binary; None for a chunk of another type."""
    test = require("pyarrow", extra="arrow").types
    if not (test.is_binary(chunk.type) or test.is_large_binary(chunk.type)) or not len(chunk):
        return None
    _, ends, data = chunk.buffers()
    kind = np.int64 if test.is_large_binary(chunk.type) else np.int32
    offsets = np.frombuffer(ends, kind)[chunk.offset : chunk.offset + len(chunk) + 1]
    valid = chunk.is_valid().to_numpy(zero_copy_only=False) if chunk.null_count else None
    if file is not None and data is not None and _lies_in(data, file):
        return _Slices(partial(_read_part, file, data.address - file.address), offsets, valid)
    view = memoryview(b"" if data is None else data).cast("B")
    return _Slices(lambda start, stop: bytes(view[start:stop]), offsets, valid)


def _read_part(file: MappedFile, base: int, start: int, stop: int) -> Any:
    try:
        return file.payload(base + start, base + stop)
    except OSError as error:
        return UnreadableValue(f"the file cannot be read: {reason_of(error)}", is_transient(error))


def _python_value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except ValueError as error:
        return UnreadableValue(f"a value cannot be read: {one_line(error)}")


def _as_numpy(chunks: Sequence[Any]) -> Any:
    """Return a column as a NumPy array if it is one chunk of integers without nulls, None otherwise."""
    pa = require("pyarrow", extra="arrow")
    if len(chunks) != 1 or not pa.types.is_integer(chunks[0].type) or chunks[0].null_count:
        return None
    return chunks[0].to_numpy()
