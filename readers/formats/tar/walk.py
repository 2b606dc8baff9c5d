"""The files in a tar and their offsets: plain headers are parsed here, all others by the standard library's `tarfile`.

That is faster: `tarfile` takes 25 us per header, and a plain header takes 1.5 us here. The results equal those of `tarfile`,
except that links are followed to files in the same tar.
"""

import posixpath
import re
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, cast
from zlib import adler32

from readers.formats.tar.ends import oversized
from readers.storage.blob import Content, ContentFile

TarError = tarfile.TarError

_BLOCK = 512
_NUMBER = rb"(?:[0-7]{7}[\0 ]|[0-7]{6} \0|\0{8})"
_HEADER = re.compile(
    rb".{100}"  # name
    + 3 * _NUMBER  # mode, uid, gid
    + rb"([0-7]{11})[\0 ]"  # size
    + rb"(?:[0-7]{11}[\0 ]|\0{12})"  # mtime
    + rb"([0-7]{6}[0-7 \0][ \0])"  # checksum
    + rb"([0x\0])"  # plain file, extended header of the next file
    + rb".{172}"  # link name, magic, owner, group
    + 2 * _NUMBER  # device
    + rb".{167}",  # prefix, nothing
    re.DOTALL,
)
# A record of an extended header. The names below it have no effect here; tarfile handles headers with others.
_RECORD = re.compile(rb"([0-9]{1,5}) ([a-z]+)=([^\n\0]*)\n")
_HARMLESS = frozenset({"mtime", "atime", "ctime", "uid", "gid", "uname", "gname", "comment"})


StoredFile = tuple[str, int, int, str, int]
"""A member of a tar: (name, start, stop, fault, next).

The name includes folders, and is "" if the member is neither a regular file nor a link. The content lies at start to stop,
also if the tar ends before. The fault is the reason why the content does not lie there, or "". The next header is expected
at the offset next.
"""


def stored_files(content: Content, begin: int = 0, *, links: bool = True) -> Iterator[StoredFile]:
    """Yield the members of a tar, in order, up to the first header that cannot be read.

    Args:
        content: Bytes of the tar.
        begin: Offset of the first header.
        links: Whether links are resolved to the content of the file that they name, within this tar only.

    Raises:
        tarfile.TarError: The first header cannot be read.
    """
    stream = _Stream(content)
    stream.seek(begin)
    archive = tarfile.TarFile(
        fileobj=cast(IO[bytes], stream), encoding="utf-8", errors="surrogateescape"
    )
    targets = _Targets(content, begin) if links else None
    offset, plain = -1, False  # -1: tarfile has just read the first header
    while True:
        while plain:
            header = bytes(content[offset : offset + _BLOCK])
            parts = _match(header)
            if parts is None:
                break
            number, kind = parts
            if kind == b"x":
                found = _read_extended(content, offset, number)
                if found is None:
                    break
                yield found
                offset = found[4]
                continue
            name = _name(header, kind)
            if name is None:
                break
            start = offset + _BLOCK
            stop = start + number
            offset = (stop + _BLOCK - 1) // _BLOCK * _BLOCK
            yield name, start, stop, "", offset
        found = None
        with suppress(tarfile.TarError, ValueError):  # the caller checks where the walk stopped
            found = _read_any(archive, offset, targets)
        if found is None:
            return
        yield found
        offset = found[4]
        plain = archive.pax_headers.keys() <= _HARMLESS


def _read_any(
    archive: tarfile.TarFile, offset: int, targets: "_Targets | None"
) -> StoredFile | None:
    """Return the member at an offset, parsed by tarfile; None if tarfile finds the end of the archive.

    Args:
        archive: The open tar.
        offset: Offset of the header; -1 for the current one.
        targets: Resolves links; None if links are not resolved.
    """
    if offset >= 0:
        archive.offset = offset
    member = archive.next()
    if member is None or member.size < 0:  # a negative size would lead back, in an endless loop
        return None
    archive.members.clear()  # type: ignore[attr-defined] # otherwise all headers stay in memory
    start = member.offset_data
    if targets is not None and (member.islnk() or member.issym()):
        return member.name, *targets.find(member), archive.offset
    fault = "as a sparse file, which does not lie in one piece" if member.issparse() else ""
    return (
        member.name if member.isreg() else "",
        start,
        start + member.size,
        fault,
        archive.offset,
    )


class _Targets:
    """Resolves links to files in a tar. The files are collected at the first link, since few tars have links."""

    def __init__(self, content: Content, begin: int) -> None:
        self._content, self._begin = content, begin
        self._files: dict[str, list[tuple[int, int, str]]] | None = None

    def find(self, link: tarfile.TarInfo) -> tuple[int, int, str]:
        """Return (start, stop, fault) of the file that a link names."""
        if self._files is None:
            self._files = {}
            for name, start, stop, fault, _ in stored_files(
                self._content, self._begin, links=False
            ):
                if name:
                    self._files.setdefault(posixpath.normpath(name), []).append(
                        (start, stop, fault)
                    )
        # A symbolic link is relative to its folder, a hard link to the top of the archive.
        folder = posixpath.dirname(link.name) if link.issym() else ""
        files = self._files.get(posixpath.normpath(posixpath.join(folder, link.linkname)), [])
        if link.islnk():  # a hard link names a file stored before it, of several the last
            files = [file for file in files if file[0] < link.offset]
        if not files:
            return link.offset, link.offset, f"as a link to {link.linkname}, which is no file in it"
        return files[-1]


def _read_extended(content: Content, offset: int, size: int) -> StoredFile | None:
    """Return the member that follows an extended header, None if only tarfile can parse it.

    Args:
        content: Bytes of the tar.
        offset: Offset of the extended header.
        size: Size of the extended header's content in bytes.
    """
    start = offset + _BLOCK
    if oversized(start, size):
        return None
    end = start + (size + _BLOCK - 1) // _BLOCK * _BLOCK
    records = _records(bytes(content[start:end]), size)
    header = bytes(content[end : end + _BLOCK])
    parts = _match(header)
    if records is None or parts is None or parts[1] == b"x":
        return None
    size, kind = parts
    name = _name(header, kind)
    if name is None:
        return None
    if b"path" in records:
        name = records[b"path"].decode().rstrip("/")
    start = end + _BLOCK
    stop = start + size
    return name, start, stop, "", (stop + _BLOCK - 1) // _BLOCK * _BLOCK


def _match(header: bytes) -> tuple[int, bytes] | None:
    """Return (size, type) in a plain header, None for an unusual or damaged header."""
    found = _HEADER.match(header)
    if found is None:
        return None
    size, checksum, kind = found.groups()
    # Adler-32 holds the sum of up to 256 bytes, and is forty times as fast as a sum of integers.
    total = (adler32(header[:256], 0) & 0xFFFF) + (adler32(header[256:], 0) & 0xFFFF)
    total += 256 - (adler32(header[148:156], 0) & 0xFFFF)
    return (int(size, 8), kind) if total == int(checksum.rstrip(b" \0"), 8) else None


def _name(header: bytes, kind: bytes) -> str | None:
    name = header[:100].partition(b"\0")[0]
    if kind == b"\0" and name.endswith(b"/"):  # a folder, in old archives
        return None
    if header[345]:
        name = header[345:500].partition(b"\0")[0] + b"/" + name
    return name.decode("utf-8", "surrogateescape")


def _records(body: bytes, size: int) -> dict[bytes, bytes] | None:
    """Return the records of an extended header by name, None if only tarfile can handle them.

    Args:
        body: Content of the header, with padding.
        size: Size of the content without padding.
    """
    offset, records = 0, {}
    if len(body) < size:
        return None
    while offset < size:
        found = _RECORD.match(body, offset)
        if found is None or found.end() - offset != int(found[1]):
            return None
        offset, key = found.end(), found[2]
        if key != b"path" and key.decode() not in _HARMLESS:
            return None
        records[key] = found[3]
    if offset > size or body[size:].strip(b"\0"):
        return None
    with suppress(UnicodeDecodeError):
        records.get(b"path", b"").decode()
        return records
    return None


class _Stream(ContentFile):
    """A file object for tarfile over the bytes of a tar, which reads no header of a damaged size."""

    def read(self, size: int | None = -1, /) -> bytes:
        if fault := oversized(self.tell(), size or 0):
            raise TarError(fault)
        return super().read(size)
