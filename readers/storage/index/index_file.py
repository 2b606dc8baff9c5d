"""Layout of the index file of a shard, which consists of tables of plain numbers.

The file holds, in this order, all numbers little-endian:

    32 bytes    name and version of the format, lengths of JSON and checksums, checksum of both
    40 bytes    stamp: identity of the shard's file on this machine, with a checksum of its own
    JSON        identity of the shard and the scan, digest, field names, spans of the tables
    uint32      CRC-32 of every 16 KiB of the tables
    tables      a row per sample, a pair (start, stop) per member, restart intervals, keys and faults

The file holds neither code nor pickles. It is memory-mapped: opening reads only the part before the tables; a piece of the
tables is read and compared with its checksum when a sample needs it. So an index of ten million samples is opened as fast as
one of ten, and processes share pages. Only the stamp is ever overwritten, after a shard was moved or copied.
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
"""First bytes of each file. A new layout needs a new number."""
PREFIX = struct.Struct("<16sIII4x")
"""Format, length of the JSON in bytes, number of checksums, CRC-32 of JSON and checksums."""
STAMP = CheckedStruct("QqqQI")
"""The fields of `Stamp`: inode of the shard, its mtime and ctime, inode of the index, settled."""
BEFORE_TEXT = PREFIX.size + STAMP.size
"""Offset of the JSON."""
CHUNK_BYTES = 1 << 14
"""Bytes of the tables per checksum: checking 16 KiB takes a few us, and 64 GB of tables have 16 MB of checksums."""

ROW = struct.Struct("<QQqIIIi")
"""Layout of a row of the table of samples, for single rows: the fields of ROW_TYPE."""
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
        ),  # number in the list of kinds; -1: its only member is the fault in the text
    ]
)
PAIR = struct.Struct("<QQ")
"""Layout of a row of the table of members: start and stop of the member in the shard."""
TABLES = {
    "rows": ROW.size,  # [S], the first table
    "members": PAIR.size,  # [M]
    # Restart intervals of images; all three tables are empty if no image of the shard has some.
    "restart_bounds": 8,  # uint64 [S + 1]: first length of each sample, and the number of all lengths
    "scan_start": 4,  # uint32 [S], byte offset in the image of its first interval
    "restart_length": 2,  # uint16, bytes of each interval with the marker after it, of the last one without
    "text": 1,  # keys and faults in UTF-8
}
"""Number of bytes in a row of each table, in the order of the file."""
Names = tuple[str, ...]
Kind = tuple[Names, str | None, struct.Struct]
"""A combination of fields: field names, image field, and the struct that holds the starts and stops of the members."""


class Entry(NamedTuple):
    """One sample of a shard, as a scan finds it.

    Attributes:
        key: Key of the sample; usually, but not necessarily, unique in the shard.
        members: For each field its name, the offset of its first byte in the shard, and the offset after its last byte.
        label: Class number, -1 for no label.
        size: (height, width) of the image after EXIF orientation; None if unknown.
        fault: Reason why the sample cannot be read; empty if it can.
        restarts: Restart intervals of the image, as `readers.image.restarts.restart_offsets` returns them; None if there are
            none. The index does not store intervals of more than 64 kB, since these save little.
        image_field: Name of the field with the image if the format declares one, else None.
    """

    key: str
    members: tuple[tuple[str, int, int], ...]
    label: int = -1
    size: tuple[int, int] | None = None
    fault: str = ""
    restarts: NDArray[np.int64] | None = None
    image_field: str | None = None


class Remark(NamedTuple):
    """A warning about a shard, for users who open it; the shard's path, `where` and `what` form a sentence.

    Attributes:
        where: What was observed in this shard, such as "ends at byte 5120".
        what: What this means, with equal words for all shards, so that such shards can be counted.
    """

    where: str
    what: str


class Stamp(NamedTuple):
    """Identity of the shard file that an index fitted when it was last checked.

    Attributes:
        inode: Inode of the shard; see `FileState`.
        mtime_ns: Modification time of the shard; see `FileState`.
        ctime_ns: Change time of the shard; see `FileState`.
        index_inode: Inode of the index file itself: a copy of the index has another one.
        settled: Whether every later change of the shard is certain to change its ``ctime_ns``.
    """

    inode: int
    mtime_ns: int
    ctime_ns: int
    index_inode: int
    settled: bool

    def pack(self) -> bytes:
        """Return the bytes of the stamp, with their checksum."""
        return STAMP.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> Self | None:
        """Return the stamp in some bytes; None if it is missing or damaged."""
        with suppress(DamagedFileError):  # the content of the shard is then compared
            inode, mtime_ns, ctime_ns, index_inode, settled = STAMP.unpack(data, "stamp")
            return cls(inode, mtime_ns, ctime_ns, index_inode, bool(settled))
        return None


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an index, the part before its tables, which is read when the index is opened.

    Attributes:
        identity: A dict that identifies the shard and the scan: ``scan``, ``size_bytes`` and ``content``.
        digest: SHA-256 over keys, field sizes and labels, in hexadecimal digits.
        kinds: The combinations of fields that occur in samples.
        spans: For each table the offsets of its first byte and after its last byte, counted from the first table.
        num_repeated_keys: Number of samples whose key an earlier sample of the shard has, too.
        num_unlabelled: Number of readable samples without a label.
        checksums: Checksums of all 16 KiB pieces of the tables, 4 bytes each.
        start: Offset of the first table in the file.
        mark: CRC-32 of JSON and checksums, which identifies the file.
        remarks: Warnings that the scan made about the shard.
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
        """Size of the complete index file in bytes."""
        return self.start + max(stop for _, stop in self.spans.values())

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """Return the head at the beginning of the bytes of an index.

        Raises:
            DamagedFileError: The bytes are of another format, damaged or cut off.
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
            found.get("num_unlabelled", 0),  # missing in indexes of earlier versions
            rest[num_text:],
            start,
            mark,
            tuple(Remark(*remark) for remark in found.get("remarks", ())),
        )

    @staticmethod
    def mark_of(data: bytes | memoryview) -> int:
        """Return `mark` of an index, after verifying it, given the bytes at the beginning of the file.

        Raises:
            DamagedFileError: The checksum does not match, or the file is of another format.
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
        """Return the bytes of an index before its tables, with an empty stamp.

        Args:
            description: Content of the JSON.
            checksums: Checksums of the pieces of the tables.
        """
        text = json.dumps(description).encode()
        text += b" " * (-(len(text) + len(checksums)) % 8)  # aligns the numbers of the tables
        mark = _mark(text + checksums, len(text))
        prefix = PREFIX.pack(FORMAT, len(text), len(checksums) // 4, mark)
        return prefix + bytes(STAMP.size) + text + checksums


def read_head(path: Path) -> tuple[Head, Stamp | None]:
    """Return the head of an index file, and its stamp; the stamp is None if the index file was copied since it was stamped.

    Raises:
        DamagedFileError: The file is of another format, damaged or cut off.
        OSError: The file cannot be read.
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
    """Overwrite the stamp of an index file; `index_inode` is set to the inode of that file.

    Raises:
        OSError: The file cannot be written.
    """
    stamp = stamp._replace(index_inode=os.fstat(descriptor).st_ino)
    os.pwrite(descriptor, stamp.pack(), PREFIX.size)


def _mark(rest: bytes | memoryview, num_text: int) -> int:
    return zlib.crc32(rest, num_text)
