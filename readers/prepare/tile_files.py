"""A copy of one file: a tiled JPEG, or the same bytes."""

from collections.abc import Iterator
from typing import BinaryIO, Literal, NamedTuple

from readers.prepare.jpegs import TileJpeg, is_jpeg
from readers.prepare.tile_copy import Copy, UnreadableError

_HEAD_BYTES = 3
_PIECE_BYTES = 1 << 20


class Done(NamedTuple):
    """The outcome of one file.

    Attributes:
        source: Path or URL of the file.
        outcome: "kept" is what an earlier run has finished; "lost" could not be read.
        reason: Why it is lost, or why a JPEG was not tiled; "" when it was.
        before_bytes: Size of the file.
        after_bytes: Size of its copy.
    """

    source: str
    outcome: Literal["jpeg", "copied", "kept", "lost"]
    reason: str = ""
    before_bytes: int = 0
    after_bytes: int = 0


def copy_file(copy: Copy, tile: TileJpeg) -> Done:
    """Copy a file, tiled where it is a JPEG.

    Raises:
        OSError, PrepareError: The copy cannot be written.
    """
    try:
        if kept := copy.find_kept():
            return Done(copy.shown, "kept", "", *kept)
        with copy.open() as file:
            head = _read(file, _HEAD_BYTES)
            if is_jpeg(head):
                return _tile(copy, head + _read(file, -1), tile)
            return _copy_whole(copy, file)
    except UnreadableError as error:
        return Done(copy.shown, "lost", str(error))


def copy_unchanged(copy: Copy) -> Done:
    """Copy a shard byte for byte; see `copy_file`."""
    try:
        with copy.open() as file:
            return _copy_whole(copy, file, is_shard=True)
    except UnreadableError as error:
        return Done(copy.shown, "lost", str(error))


def _tile(copy: Copy, data: bytes, tile: TileJpeg) -> Done:
    tiled, reason = tile(data)
    with copy.create() as target:
        target.write(tiled)
    return Done(copy.shown, "jpeg", reason, len(data), len(tiled))


def _copy_whole(copy: Copy, file: BinaryIO, *, is_shard: bool = False) -> Done:
    file.seek(0)
    with copy.create(is_shard=is_shard) as target:
        for piece in _pieces(file):
            target.write(piece)
    size = file.tell()
    return Done(copy.shown, "copied", "", size, size)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := _read(file, _PIECE_BYTES):
        yield piece


def _read(file: BinaryIO, size: int) -> bytes:
    try:
        return file.read(size)
    except OSError as error:
        raise UnreadableError(f"it cannot be read ({error.strerror})") from None
