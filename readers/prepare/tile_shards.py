"""Rewriting a tar shard with every JPEG tiled, member by member."""

import os
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO, NamedTuple

from readers.prepare.jpegs import JpegCounts, TileJpeg, is_jpeg
from readers.prepare.tile_copy import Copy, UnreadableError
from readers.prepare.tile_files import Done, copy_unchanged
from readers.prepare.workers import Threads
from readers.sample import Payload

_BLOCK_BYTES = tarfile.BLOCKSIZE


def copy_shard(
    copy: Copy,
    threads: Threads,
    tile_jpeg: TileJpeg,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> tuple[Done, JpegCounts]:
    """Copy a shard with tiled JPEGs and index the copy; one that cannot be parsed is copied unchanged.

    Args:
        copy: From where, and where to.
        threads: Tile several JPEGs at a time.
        tile_jpeg: See `readers.prepare.tile`.
        on_bytes: Called with the bytes of the shard that are done.

    Raises:
        OSError, PrepareError: The copy cannot be written.
    """
    counts = JpegCounts()

    def on_member(reason: str | None, done_bytes: int) -> None:
        if reason is not None:
            counts.count(reason)
        on_bytes(done_bytes)

    try:
        done = _copied(copy, threads, tile_jpeg, on_member)
    except DamagedShardError as error:
        done = copy_unchanged(copy)
        counts = JpegCounts(left=Counter([f"a shard that {error}, copied whole"]))
    except UnreadableError as error:
        done = Done(copy.shown, "lost", str(error))
    copy.add_index()
    return done, counts


def _copied(
    copy: Copy,
    threads: Threads,
    tile_jpeg: TileJpeg,
    on_member: Callable[[str | None, int], None],
) -> Done:
    if kept := copy.find_kept():
        return Done(copy.shown, "kept", "", *kept)
    with copy.open() as file, copy.create(is_shard=True) as target:
        tile_shard(file, target, threads, tile_jpeg, on_member)
        return Done(copy.shown, "copied", "", file.seek(0, os.SEEK_END), target.tell())


class DamagedShardError(Exception):
    """A shard that cannot be taken apart without a loss; the text is a short reason."""


class _Member(NamedTuple):
    """A stored file, folder or link.

    Attributes:
        info: Its name, size and so on.
        data: Content; empty when it has none.
        reason: None for what is no JPEG, else why it was not tiled; "" when it was.
    """

    info: tarfile.TarInfo
    data: Payload
    reason: str | None = None


def tile_shard(
    source: BinaryIO,
    target: BinaryIO,
    workers: Threads,
    tile: TileJpeg,
    on_member: Callable[[str | None, int], None],
) -> None:
    """Write a shard that differs from the source in nothing but its tiled JPEGs.

    Args:
        source: A tar that is not compressed, at its beginning.
        target: Where the new one goes, likewise.
        workers: Tile several JPEGs at a time.
        tile: Puts restart markers into a JPEG.
        on_member: Called with the reason why a JPEG was left as it was ("" when it was tiled, None
            for anything else) and the bytes of the source that are done.

    Raises:
        DamagedShardError: The source is no tar, is cut off, or is built in a way that is not kept.
    """
    for member in workers.map(partial(_tiled, tile=tile), _members(source)):
        done = member.info.offset_data + member.info.size
        target.write(_header(member))
        target.write(member.data)
        target.write(bytes(-len(member.data) % _BLOCK_BYTES))
        on_member(member.reason, done)
    target.write(bytes(2 * _BLOCK_BYTES))
    target.write(bytes(-target.tell() % tarfile.RECORDSIZE))


def _members(source: BinaryIO) -> Iterator[_Member]:
    try:
        archive = tarfile.TarFile(fileobj=source, encoding="utf-8", errors="surrogateescape")
        end = 0
        while (info := archive.next()) is not None:
            end = archive.offset
            archive.members.clear()  # type: ignore[attr-defined] # else all headers pile up
            if info.issparse() or info.size < 0:
                raise DamagedShardError("stores a file in a way that is not kept")
            yield _Member(info, _content(source, info))
    except (tarfile.TarError, ValueError):
        raise DamagedShardError("is damaged or no tar") from None
    # A header that cannot be read ends tarfile's walk like the zeros at the end of an archive do.
    source.seek(end)
    while rest := source.read(1 << 20):
        if rest.strip(b"\0"):
            raise DamagedShardError("is damaged, or holds something behind its end")


def _content(source: BinaryIO, info: tarfile.TarInfo) -> bytes:
    if not info.isreg():
        return b""
    source.seek(info.offset_data)
    data = source.read(info.size)
    if len(data) < info.size:
        raise DamagedShardError("is cut off")
    return data


def _tiled(member: _Member, tile: TileJpeg) -> _Member:
    if not is_jpeg(member.data):
        return member
    data, reason = tile(member.data)
    return _Member(member.info, data, reason)


def _header(member: _Member) -> bytes:
    info = member.info
    if info.isreg():
        info.size = len(member.data)
    if not info.pax_headers:
        return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    info.pax_headers = {key: text for key, text in info.pax_headers.items() if key != "size"}
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
