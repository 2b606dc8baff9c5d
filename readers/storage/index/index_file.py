"""The file that holds the index of a shard: offsets as tables of plain numbers.

One file holds, in this order, all numbers little-endian:

    32 bytes    name and version of the format, lengths of the two behind the stamp, checksum of both
    40 bytes    stamp: which file of this machine the shard was, with a checksum of its own
    JSON        which shard and which scan it belongs to, digest, field names, spans of the tables
    uint32      CRC-32 of every 16 KiB of the tables
    tables      a row per sample, a pair (start, stop) per member, restart intervals, keys and faults

It holds no code and no pickle. It is mapped, not read: opening reads what stands before the tables, and a piece of the
tables is read, and checked against its checksum, when a sample is asked for that needs it. So ten
million samples are opened as fast as ten, and processes share what they read. The stamp alone is ever written
over, when the index is found to fit a shard that is another file than before.
"""

import json
import os
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from readers.storage.side_file import CheckedStruct, DamagedFileError

FORMAT = b"gpu-aug index 4\n"
PREFIX = struct.Struct("<16sIII4x")
"""Format, bytes of JSON, number of checksums, CRC-32 of these two."""
STAMP = CheckedStruct("QqqQI")
"""Inode of the shard, its times of change, inode of the index, settled."""
BEFORE_TEXT = PREFIX.size + STAMP.size
CHUNK_BYTES = 1 << 14

ROW = struct.Struct("<QQqIIIi")
ROW_TYPE = np.dtype(
    [
        ("key_start", "<u8"),  # in the text
        ("first", "<u8"),  # number of its first member
        ("label", "<i8"),
        ("height", "<u4"),  # pixels after EXIF orientation, 0 when not known
        ("width", "<u4"),
        ("key_bytes", "<u4"),
        (
            "kind",
            "<i4",
        ),  # number in the list of kinds; -1: its one member lies in the text, its fault
    ]
)
PAIR = struct.Struct("<QQ")  # start and stop of a member in the shard
TABLES = {
    "rows": ROW.size,  # [S], the first table
    "members": PAIR.size,  # [M]
    # Of the images with restart intervals; all three are empty where the shard has none.
    "restart_bounds": 8,  # uint64 [S + 1]: where the lengths of each sample begin and the last one's end
    "scan_start": 4,  # uint32 [S], byte offset in the image of its first interval
    "restart_length": 2,  # uint16, bytes of each interval with the marker behind it, the last one without
    "text": 1,  # keys and faults in UTF-8
}
Names = tuple[str, ...]
Kind = tuple[Names, str | None, struct.Struct]
"""Field names, image field, and what reads the members' starts and stops."""


class Entry(NamedTuple):
    """One sample in a shard.

    Attributes:
        key: Unique in most shards, but it need not be.
        members: (field name, start, stop) of each field, half open, in bytes from the start.
        label: Class number, or -1.
        size: (height, width) after EXIF orientation, or None.
        fault: Why the sample cannot be read, empty when it can.
        restarts: Restart intervals of its image, as `readers.image.restarts.restart_offsets` gives them. An index keeps none
            whose intervals exceed 64 kB: they spare little.
        image_field: Name of the field that holds the image where the format says so, or None.
    """

    key: str
    members: tuple[tuple[str, int, int], ...]
    label: int = -1
    size: tuple[int, int] | None = None
    fault: str = ""
    restarts: NDArray[np.int64] | None = None
    image_field: str | None = None


class Remark(NamedTuple):
    """What a scan noticed of a shard, beside its samples, for whoever opens it. Together the two are a sentence.

    Attributes:
        where: What this shard does, such as "ends at byte 5120".
        what: What that means, the same words for all shards that do it.
    """

    where: str
    what: str


class Stamp(NamedTuple):
    """Which file of this machine an index was last found to fit.

    Attributes:
        inode: See `FileState`.
        mtime_ns: See `FileState`.
        ctime_ns: See `FileState`.
        index_inode: Inode of the index itself: a copy of the index has another one.
        settled: Whether any later change of the shard gives it another ``ctime_ns``.
    """

    inode: int
    mtime_ns: int
    ctime_ns: int
    index_inode: int
    settled: bool

    def pack(self) -> bytes:
        """The bytes that `unpack` takes."""
        return STAMP.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> Self | None:
        """Read a stamp; None where there is none, or a damaged one."""
        with suppress(DamagedFileError):  # the content of the shard is then compared
            *numbers, settled = STAMP.unpack(data, "stamp")
            return cls(*numbers, bool(settled))
        return None


@dataclass(frozen=True, slots=True)
class Head:
    """The part of an index that is read on opening.

    Attributes:
        identity: Identity of the shard and the scan; see `readers.storage.index`.
        digest: SHA-256 over keys, field sizes and labels, in hexadecimal digits.
        kinds: The combinations of fields that samples have.
        spans: Table -> (start, stop) in bytes from the first table.
        num_repeated_keys: How many samples have the key of an earlier one.
        num_unlabelled: How many samples that can be read have no label.
        checksums: Checksums of the tables' pieces, 4 bytes each.
        start: Where the first table begins in the file.
        mark: CRC-32 of all this but the stamp, by which the same file is known again.
        remarks: What the scan noticed.
    """

    identity: dict[str, Any]
    digest: str
    kinds: tuple[Kind, ...]
    spans: dict[str, tuple[int, int]]
    num_repeated_keys: int
    num_unlabelled: int
    checksums: bytes
    start: int
    mark: int
    remarks: tuple[Remark, ...] = ()

    def __len__(self) -> int:
        start, stop = self.spans["rows"]
        return (stop - start) // ROW.size

    @property
    def file_bytes(self) -> int:
        """Length of the whole file."""
        return self.start + max(stop for _, stop in self.spans.values())

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """Read the beginning of an index.

        Raises:
            DamagedFileError: It is not that, or more is missing than the tables.
        """
        mark = cls.mark_of(data)
        _, num_text, num_checksums, _ = PREFIX.unpack_from(data)
        start = BEFORE_TEXT + num_text + 4 * num_checksums
        rest = bytes(data[BEFORE_TEXT:start])
        found = json.loads(rest[:num_text])
        kinds = tuple(
            (tuple(names), image, struct.Struct(f"<{2 * len(names)}Q"))
            for names, image in found["kinds"]
        )
        spans = {name: (first, last) for name, (first, last) in found["places"].items()}
        return cls(
            found["identity"],
            found["digest"],
            kinds,
            spans,
            found["num_repeated_keys"],
            found.get("num_unlabelled", 0),  # indexes that were published before do not tell
            rest[num_text:],
            start,
            mark,
            tuple(Remark(*remark) for remark in found.get("remarks", ())),
        )

    @staticmethod
    def mark_of(data: bytes | memoryview) -> int:
        """Return the checksum of what stands before the tables.

        Raises:
            DamagedFileError: It does not fit.
        """
        if len(data) < PREFIX.size:
            raise DamagedFileError("too short")
        name, num_text, num_checksums, mark = PREFIX.unpack_from(data)
        stop = BEFORE_TEXT + num_text + 4 * num_checksums
        if name != FORMAT or len(data) < stop or _mark(data[BEFORE_TEXT:stop], num_text) != mark:
            raise DamagedFileError("not an index of this format, or a damaged one")
        return int(mark)

    @staticmethod
    def pack(description: dict[str, Any], checksums: bytes) -> bytes:
        """Return the bytes that stand before the tables, without a stamp."""
        text = json.dumps(description).encode()
        text += b" " * (-(len(text) + len(checksums)) % 8)  # the tables' numbers lie even
        mark = _mark(text + checksums, len(text))
        prefix = PREFIX.pack(FORMAT, len(text), len(checksums) // 4, mark)
        return prefix + bytes(STAMP.size) + text + checksums


def read_head(path: Path) -> tuple[Head, Stamp | None]:
    """Read what stands before the tables of an index file.

    Returns:
        The head and the stamp, which is None where the file is a copy of what was stamped.

    Raises:
        DamagedFileError: It is no index, or a damaged one, or cut off.
        OSError: It cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        data = os.pread(descriptor, 1 << 13, 0)
        if len(data) >= PREFIX.size:
            _, num_text, num_checksums, _ = PREFIX.unpack_from(data)
            length = BEFORE_TEXT + num_text + 4 * num_checksums
            if len(data) < length <= status.st_size:
                data = os.pread(descriptor, length, 0)
    finally:
        os.close(descriptor)
    head = Head.parse(data)
    if head.file_bytes != status.st_size:
        raise DamagedFileError("cut off")
    stamp = Stamp.unpack(data[PREFIX.size : BEFORE_TEXT])
    return head, stamp if stamp and stamp.index_inode == status.st_ino else None


def write_stamp(descriptor: int, stamp: Stamp) -> None:
    """Write over the stamp of an index, with the inode of the file that it stands in.

    Raises:
        OSError: It cannot be written.
    """
    stamp = stamp._replace(index_inode=os.fstat(descriptor).st_ino)
    os.pwrite(descriptor, stamp.pack(), PREFIX.size)


def _mark(rest: bytes | memoryview, num_text: int) -> int:
    return zlib.crc32(rest, num_text)
