"""The side-car index of a shard: what lies where, in columns, built once and kept in a file.

One file holds, in this order:

    16 bytes    name and version of the format
     8 bytes    length of the description in bytes, CRC-32 (begun at it) of all that follows
    JSON        size and mtime of the shard, digest, field names, faults, type and place of columns
    columns     plain numbers: S samples and M members (stored files), in the shard's order

It holds no code and no pickle. It is rebuilt when it does not fit the shard or is damaged.
"""

import hashlib
import json
import mmap
import os
import struct
import sys
import tempfile
import zlib
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.sample import IndexFileError, Payload

_FORMAT = b"gpu-aug index 3\n"
_PREFIX = struct.Struct("<16sII")

_COLUMNS: dict[str, Literal["B", "H", "I", "i", "q"]] = {
    "key_text": "B",  # all keys in UTF-8, one behind the other
    "key_bounds": "q",  # [S + 1]: where each key begins and the last one ends
    "member_bounds": "q",  # [S + 1]: the members of each sample, likewise
    "label": "q",  # [S]
    "height": "I",  # [S], pixels after EXIF orientation, 0 when not known
    "width": "I",  # [S]
    "field": "i",  # [M], place in the list of field names
    "start": "q",  # [M], byte offset in the shard
    "stop": "q",  # [M]
    # Of the images with restart intervals; all three are empty where the shard has none.
    "restart_bounds": "q",  # [S + 1]: where the lengths of each sample begin and the last one's end
    "scan_start": "I",  # [S], byte offset in the image of its first interval
    "restart_length": "H",  # bytes of each interval with the marker behind it, the last one without
}


class Entry(NamedTuple):
    """One sample in a shard.

    Attributes:
        key: Unique in most shards, but it need not be.
        members: (field name, start, stop) of each field, half open, in bytes from the start.
        label: Class number, or -1.
        size: (height, width) after EXIF orientation, or None.
        fault: Why the sample cannot be read, empty when it can.
        restarts: Of its image, as `readers.restarts.restart_offsets` gives them. An index keeps none
            whose intervals exceed 64 kB: they spare little.
    """

    key: str
    members: tuple[tuple[str, int, int], ...]
    label: int = -1
    size: tuple[int, int] | None = None
    fault: str = ""
    restarts: NDArray[np.int64] | None = None


class ShardIndex:
    """The index of one shard, read from the bytes of its file.

    Args:
        data: Content of an index file.
        stamp: (size in bytes, mtime in ns) of the shard.

    Raises:
        ValueError: The bytes are no such index, are damaged, or belong to another state of the
            shard.
    """

    def __init__(self, data: Payload, stamp: tuple[int, int]) -> None:
        name, length, checksum = _PREFIX.unpack(bytes(data[: _PREFIX.size]).ljust(_PREFIX.size))
        body = memoryview(data)[_PREFIX.size :]
        if name != _FORMAT or zlib.crc32(body, length) != checksum:
            raise ValueError("not an index, or a damaged one")
        description = json.loads(bytes(body[:length]))
        if description["byte_order"] != sys.byteorder or tuple(description["stamp"]) != stamp:
            raise ValueError("the index of another shard, or of another machine")
        numbers = body[length:]
        columns = {
            name: numbers[start:stop].cast(_COLUMNS[name])
            for name, (start, stop) in description["columns"].items()
        }
        self.stamp = stamp
        self.digest: str = description["digest"]
        self._faults = {int(row): fault for row, fault in description["faults"].items()}
        self._field_names: list[str] = description["field_names"]
        self._key_text, self._key_bounds = columns["key_text"], columns["key_bounds"]
        self._member_bounds, self._field = columns["member_bounds"], columns["field"]
        self._start, self._stop = columns["start"], columns["stop"]
        self._height, self._width, self._label = (
            columns[name] for name in ("height", "width", "label")
        )
        self._restart_bounds, self._scan_start = columns["restart_bounds"], columns["scan_start"]
        self._restart_length = columns["restart_length"]

    def __len__(self) -> int:
        return len(self._label)

    def entry(self, row: int) -> Entry:
        """Return a sample; 0 <= row < len."""
        key = bytes(self._key_text[self._key_bounds[row] : self._key_bounds[row + 1]])
        members = tuple(
            [
                (self._field_names[self._field[member]], self._start[member], self._stop[member])
                for member in range(self._member_bounds[row], self._member_bounds[row + 1])
            ]
        )
        size = (self._height[row], self._width[row]) if self._height[row] else None
        fault = self._faults.get(row, "") if self._faults else ""
        restarts = self._restarts(row) if self._restart_bounds else None
        text = key.decode("utf-8", "surrogateescape")
        return Entry(text, members, self._label[row], size, fault, restarts)

    def _restarts(self, row: int) -> NDArray[np.int64] | None:
        lengths = self._restart_length[self._restart_bounds[row] : self._restart_bounds[row + 1]]
        if not lengths:
            return None
        offsets = np.empty(len(lengths) + 1, np.int64)
        offsets[0] = self._scan_start[row]
        offsets[1:] = lengths
        return np.cumsum(offsets, out=offsets)


def open_index(shard: Path, scan: Callable[[Path], Iterable[Entry]]) -> ShardIndex:
    """Return the index of a shard, from its file where that fits, else by a scan.

    The file is ``NAME.tar.gpuaug-index`` beside the shard or, where that cannot be written, lies
    in the folder ``$GPU_AUG_CACHE`` (``~/.cache/gpu-aug`` when not set). It appears in one step,
    so several processes may build it at the same time.

    Raises:
        IndexFileError: Neither place can be written.
        OSError: The shard cannot be read.
    """
    status = shard.stat()
    stamp = (status.st_size, status.st_mtime_ns)
    places = (shard.with_name(f"{shard.name}.gpuaug-index"), _cached(shard))
    for place in places:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return ShardIndex(_content(place), stamp)
    data = _pack(list(scan(shard)), stamp)
    for place in places:
        with suppress(OSError):
            _write(place, data, status.st_mode & 0o666)
            return ShardIndex(data, stamp)
    raise IndexFileError(
        f"the index of {shard} can be written neither beside it nor to {places[1].parent}: "
        "set GPU_AUG_CACHE to a folder that can be written"
    )


def _content(place: Path) -> Payload:
    """Return the bytes of an index file, mapped where that holds no file descriptor.

    The restart intervals of tiled photographs take some 400 bytes a sample, which processes share so.
    """
    if sys.version_info >= (3, 13):
        with place.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, trackfd=False))
    return place.read_bytes()


def _cached(shard: Path) -> Path:
    folder = os.environ.get("GPU_AUG_CACHE") or Path.home() / ".cache" / "gpu-aug"
    name = hashlib.sha256(os.fsencode(shard.absolute())).hexdigest()[:32]
    return Path(folder, f"{name}.gpuaug-index")


def _pack(entries: list[Entry], stamp: tuple[int, int]) -> bytes:
    """Return the content of the index file."""
    columns = {name: array(code) for name, code in _COLUMNS.items()}
    field_names: dict[str, int] = {}
    digest = hashlib.sha256()
    columns["key_bounds"].append(0)
    columns["member_bounds"].append(0)
    for key, members, label, size, _, _ in entries:
        columns["key_text"].frombytes(key.encode("utf-8", "surrogateescape"))
        columns["key_bounds"].append(len(columns["key_text"]))
        for name, start, stop in members:
            columns["field"].append(field_names.setdefault(name, len(field_names)))
            columns["start"].append(start)
            columns["stop"].append(stop)
        columns["member_bounds"].append(len(columns["field"]))
        columns["label"].append(label)
        columns["height"].append(size[0] if size else 0)
        columns["width"].append(size[1] if size else 0)
        sizes = [(name, stop - start) for name, start, stop in members]
        digest.update(f"{key!r} {sizes} {label}\n".encode())
    _pack_restarts(columns, entries)
    places, body = {}, b""
    for name, column in columns.items():
        places[name] = (len(body), len(body) + len(column) * column.itemsize)
        body += column.tobytes()
    description = {
        "byte_order": sys.byteorder,
        "stamp": stamp,
        "digest": digest.hexdigest(),
        "field_names": list(field_names),
        "faults": {row: entry.fault for row, entry in enumerate(entries) if entry.fault},
        "columns": places,
    }
    text = json.dumps(description).encode()
    checksum = zlib.crc32(text + body, len(text))
    return _PREFIX.pack(_FORMAT, len(text), checksum) + text + body


def _pack_restarts(columns: dict[str, "array[int]"], entries: list[Entry]) -> None:
    """Fill the columns of the restart intervals, or leave them empty where there are none."""
    if all(entry.restarts is None for entry in entries):
        return
    columns["restart_bounds"].append(0)
    for entry in entries:
        start, lengths = 0, np.empty(0, np.int64)
        if entry.restarts is not None:
            start, lengths = int(entry.restarts[0]), np.diff(entry.restarts)
        if start < 1 << 32 and lengths.max(initial=0) < 1 << 16:
            columns["restart_length"].frombytes(lengths.astype(np.uint16).tobytes())
        columns["scan_start"].append(start % (1 << 32))
        columns["restart_bounds"].append(len(columns["restart_length"]))


def _write(place: Path, data: bytes, mode: int) -> None:
    """Write a file so that others see all of it or nothing, as open to them as the shard is."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".gpuaug-", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave the new name on old blocks
            os.fchmod(file.fileno(), mode)
            Path(file.name).replace(place)
        except BaseException:
            Path(file.name).unlink()
            raise
