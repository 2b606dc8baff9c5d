"""A copy of one file: a tiled JPEG, or the same bytes."""

from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Literal, NamedTuple

from readers.prepare.atomic_files import atomic_file
from readers.prepare.jpegs import TileJpeg, is_jpeg
from readers.prepare.tree import Copy

_HEAD_BYTES = 3
_PIECE_BYTES = 1 << 20


class Done(NamedTuple):
    """The outcome of one file.

    Attributes:
        source: The file.
        outcome: "kept" is what an earlier run has finished; "lost" could not be read.
        reason: Why it is lost, or why a JPEG was not tiled; "" when it was.
        before_bytes: Size of the file.
        after_bytes: Size of its copy.
    """

    source: Path
    outcome: Literal["jpeg", "copied", "kept", "lost"]
    reason: str = ""
    before_bytes: int = 0
    after_bytes: int = 0


class UnreadableError(Exception):
    """A source that cannot be read; the text is a reason of a few words."""


def copy_file(copy: Copy, tile: TileJpeg) -> Done:
    """Copy a file, tiled where it is a JPEG.

    Raises:
        OSError: The copy cannot be written.
    """
    try:
        if (kept := find_kept(copy)) is not None:
            return kept
        with open_source(copy.source) as file:
            head = _read(file, _HEAD_BYTES)
            if is_jpeg(head):
                return _tile(copy, head + _read(file, -1), tile)
            return _copy_whole(copy, file)
    except UnreadableError as error:
        return Done(copy.source, "lost", str(error))


def copy_unchanged(copy: Copy) -> Done:
    """Copy a file byte for byte; see `copy_file`."""
    try:
        with open_source(copy.source) as file:
            return _copy_whole(copy, file)
    except UnreadableError as error:
        return Done(copy.source, "lost", str(error))


def find_kept(copy: Copy) -> Done | None:
    """Say that an earlier run has finished a copy: it has the time of last change of its source.

    Raises:
        UnreadableError: There is no such source, or it is no regular file.
    """
    try:
        before = copy.source.stat()
    except OSError as error:
        raise UnreadableError(f"it cannot be read ({error.strerror})") from None
    if not S_ISREG(before.st_mode):
        raise UnreadableError("it is not a regular file")
    try:
        after = copy.target.stat()
    except OSError:
        return None
    if after.st_mtime_ns != before.st_mtime_ns or (before.st_size and not after.st_size):
        return None
    return Done(copy.source, "kept", "", before.st_size, after.st_size)


def open_source(path: Path) -> BinaryIO:
    """Open a file to read it.

    Raises:
        UnreadableError: It cannot be opened.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise UnreadableError(f"it cannot be read ({error.strerror})") from None


def _tile(copy: Copy, data: bytes, tile: TileJpeg) -> Done:
    tiled, reason = tile(data)
    with atomic_file(copy.target, like=copy.source.stat()) as target:
        target.write(tiled)
    return Done(copy.source, "jpeg", reason, len(data), len(tiled))


def _copy_whole(copy: Copy, file: BinaryIO) -> Done:
    file.seek(0)
    with atomic_file(copy.target, like=copy.source.stat()) as target:
        for piece in _pieces(file):
            target.write(piece)
    size = file.tell()
    return Done(copy.source, "copied", "", size, size)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := _read(file, _PIECE_BYTES):
        yield piece


def _read(file: BinaryIO, size: int) -> bytes:
    try:
        return file.read(size)
    except OSError as error:
        raise UnreadableError(f"it cannot be read ({error.strerror})") from None
