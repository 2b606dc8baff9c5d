"""Write the index of a shard; memory does not grow with the number of samples."""

import hashlib
import os
import tempfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from readers.storage.index.index_file import CHUNK_BYTES, PAIR, ROW, TABLES, Entry, Head, Remark
from readers.storage.side_file import read_all, write_all

_SPILL_BYTES = 1 << 20
"""Bytes of a table that are held in memory; a multiple of 8, so that no number is split."""
_HASHES_PER_PASS = 1 << 21
"""Number of key hashes that are sorted at a time, which take 16 MB."""


class IndexWriter:
    """Collects the samples of a shard one by one, and writes the index at the end.

    Long tables go to temporary files without a name, which the operating system removes even if this process is killed.

    Args:
        folder: Folder of the temporary files.
    """

    def __init__(self, folder: Path) -> None:
        self._tables = {name: _Table(folder) for name in TABLES}
        self._kinds: dict[tuple[tuple[str, ...], str | None], int] = {}
        self._digest = hashlib.sha256()
        self._num_rows = self._num_members = self._num_text = self._num_lengths = 0
        self._num_unlabelled = 0
        self._has_restarts = False
        self._hashes = _Table(folder)
        self._remarks: list[Remark] = []

    def __len__(self) -> int:
        return self._num_rows

    def add(self, entry: Entry | Remark) -> None:
        """Add the next sample, or a remark about the shard.

        Raises:
            OSError: A temporary file cannot be written.
        """
        if isinstance(entry, Remark):
            self._remarks.append(entry)
            return
        key, members, label, size, fault, restarts, image_field = entry
        tables = self._tables
        text = key.encode("utf-8", "surrogateescape")
        key_start = self._num_text
        tables["text"].add(text)
        self._hashes.add(hash(text).to_bytes(8, "little", signed=True))
        self._num_text += len(text)
        first = self._num_members
        if fault:
            kind = -1
            reason = fault.encode("utf-8", "surrogateescape")
            tables["text"].add(reason)
            tables["members"].add(PAIR.pack(self._num_text, self._num_text + len(reason)))
            self._num_text += len(reason)
            self._num_members += 1
        else:
            names = tuple([member[0] for member in members])
            kind = self._kinds.setdefault((names, image_field), len(self._kinds))
            tables["members"].add(b"".join([PAIR.pack(start, stop) for _, start, stop in members]))
            self._num_members += len(members)
            self._num_unlabelled += label == -1
        height, width = size or (0, 0)
        tables["rows"].add(ROW.pack(key_start, first, label, height, width, len(text), kind))
        self._num_rows += 1
        if restarts is not None and not self._has_restarts:
            self._begin_restarts()
        if self._has_restarts:
            self._add_restarts(restarts)
        sizes = [(name, stop - start) for name, start, stop in members]
        self._digest.update(f"{key!r} {sizes} {label}\n".encode())

    def _begin_restarts(self) -> None:
        """Fill the tables of restart intervals for all samples before the first one that has some."""
        self._has_restarts = True
        for name, width in (("restart_bounds", 8), ("scan_start", 4)):
            num_zeros = (self._num_rows - 1) * width
            for start in range(0, num_zeros, _SPILL_BYTES):
                self._tables[name].add(bytes(min(_SPILL_BYTES, num_zeros - start)))
        self._tables["restart_bounds"].add(bytes(8))

    def _add_restarts(self, restarts: Any) -> None:
        start, lengths = 0, np.empty(0, np.int64)
        if restarts is not None:
            start, lengths = int(restarts[0]), np.diff(restarts)
            if start >= 1 << 32 or lengths.max(initial=0) >= 1 << 16:
                start, lengths = 0, lengths[:0]
        self._num_lengths += len(lengths)
        self._tables["restart_length"].add(lengths.astype("<u2").tobytes())
        self._tables["scan_start"].add(start.to_bytes(4, "little"))
        self._tables["restart_bounds"].add(self._num_lengths.to_bytes(8, "little"))

    def write(self, descriptor: int, identity: dict[str, Any]) -> Head:
        """Write the index into an open file, whose content is replaced, and return the head of the index.

        Args:
            descriptor: Descriptor of the file.
            identity: `Head.identity`.

        Raises:
            OSError: The file cannot be written.
        """
        spans, offset = {}, 0
        for name, table in self._tables.items():
            spans[name] = (offset, offset + len(table))
            offset += len(table)
        description = {
            "identity": identity,
            "digest": self._digest.hexdigest(),
            "kinds": list(self._kinds),
            "places": spans,
            "num_repeated_keys": self._count_repeated(),
            "num_unlabelled": self._num_unlabelled,
        }
        if self._remarks:
            description["remarks"] = self._remarks
        num_chunks = -(-offset // CHUNK_BYTES)
        start = len(Head.pack(description, bytes(4 * num_chunks)))
        os.ftruncate(descriptor, 0)
        checksums = self._write_tables(descriptor, start)
        head = Head.pack(description, checksums)
        write_all(descriptor, head, 0)
        return Head.parse(head)

    def _count_repeated(self) -> int:
        """Return the number of samples whose key an earlier sample has, too.

        Keys are compared by 64-bit hashes, so the result is wrong for about one shard in 10^6.
        """
        num_passes = 1 + len(self._hashes) // (8 * _HASHES_PER_PASS)
        count = 0
        for turn in range(num_passes):
            parts = [np.frombuffer(piece, "<u8") for piece in self._hashes.pieces()]
            found = np.sort(np.concatenate([part[part % num_passes == turn] for part in parts]))
            count += int(np.count_nonzero(found[1:] == found[:-1]))
        return count

    def _write_tables(self, descriptor: int, offset: int) -> bytes:
        checksums, pending = bytearray(), b""
        for table in self._tables.values():
            for piece in table.pieces():
                pending += piece
                whole = len(pending) // CHUNK_BYTES * CHUNK_BYTES
                for begin in range(0, whole, CHUNK_BYTES):
                    checksums += _checksum(pending[begin : begin + CHUNK_BYTES])
                write_all(descriptor, pending[:whole], offset)
                offset += whole
                pending = pending[whole:]
        if pending:
            checksums += _checksum(pending)
            write_all(descriptor, pending, offset)
        return bytes(checksums)

    def close(self) -> None:
        """Close the temporary files."""
        for table in (*self._tables.values(), self._hashes):
            table.close()


class _Table:
    """A growing sequence of bytes, which is held in memory up to a limit, then in a temporary file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._buffer = bytearray()
        self._file: IO[bytes] | None = None
        self._num_spilled = 0

    def __len__(self) -> int:
        return self._num_spilled + len(self._buffer)

    def add(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= _SPILL_BYTES:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        write_all(self._file.fileno(), self._buffer, self._num_spilled)
        self._num_spilled += len(self._buffer)
        self._buffer.clear()

    def pieces(self) -> "list[bytes] | Any":
        """Yield all bytes in pieces."""
        for offset in range(0, self._num_spilled, _SPILL_BYTES):
            assert self._file is not None
            length = min(_SPILL_BYTES, self._num_spilled - offset)
            piece = read_all(self._file.fileno(), length, offset)
            if len(piece) < length:
                raise OSError("a temporary file was shortened")
            yield piece
        yield bytes(self._buffer)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")
