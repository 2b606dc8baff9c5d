"""Forward reading of tars, with detection of their compression."""

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import NamedTuple, Protocol

from readers.detect.registry import require
from readers.formats.tar.ends import BLOCK_BYTES, UNENDED, end_fault, oversized
from readers.formats.tar.webdataset import KeyRule, key_and_field
from readers.storage.unreadable import reason_of

_PIECE_BYTES = 1 << 24
"""Most bytes that one read returns, so that a wrong size in a header does not allocate memory."""
_BUFFER_BYTES = 1 << 20
"""Size of the read buffer in bytes; longer gaps in uncompressed files are skipped by a seek."""
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""Exceptions of gzip, bz2 and lzma for damaged data."""
_ZEROS = bytes(BLOCK_BYTES)
"""Block of zeros that ends an archive."""
_ZSTD = b"\x28\xb5\x2f\xfd"
"""First bytes of zstd data."""


class BrokenStreamError(Exception):
    """Raised if a stream cannot be read beyond an offset; the text gives the reason.

    Args:
        reason: The reason, a sentence about "it".
        offset: Offset in decompressed bytes.
    """

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.offset = offset


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def seek(self, offset: int, /) -> int: ...


class Forward:
    """A decompressing, forward-only stream with the methods of a file that `tarfile` needs.

    Args:
        raw: The stored stream; gzip, bzip2, xz and zstd are recognised by their first bytes.
    """

    def __init__(self, raw: io.RawIOBase | io.BufferedReader) -> None:
        file = io.BufferedReader(raw, _BUFFER_BYTES)
        self._offset = 0
        self._broken: tuple[type[Exception], ...] = _BROKEN
        self.last = b""  # bytes that the last read returned
        self.remark = ""  # set by `stored_files` if the end of the tar is unusual
        try:
            magic = file.peek(6)[:6]
        except _BROKEN as broken:
            raise BrokenStreamError(f"it cannot be read ({reason_of(broken)})", 0) from None
        self._file: _Readable = file
        self._plain = False
        if magic.startswith(b"\x1f\x8b"):
            self._file = gzip.GzipFile(fileobj=file)
        elif magic.startswith(b"BZh"):
            self._file = bz2.BZ2File(file)
        elif magic.startswith(b"\xfd7zXZ"):
            self._file = lzma.LZMAFile(file)  # noqa: SIM115 closing it would do nothing
        elif magic.startswith(_ZSTD):
            self._file, error = _open_zstd(file)
            self._broken += (error,)
        else:
            self._plain = raw.seekable()

    def tell(self) -> int:
        """Return the current offset in decompressed bytes."""
        return self._offset

    def read(self, size: int) -> bytes:
        """Return the next bytes, for a header; fewer than `size` only at the end of the stream.

        Raises:
            BrokenStreamError: The stream is damaged, or `size` is too large for a header.
        """
        if fault := oversized(self._offset, size):
            raise BrokenStreamError(fault, self._offset - BLOCK_BYTES)
        return self.read_content(size)

    def read_content(self, size: int) -> bytes:
        """Return the next bytes, for the content of a file, whose size the caller has checked; see `read`."""
        pieces, left = [], size
        while left > 0:
            try:
                piece = self._file.read(min(left, _PIECE_BYTES))
            except self._broken as error:
                raise BrokenStreamError(
                    f"it cannot be read on ({reason_of(error)})", self._offset
                ) from None
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
            self._offset += len(piece)
        self.last = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return self.last

    def seek(self, offset: int) -> None:
        """Move forward to an offset; if it lies beyond the end, the next read returns b""."""
        if self._plain and offset - self._offset > _BUFFER_BYTES:
            try:
                self._file.seek(offset)
            except (OSError, OverflowError) as error:
                raise BrokenStreamError(
                    f"it cannot be read on ({reason_of(error)})", offset
                ) from None
            self._offset = offset
        while self._offset < offset and self.read(min(offset - self._offset, _PIECE_BYTES)):
            pass

    def drain(self) -> None:
        """Read to the end of the stream, so that checksums of compressed data and exit codes of commands are checked."""
        while self.read(_PIECE_BYTES):
            pass


class StoredFile(NamedTuple):
    """A file of a sample, at whose content the stream stands.

    Attributes:
        key: Key of the sample.
        field: Name of the field.
        size_bytes: Size of the content.
        fault: Reason why the content cannot be read, "" if it can.
        stream: The stream.
        archive: Index of the archive among concatenated ones.
    """

    key: str
    field: str
    size_bytes: int
    fault: str
    stream: Forward
    archive: int

    def read(self) -> bytes:
        """Read the content of the file from the stream, and return it.

        Raises:
            BrokenStreamError: The stream ends within the content.
        """
        data = self.stream.read_content(self.size_bytes)
        if len(data) < self.size_bytes:
            name, offset = f"{self.key}.{self.field}", self.stream.tell()
            raise BrokenStreamError(f"it is cut off at byte {offset}, within {name}", offset)
        return data


def stored_files(stream: Forward, keys: KeyRule = "first-dot") -> Iterator[StoredFile]:
    """Yield the files in a tar that belong to samples; each must be read before the next one is requested.

    Concatenated archives are read one after the other. Devices and other members that are no files are skipped.

    Args:
        stream: The tar; its `remark` is set if the tar ends without zero blocks.
        keys: Where the key ends in a name; see `key_and_field`.

    Raises:
        BrokenStreamError: The stream is truncated, damaged or no tar.
    """
    offset = 0
    try:
        archive = tarfile.TarFile(fileobj=stream, encoding="utf-8", errors="surrogateescape")  # type: ignore[arg-type]
    except tarfile.TarError as error:
        reason = "it is empty" if not stream.tell() else f"it is not a tar file ({error})"
        raise BrokenStreamError(reason, 0) from None
    number = num_zeros = 0
    while True:
        try:
            member = archive.next()
        except (
            tarfile.TarError,
            ValueError,
        ):  # for other damaged headers tarfile returns None, which is handled below
            reason = f"it is damaged or cut off at byte {offset}, within a header"
            raise BrokenStreamError(reason, offset) from None
        if member is None and stream.last == _ZEROS:  # another archive may follow
            number, num_zeros = number + (not num_zeros), num_zeros + 1
            archive.offset = offset = stream.tell()
            continue
        if member is None or member.size < 0:  # a negative size would lead back, in an endless loop
            break
        offset, num_zeros = archive.offset, 0
        archive.members.clear()  # type: ignore[attr-defined] # otherwise all headers stay in memory
        name = key_and_field(member.name, keys)
        if name is not None and (member.isreg() or member.islnk() or member.issym()):
            yield StoredFile(*name, member.size, _fault(member), stream, number)
    if reason := end_fault(offset, stream.tell(), stream.last):
        raise BrokenStreamError(f"it {reason}", offset)
    if num_zeros < 2:
        stream.remark = f"ends at byte {stream.tell()} {UNENDED}"


def _fault(member: tarfile.TarInfo) -> str:
    if member.issparse():
        return f"{member.name} is stored as a sparse file"
    if member.isreg():
        return ""
    return (
        f"{member.name} is a link to {member.linkname}, which cannot be followed where a tar is read forward: decompress it, "
        "or store files"
    )


def zstd_library() -> ModuleType:
    """Return the module for zstd: of the standard library from Python 3.14 on, otherwise the package zstandard.

    Raises:
        SourceError: The package zstandard is needed, but not installed.
    """
    with suppress(ImportError):
        return import_module("compression.zstd")
    return require("zstandard", extra="zstd")


def _open_zstd(file: _Readable) -> tuple[_Readable, type[Exception]]:
    library = zstd_library()
    if hasattr(library, "ZstdFile"):
        return library.ZstdFile(file), library.ZstdError
    reader = library.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return io.BufferedReader(reader), library.ZstdError
