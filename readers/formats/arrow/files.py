"""Arrow files: finding them, also in folders that Hugging Face's datasets saved, and reading their record batches."""

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.detect.registry import require
from readers.detect.splits import choose_split, in_order, several_splits
from readers.formats.arrow.decoded_size import check_file, check_message
from readers.formats.tables.columns import one_line
from readers.formats.text import parse_object
from readers.sample import PathLike, SourceError
from readers.storage.blob import LocalBlob, is_url
from readers.storage.blob.mapped import ReadView, mapped_file
from readers.storage.limits import TooLargeError
from readers.storage.per_process import PerProcess
from readers.storage.unreadable import oserror_as_source_error
from readers.storage.whole_files import read_text

_FILE_MAGIC = b"ARROW1"
_PIECE_BYTES = 4096  # a page, the least that a memory map reads


def find_arrow_files(source: PathLike | Sequence[PathLike]) -> list[str]:
    """Return the paths of all Arrow files, those of a saved folder in their saved order.

    Args:
        source: Path of a file or folder, or a sequence of such paths.

    Raises:
        SourceError: There are no Arrow files; a path is a URL; or a folder holds several splits, or rows selected by an
            indices file.
    """
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    found = []
    for item in given:
        if is_url(item):
            raise SourceError(
                f"{item} lies elsewhere: download Arrow files, they are read by memory map"
            )
        path = Path(item).absolute()
        found += _in_folder(path) if path.is_dir() else [str(path)]
    if not found:
        raise SourceError("the list of Arrow files is empty: give paths of .arrow files")
    return found


def _in_folder(folder: Path) -> list[str]:
    if (folder / "dataset_dict.json").is_file():
        splits = list(map(str, _json(folder / "dataset_dict.json").get("splits") or ["none"]))
        raise SourceError(several_splits(str(folder), splits, f"the folder {folder}/{splits[0]}"))
    if (folder / "state.json").is_file():
        return _saved(folder)
    files = sorted(
        path for path in folder.glob("*.arrow") if not path.name.startswith((".", "cache-"))
    )
    if not files:
        raise SourceError(f"{folder} holds no .arrow files: correct the path")
    info = _json(folder / "dataset_info.json") if (folder / "dataset_info.json").is_file() else {}
    splits = list(map(str, info.get("splits") or {}))
    if len(splits) > 1:
        instead = "the .arrow files of one of them"
        raise SourceError(several_splits(str(folder), in_order(splits), instead))
    return choose_split(list(map(str, files)), None, str(folder))


def _saved(folder: Path) -> list[str]:
    """Return the paths of the files that ``Dataset.save_to_disk`` listed in state.json."""
    state = _json(folder / "state.json")
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise SourceError(
            f"{folder} holds a selection of its rows by indices, as old versions of datasets saved it: open "
            "it with datasets.load_from_disk and save it again"
        )
    try:
        names = [str(file["filename"]) for file in state["_data_files"]]
    except (KeyError, TypeError):
        raise SourceError(
            f"{folder}/state.json lists no data files: save the dataset again"
        ) from None
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise SourceError(
            f"{folder}/state.json names {outside[0]!r}, which is not a file of that folder"
        )
    if not names:
        raise SourceError(f"{folder} holds no rows: leave it out, or save the dataset again")
    return [str(folder / name) for name in names]


def _json(path: Path) -> dict[str, Any]:
    try:
        return parse_object(read_text(path, "JSON").encode())
    except ValueError as error:
        raise SourceError(f"{path} cannot be read ({error}): save the dataset again") from None


class ArrowFile:
    """One memory-mapped Arrow file, in the file format or the stream format.

    Args:
        path: Path of the file.

    Attributes:
        name: Name of the file, without folders.
        schema: The pyarrow.Schema of the file.
        rows: Number of rows of each record batch, int64 [batches].
        nulls: Number of nulls by column name.
        size_bytes: Size of the file in bytes.
        mapped: The memory map of the file.
        is_ended: Whether the file has its end mark; a stream that was truncated between record batches lacks it.

    Raises:
        SourceError: The file is missing, truncated or not an Arrow file.
    """

    def __init__(self, path: str) -> None:
        self._path, self._lock = path, PerProcess(threading.Lock)
        self._lock.get()  # create the lock now: threads whose first calls coincide could get a lock each
        with oserror_as_source_error(path):
            self._blob = LocalBlob(path)
            view = self._blob.view()
        self.name, self.size_bytes = self._blob.name, self._blob.size_bytes
        if not len(view):
            raise SourceError(f"{path} is empty (0 bytes): write the file again")
        self._pa, self._ipc = (
            require("pyarrow", extra="arrow"),
            require("pyarrow.ipc", extra="arrow"),
        )
        file = mapped_file(view)
        assert file is not None
        self.mapped, self._buffer = file, self._pa.py_buffer(view)
        self.is_ended = True
        self._offsets: list[int] | None = None
        self._reader: Any = None
        self._batches: list[Any] | None = None
        self.nulls: Counter[str] = Counter()
        try:
            rows = self._open(bytes(view[: len(_FILE_MAGIC)]) == _FILE_MAGIC)
            _ = self.schema.names  # raises if a name is not valid text
        except TooLargeError as error:
            raise SourceError(f"{path}: {error}") from None
        except Exception as error:  # noqa: BLE001, pyarrow has an error of each of Python's kinds
            raise SourceError(
                f"{path} is no Arrow file, or is cut off ({one_line(error)}): correct the path, or write it again"
            ) from None
        self.rows: NDArray[np.int64] = np.array(rows, np.int64)

    def digest(self, num_pieces: int | None) -> str:
        """Return 64 hex digits, a hash of the schema, the row counts and the content.

        Args:
            num_pieces: Number of evenly spread pieces of 4 kB that are hashed; None hashes all of the content.

        Raises:
            OSError: The file was removed or has changed.
        """
        digest = hashlib.sha256(self.schema.serialize())
        view = self._blob.view()
        self.mapped.check()
        digest.update(f"{len(view)} {self.rows.tolist()}".encode())
        if num_pieces is None:
            digest.update(view)
            return digest.hexdigest()
        for number in range(num_pieces):
            offset = (len(view) - _PIECE_BYTES) * number // (num_pieces - 1)
            digest.update(view[max(0, offset) : max(0, offset) + _PIECE_BYTES])
        return digest.hexdigest()

    def batch(self, number: int) -> Any:
        """Return the record batch with the given index; its buffers are views of `mapped` unless they are compressed.

        Raises:
            OSError: The batch cannot be decoded. pyarrow's other errors are ValueErrors.
        """
        self.mapped.check()  # just before pyarrow reads the map
        if self._batches is not None:
            return self._batches[number]
        if self._offsets is not None:
            message = self._message(self._offsets[number])
            return self._ipc.read_record_batch(message, self.schema)
        with self._lock.get():
            return self._reader.get_batch(number)

    def _open(self, file_format: bool) -> list[int]:
        content = ReadView(self.mapped, 0, self.size_bytes)
        if file_format:
            check_file(content)
            self._reader = self._ipc.open_file(self._pa.BufferReader(self._buffer))
            self.schema = self._reader.schema
            numbers = range(self._reader.num_record_batches)
            return [self._count(self._reader.get_batch(number)) for number in numbers]
        reader = self._ipc.open_stream(self._pa.BufferReader(self._buffer))
        self.schema = reader.schema
        offsets = list(self._walk_stream(content))
        if any(map(self._has_dictionary, self.schema.types)):
            self._batches = list(reader)
            return [*map(self._count, self._batches)]
        self._offsets = offsets
        return [self._count(self.batch(number)) for number in range(len(offsets))]

    def _count(self, batch: Any) -> int:
        """Add the null counts of a record batch to `nulls`, and return its number of rows."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self.nulls[name] += column.null_count
        return int(batch.num_rows)

    def _has_dictionary(self, kind: Any) -> bool:
        if self._pa.types.is_dictionary(kind):
            return True
        inner = [kind.field(number).type for number in range(kind.num_fields)]
        return any(map(self._has_dictionary, inner))

    def _walk_stream(self, content: ReadView) -> Iterator[int]:
        """Yield the offset of each record batch in a stream, and check the decompressed size of each; set `is_ended`."""
        source = self._pa.BufferReader(self._buffer)
        while source.tell() < source.size():
            offset = source.tell()
            try:
                message = self._ipc.read_message(source)
            except EOFError:  # the stream has its end mark
                return
            stop = source.tell()
            start = stop - (message.body.size if message.body else 0)
            check_message(message.metadata.to_pybytes(), content, start, stop)
            if message.type == "record batch":
                yield offset
        self.is_ended = False

    def _message(self, offset: int) -> Any:
        source = self._pa.BufferReader(self._buffer)
        source.seek(offset)
        return self._ipc.read_message(source)
