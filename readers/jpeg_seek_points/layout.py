"""The file that holds checkpoints of a dataset's or a shard's images: a slot for each sample, and rows behind them.

All numbers little-endian, in this order:

    128 bytes   format, what the file belongs to, version of the rows, number of samples, checksum of these
    slots       of each sample 32 bytes: where its rows lie, digest of its image, verdict, checksums; zeros: unknown
    rows        bytes that mean nothing here, in any order

It holds no code and no pickle. Rows are added at the end, and then the slot is written that names them: who is killed
in between leaves bytes that nobody asks for. A slot's checksum also covers the head and the number of the sample, and a
slot has the checksum of its rows: what is damaged, was written by two at once or stands in another place is unknown,
like what was never there.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from readers.storage.side_file import CheckedStruct, DamagedFileError

FORMAT = b"gpu-aug points 1"
HEAD_BYTES = 128
SLOT_BYTES = 32

_HEAD = CheckedStruct("16s32sI4xQ")
"""Format, what the file belongs to, version of the rows, number of samples."""
_SLOT = CheckedStruct("QQIIhH")
"""Offset of the rows, digest of the image, bytes and CRC-32 of the rows, status, every; the fields of `Slot`."""
SLOT = np.dtype(
    [
        *(("start", "<u8"), ("digest", "<u8"), ("num_bytes", "<u4"), ("crc", "<u4")),
        *(("status", "<i2"), ("every", "<u2"), ("check", "<u4")),
    ]
)
"""A slot, for compiled code: offset of the rows, digest of the image, bytes and CRC-32 of the rows, status, every, and the CRC-32
of the number of the sample (8 bytes) and all that, begun with `Head.seed`."""
_UNKNOWN = bytes(SLOT_BYTES)
_PIECE_SLOTS = 1 << 15


class Kept(NamedTuple):
    """What is known of one image.

    Attributes:
        status: The verdict on the whole file, -32768 to 32767; its numbers are those of whoever found it.
        every: Distance of the rows, 0 to 65535, in whatever unit.
        rows: The rows as bytes; they may be none.
    """

    status: int
    every: int
    rows: bytes


class Entry(NamedTuple):
    """What is known of one image, and which one.

    Attributes:
        number: The sample's place in the file.
        digest: Of all bytes of its image, 64 bits.
        kept: What is known.
    """

    number: int
    digest: int
    kept: Kept


class Slot(NamedTuple):
    """Where what is known of a sample lies.

    Attributes:
        start: Offset of the rows in the file.
        digest: See `Entry`.
        num_bytes: Length of the rows.
        crc: CRC-32 of the rows.
        status: See `Kept`.
        every: See `Kept`.
    """

    start: int
    digest: int
    num_bytes: int
    crc: int
    status: int
    every: int

    def take(self, rows: bytes) -> Kept | None:
        """What is known, given the bytes that lie there; None where they are not what was written."""
        if len(rows) != self.num_bytes or zlib.crc32(rows) != self.crc:
            return None
        return Kept(self.status, self.every, rows)


@dataclass(frozen=True)
class Head:
    """What a file says of itself.

    Attributes:
        belongs: 32 hex digits, the fingerprint of the dataset or shard.
        version: Version of the rows and verdicts, of whoever found them.
        num_samples: Number of slots.
    """

    belongs: str
    version: int
    num_samples: int

    def pack(self) -> bytes:
        """The first HEAD_BYTES of the file."""
        return self._packed().ljust(HEAD_BYTES, b"\0")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the first HEAD_BYTES of a file.

        Raises:
            DamagedFileError: They are something else.
        """
        name, belongs, version, num_samples = _HEAD.unpack(data, "head")
        if name != FORMAT:
            raise DamagedFileError("it is of another format")
        return cls(belongs.decode("ascii", "replace"), version, num_samples)

    @property
    def first_row(self) -> int:
        """Offset of the first byte behind the slots."""
        return HEAD_BYTES + SLOT_BYTES * self.num_samples

    @property
    def seed(self) -> int:
        """By which the slots of this file are told from those of others."""
        return int.from_bytes(self._packed()[-4:], "little")  # the checksum of the head

    def slot_at(self, number: int) -> int:
        """Offset of a sample's slot."""
        return HEAD_BYTES + SLOT_BYTES * number

    def _packed(self) -> bytes:
        return _HEAD.pack(FORMAT, self.belongs.encode(), self.version, self.num_samples)


def pack_slot(seed: int, entry: Entry, start: int) -> bytes:
    """The slot of what is known of a sample.

    Args:
        seed: See `Head.seed`.
        entry: What is known.
        start: Offset of its rows.
    """
    status, every, rows = entry.kept
    slot = Slot(start, entry.digest, len(rows), zlib.crc32(rows), status, every)
    return _SLOT.pack(*slot, seed=_slot_seed(seed, entry.number))


def parse_slot(seed: int, number: int, data: bytes) -> Slot | None:
    """Read the slot of a sample; None where nothing is known.

    Raises:
        DamagedFileError: It is not as it was written.
    """
    if data == _UNKNOWN:
        return None
    return Slot(*_SLOT.unpack(data, "slot", seed=_slot_seed(seed, number)))


def encoded(head: Head, entries: Callable[[], Iterable[Entry]]) -> Iterator[bytes]:
    """Yield the bytes of a whole file: the same for the same entries, whoever makes it.

    Args:
        head: What it belongs to.
        entries: Yields what is known in increasing order of the samples, the same each time; it is called twice.
    """
    yield head.pack()
    seed, start, number = head.seed, head.first_row, 0
    slots = bytearray()
    for entry in entries():
        for missing in _pieces(entry.number - number):
            slots += bytes(SLOT_BYTES * missing)
            yield bytes(slots)
            slots.clear()
        slots += pack_slot(seed, entry, start)
        start += len(entry.kept.rows)
        number = entry.number + 1
        if len(slots) >= SLOT_BYTES * _PIECE_SLOTS:
            yield bytes(slots)
            slots.clear()
    yield bytes(slots)
    for missing in _pieces(head.num_samples - number):
        yield bytes(SLOT_BYTES * missing)
    for entry in entries():
        yield entry.kept.rows


def laid_out(head: Head, entries: Sequence[Entry]) -> bytes:
    """The bytes of a whole file of few samples; see `encoded`."""
    return b"".join(encoded(head, lambda: entries))


def _pieces(count: int) -> Iterator[int]:
    for begun in range(0, count, _PIECE_SLOTS):
        yield min(_PIECE_SLOTS, count - begun)


def _slot_seed(seed: int, number: int) -> int:
    return zlib.crc32(number.to_bytes(8, "little"), seed)
