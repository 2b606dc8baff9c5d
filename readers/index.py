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

from readers.sample import IndexFileError

_FORMAT = b"gpu-aug index 2\n"
_PREFIX = struct.Struct("<16sII")

_COLUMNS: dict[str, Literal["B", "I", "i", "q"]] = {
    "key_text": "B",  # all keys in UTF-8, one behind the other
    "key_bounds": "q",  # [S + 1]: where each key begins and the last one ends
    "member_bounds": "q",  # [S + 1]: the members of each sample, likewise
    "label": "q",  # [S]
    "height": "I",  # [S], pixels after EXIF orientation, 0 when not known
    "width": "I",  # [S]
    "field": "i",  # [M], place in the list of field names
    "start": "q",  # [M], byte offset in the shard
    "stop": "q",  # [M]
}


class Entry(NamedTuple):
    """One sample in a shard.

    Attributes:
        key: Unique in most shards, but it need not be.
        members: (field name, start, stop) of each field, half open, in bytes from the start.
        label: Class number, or -1.
        size: (height, width) after EXIF orientation, or None.
        fault: Why the sample cannot be read, empty when it can.
    """

    key: str
    members: tuple[tuple[str, int, int], ...]
    label: int = -1
    size: tuple[int, int] | None = None
    fault: str = ""


class ShardIndex:
    """The index of one shard, read from the bytes of its file.

    Args:
        data: Content of an index file.
        stamp: (size in bytes, mtime in ns) of the shard.

    Raises:
        ValueError: The bytes are no such index, are damaged, or belong to another state of the
            shard.
    """

    def __init__(self, data: bytes, stamp: tuple[int, int]) -> None:
        name, length, checksum = _PREFIX.unpack(data[: _PREFIX.size].ljust(_PREFIX.size))
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
        return Entry(key.decode("utf-8", "surrogateescape"), members, self._label[row], size, fault)


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
            return ShardIndex(place.read_bytes(), stamp)
    data = _pack(list(scan(shard)), stamp)
    for place in places:
        with suppress(OSError):
            _write(place, data, status.st_mode & 0o666)
            return ShardIndex(data, stamp)
    raise IndexFileError(
        f"the index of {shard} can be written neither beside it nor to {places[1].parent}: "
        "set GPU_AUG_CACHE to a folder that can be written"
    )


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
    for key, members, label, size, _ in entries:
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
