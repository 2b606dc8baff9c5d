"""HDF5 datasets as columns: which of them can be columns, and reading their rows."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.formats.columns import to_labels, to_payload
from readers.formats.hdf5.chunks import ChunkCheck, chunk_refusal, row_bytes
from readers.formats.hdf5.heap import HeapRows, open_heap
from readers.image.raw_pixels import RowFile, row_file
from readers.sample import Payload, SourceError
from readers.storage.blob.mapped import mapped_file
from readers.storage.blob.mmap_pages import map_file
from readers.storage.blob.rows import FileRows
from readers.storage.limits import TooLargeError, check_bytes

_MAX_ENTRIES = 10_000  # entries of all groups that are visited: hard links may form cycles
# Shapes of a row with one number: of [N], and of [N, 1] as Keras and Matlab write class numbers.
_ONE_EACH = ((), (1,))


class ColumnCandidates:
    """The datasets of a file that may be columns.

    Attributes:
        lengths: Number of rows, by name of a dataset that can be a column.
        integers: Names of the datasets with one integer in each row.
        refused: Reason, as a sentence without its subject, by name of a dataset that cannot be a column.
    """

    def __init__(self, h5py: ModuleType, file: Any) -> None:
        self.lengths: dict[str, int] = {}
        self.integers: set[str] = set()
        self.refused: dict[str, str] = {}
        self._h5py, self._entries_left = h5py, _MAX_ENTRIES
        self._walk(file, "")

    def check(self, name: str, source: Path) -> None:
        """Check that the dataset of this name can be a column.

        Raises:
            SourceError: There is no such dataset, or it cannot be a column.
        """
        if name in self.refused:
            raise SourceError(f"{source}: {name} {self.refused[name]}")
        if name not in self.lengths:
            have = ", ".join(self.lengths) or "none"
            raise SourceError(f"{source} has no dataset {name!r}: its datasets are {have}")

    def _walk(self, group: Any, prefix: str) -> None:
        for short in group:
            if isinstance(short, bytes):  # h5py can look up no such name
                self.refused[f"{prefix}{short!r}"] = "has a name that is not UTF-8: rename it"
                continue
            name = f"{prefix}{short}"
            if not isinstance(group.get(short, getlink=True), self._h5py.HardLink):
                self.refused[name] = "is a link to another file: name the dataset itself"
                continue
            self._entries_left -= 1
            if self._entries_left < 0:
                return
            one = group[short]
            if isinstance(one, self._h5py.Group):
                self._walk(one, f"{name}/")
            elif isinstance(one, self._h5py.Dataset):
                why = _refusal(self._h5py, one)
                if why:
                    self.refused[name] = why
                elif one.ndim:
                    self.lengths[name] = one.shape[0]
                    if one.shape[1:] in _ONE_EACH and one.dtype.kind in "iu":
                        self.integers.add(name)


class Column:
    """Reads rows of one dataset, and converts them to fields, keys and labels.

    Args:
        h5py: The module h5py.
        dataset: An open dataset that `ColumnCandidates` lists.
        path: Path of its file.

    Attributes:
        file: Converts a row of two or more dimensions to an image or .npy file; None for other rows.
        is_encoded: Whether the rows are bytes or text.
        num_chunk_rows: Number of rows in a chunk, 1 if the dataset is not chunked.
    """

    def __init__(self, h5py: ModuleType, dataset: Any, path: Path) -> None:
        self._h5py, self._dataset = h5py, dataset
        dtype = dataset.dtype
        self.file: RowFile | None = None
        if dataset.ndim > 2 and dtype.kind in "biuf":
            self.file = row_file(dataset.shape[1:], dtype)
        self._is_text = h5py.check_string_dtype(dtype) is not None
        inner = _row_type(h5py, dtype)
        self.is_encoded = self._is_text or dtype.kind == "V" or inner in (np.uint8, np.int8)
        self._has_numbers = dataset.shape[1:] in _ONE_EACH and dtype.kind in "biuf"
        self.num_chunk_rows: int = dataset.chunks[0] if dataset.chunks else 1
        self._file = mapped_file(map_file(path))
        self._inner = inner
        self._mapped = _map(h5py, dataset, path)
        self._heap, self._is_same = _open_rows(h5py, dataset, path)
        is_chunked = bool(dataset.chunks) and self._heap is None
        self._check = ChunkCheck(h5py, dataset, path.stat().st_size) if is_chunked else None

    def read(self, rows: NDArray[np.int64]) -> Sequence[Any] | NDArray[Any]:
        """Return the values of rows: for each row a NumPy scalar or array, or bytes.

        Args:
            rows: Row indices, int64 [n], ascending and without repetitions.

        Raises:
            OSError: The file is damaged at a row, or has shrunk.
        """
        if self._mapped is not None:
            return [self._mapped[row] for row in rows.tolist()]
        if self._heap is not None:
            if self._is_same:
                return [self._of_heap(self._heap.read(row)) for row in rows.tolist()]
            for row in rows.tolist():
                self._heap.check(row)
        if self._check is not None:
            self._check.check(rows.tolist())
        values = (self._read_points if self._dataset.ndim == 1 else self._read_runs)(rows)
        if self._file is not None:
            self._file.check()  # HDF5 returns zeros for what a shortened file has lost
        return values

    def _of_heap(self, row: Payload) -> Any:
        if self._is_text:  # text ends at a zero byte, as in h5py
            return bytes(row).partition(b"\0")[0]
        return row if self.is_encoded else np.frombuffer(row, self._inner)

    def labels(self, start: int, stop: int) -> NDArray[np.int64] | None:
        """Return the labels of rows start to stop - 1, int64, `UNREADABLE` for a bad one; None if rows are not single numbers.

        Raises:
            OSError: The file is damaged at a row.
        """
        if not self._has_numbers:
            return None
        if self._check is not None:
            self._check.check([*range(start, stop, self.num_chunk_rows), stop - 1])
        labels = to_labels(self._dataset[start:stop].ravel())
        if self._file is not None:
            self._file.check()
        return labels

    def payload(self, value: Any) -> Payload:
        """Return the content of the field for a row's value."""
        if self.file is not None:
            return self.file.of(value)
        if self.is_encoded:
            return value if isinstance(value, bytes | memoryview) else value.tobytes()
        return to_payload(value.tolist())

    def plain(self, value: Any) -> Any:
        """Return a row's value as a str, number or list."""
        if self.is_encoded:
            return bytes(self.payload(value)).decode("utf-8", "surrogateescape")
        return value.tolist()

    def label(self, value: Any) -> Any:
        """Return a row's value as a str, number or list; a row of shape [1] becomes a number instead of a list."""
        return value.item() if self._has_numbers else self.plain(value)

    def _read_points(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return rows of a one-dimensional dataset.

        This takes half the time of h5py's indexing by a list, and a quarter of the time of reading row by row.
        """
        stored = self._dataset.id.get_space()
        stored.select_elements(rows.astype(np.uint64).reshape(-1, 1))
        values = np.empty(len(rows), self._dataset.dtype)
        self._dataset.id.read(self._h5py.h5s.create_simple(values.shape), stored, values)
        return values

    def _read_runs(self, rows: NDArray[np.int64]) -> list[Any]:
        """Return rows, reading those of one chunk in one call, since a chunk is decompressed as a whole.

        Without chunks, neighbouring rows are read in one call.
        """
        together = rows // self.num_chunk_rows
        if self.num_chunk_rows == 1:
            together = rows - np.arange(len(rows))
        values: list[Any] = []
        for part in np.split(rows, np.flatnonzero(np.diff(together)) + 1):
            block = self._dataset[part[0] : part[-1] + 1]
            values.extend(block[row] for row in (part - part[0]).tolist())
        return values


def _refusal(h5py: ModuleType, dataset: Any) -> str:
    """Return why a dataset cannot be a column, as a sentence without its subject; "" if it can."""
    if dataset.external:
        return "keeps its rows in other files: write them into this one"
    if dataset.is_virtual and any(part.file_name != "." for part in dataset.virtual_sources()):
        return "is put together from other files: write its rows into this one"
    plan = dataset.id.get_create_plist()
    for number in range(plan.get_nfilters()):
        code, _, _, title = plan.get_filter(number)
        if not h5py.h5z.filter_avail(code):
            name = title.decode("utf-8", "replace") or str(code)
            return (
                f"is compressed by the filter {name}, which h5py lacks here: pip install hdf5plugin"
            )
    return _type_refusal(h5py, dataset)


def _type_refusal(h5py: ModuleType, dataset: Any) -> str:
    dtype = dataset.dtype
    if h5py.check_ref_dtype(dtype) is not None:
        return "holds references: write what they refer to"
    if dtype.names is not None or dtype.subdtype is not None:
        return "is of a compound type: write its parts as datasets of their own"
    inner = _row_type(h5py, dtype)
    try:
        if dtype.kind != "O":
            check_bytes(row_bytes(dataset), "a row")
    except TooLargeError as error:
        return f"is too large: {error}"
    if dataset.chunks and (why := chunk_refusal(h5py, dataset)):
        return why
    if dtype.kind == "O":
        numbers = inner is not None and inner.kind in "biuf"
        known = dataset.ndim == 1 and (numbers or h5py.check_string_dtype(dtype) is not None)
    else:
        numbers = dtype.kind in "biuf" and dtype.itemsize <= 8
        known = numbers or (dtype.kind in "SV" and dataset.ndim == 1)
    return "" if known else f"is of the type {dtype}, of which no sample is made: leave it out"


def _row_type(h5py: ModuleType, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype of the elements of variable-length rows; None for rows of text or of a fixed length."""
    inner = h5py.check_vlen_dtype(dtype)
    return inner if isinstance(inner, np.dtype) else None


def _open_rows(h5py: ModuleType, dataset: Any, path: Path) -> tuple[HeapRows | None, bool]:
    """Return a reader of variable-length rows, and whether the stored bytes are the values in memory.

    Returns:
        (None, False) if rows have a fixed length or there are none.

    Raises:
        SourceError: The storage layout does not allow to check the rows before HDF5's library follows their references.
    """
    if dataset.dtype.kind != "O" or not len(dataset):
        return None, False
    kind = dataset.id.get_type()
    is_text = h5py.check_string_dtype(dataset.dtype) is not None
    inner = h5py.h5t.py_create(np.dtype("u1")) if is_text else kind.get_super()
    heap = open_heap(h5py, dataset, path, inner.get_size())
    if heap is None:
        raise SourceError(
            f"{path}: the rows of {dataset.name} have no one length and are stored compactly or with short "
            "addresses: write them as a dataset that is contiguous or chunked"
        )
    return heap, is_text or inner == h5py.h5t.py_create(_row_type(h5py, dataset.dtype))


def _map(h5py: ModuleType, dataset: Any, path: Path) -> FileRows | None:
    """Return the memory-mapped rows of a dataset; None if it is not contiguous, or its stored bytes are not the values."""
    layout = dataset.id.get_create_plist().get_layout()
    offset = dataset.id.get_offset()
    if (
        layout != h5py.h5d.CONTIGUOUS
        or offset is None
        or dataset.dtype.hasobject
        or not dataset.size
    ):
        return None
    try:
        mapped = FileRows(path, dataset.dtype, offset, dataset.shape)
    except (OSError, ValueError):
        return None
    # NumPy only approximates some HDF5 types, and the bytes in the file then differ from the values.
    ends = (0, len(dataset) - 1)
    same = all(np.asarray(dataset[row]).tobytes() == mapped[row].tobytes() for row in ends)
    return mapped if same else None
