"""Finding the index of a shard, checking that it fits, and building it in one process.

An index that is damaged or does not fit its shard is rebuilt. It holds a stamp of the shard: inode and both times. It fits

-   the same file, without reading it, if size and stamp are equal (no program can set ctime) and a later change would have
    given the shard another ctime;
-   a file of equal size and mtime with another inode or ctime, such as one with a new name or new permissions, if its content
    is equal;
-   a copy of the shard, if the index is a copy as well, the content is equal, and the shard was not changed after the index.

A file of another size is scanned again, and so is a file of another mtime unless the index was copied with it. Contents are
compared by `readers.storage.blob.content_hash.pin_content`: all bytes up to 1 MiB, else 16 pieces of 64 KiB, evenly spread. An
index that fits by its content gets a new stamp if it can be written, so that the next check is fast. An index next to an object
fits if size and content are equal.

Not detected is a change of a shard of more than 1 MiB that keeps its size and all 16 pieces, and that either keeps the mtime
as well, or was made in a copy of shard and index before the copy was first opened, with an mtime before that of the index.
"""

import logging
import mmap
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from readers.sample import ReadersError, SourceError
from readers.storage.atomic_file import (
    ForeignError,
    PartFile,
    build_once,
    find_or_build,
    foreign_errors,
)
from readers.storage.blob import Blob, LocalBlob, is_url, open_blob
from readers.storage.blob.content_hash import pin_content
from readers.storage.blob.mmap_pages import address_of, advise
from readers.storage.cache_folder import path_in_cache
from readers.storage.index.index_file import (
    Entry,
    Head,
    Remark,
    Stamp,
    read_head,
    write_stamp,
)
from readers.storage.index.scan import Scan
from readers.storage.index.shard_index import ShardIndex
from readers.storage.index.writer import IndexWriter
from readers.storage.paths import shown_path, with_path
from readers.storage.side_file import write_all

_log = logging.getLogger(f"gpu_aug.{__name__}")

SUFFIX = ".gpuaug-index"
"""End of the names of index files."""
_FORGET_BYTES = 1 << 26
"""A scan releases the mapped pages each 64 MB, which would count as memory of this process otherwise."""
_COPIED_BYTES = 1 << 23
"""8 MB of an index next to an object are copied at a time: few requests, little memory."""
_SETTLED_NS = 100_000_000
"""Clocks of file systems advance in steps of some ms: two changes within one step have the same time."""
_SECOND_NS = 1_000_000_000
"""Some file systems store whole seconds only."""


class FoundIndex(NamedTuple):
    """An index that fits its shard.

    Attributes:
        path: The file.
        head: Its head.
        built: Whether it was built by this call.
    """

    path: Path
    head: Head
    built: bool = False

    def map(self) -> ShardIndex:
        """Open its tables.

        Raises:
            DamagedFileError: The file was replaced.
            OSError: The file no longer exists.
        """
        return ShardIndex(self.path, self.head)


def open_index(blob: Blob, scan: Scan, *, distrust: bool = False) -> FoundIndex:
    """Return the index of a shard, from its file if that fits, else by a scan.

    The file is ``NAME.gpuaug-index`` next to the shard or, if that cannot be written, in the folder ``$GPU_AUG_CACHE``
    (``~/.cache/gpu-aug`` when not set). Of several processes one builds it, and the others wait.

    Args:
        blob: The shard.
        scan: Finds its samples.
        distrust: Verify all checksums of a file before it is used, since one was wrong.

    Raises:
        SourceError: The shard is not of the format of the scan.
        IndexFileError: Neither path can be written.
        OSError: The shard cannot be read.
    """
    paths = _paths(blob, scan)
    return find_or_build(
        paths,
        lambda: _find(blob, scan, paths, distrust=distrust),
        lambda part: _download(blob, scan, part) or _build(blob, scan, part),
        f"the index of {blob.location}",
    )


def find_index(blob: Blob, scan: Scan) -> FoundIndex | None:
    """Return the index of a shard from a file that fits, on this machine or next to an object; None without one."""
    paths = _paths(blob, scan)
    found = _find(blob, scan, paths, distrust=False)
    if found is not None or not is_url(blob.location):
        return found
    # Errors only cost time, here and in the next two functions: without a file the shard is scanned.
    with suppress(OSError), build_once(paths[0]) as part:
        return _download(blob, scan, part)
    return None


def location_beside(location: str, scan: Scan) -> str:
    """Return the location of the index next to an object."""
    return with_path(location, lambda path: f"{path}{scan.tag}{SUFFIX}")


def _find(blob: Blob, scan: Scan, paths: list[Path], *, distrust: bool) -> FoundIndex | None:
    for path in paths:
        with suppress(OSError, ValueError, KeyError, TypeError):  # see find_index
            head, stamp = read_head(path)
            found = FoundIndex(path, head)
            if not _fits(found, stamp, blob, scan):
                continue
            if distrust:
                found.map().verify()
            return found
    return None


def _fits(found: FoundIndex, stamp: Stamp | None, blob: Blob, scan: Scan) -> bool:
    if not _is_index_of(found.head, blob, scan):
        return False
    if not isinstance(blob, LocalBlob):
        return True  # the index of an object is named after its stamp
    state = blob.state
    if stamp:
        if stamp.mtime_ns != state.mtime_ns:
            return False
        if stamp.settled and (stamp.inode, stamp.ctime_ns) == (state.inode, state.ctime_ns):
            return True
    elif state.mtime_ns > found.path.stat().st_mtime_ns:
        return False
    if found.head.identity["content"] != _pin(blob):
        return False
    _renew_stamp(found, blob)
    return True


def _is_index_of(head: Head, blob: Blob, scan: Scan) -> bool:
    identity = head.identity
    return bool(identity["scan"] == scan.identity and identity["size_bytes"] == blob.size_bytes)


def _pin(blob: Blob) -> str:
    # An own mapping, which is released at once.
    return pin_content(blob.unmapped() if isinstance(blob, LocalBlob) else blob)


def _renew_stamp(found: FoundIndex, blob: LocalBlob) -> None:
    with suppress(OSError, ValueError):  # the content is then compared again the next time
        descriptor = os.open(found.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if Head.mark_of(os.pread(descriptor, found.head.start, 0)) == found.head.mark:
                status = os.fstat(descriptor)
                write_stamp(descriptor, _stamp_of(blob))
                # The index is as old as before: see `_fits`.
                os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(descriptor)


def _stamp_of(blob: LocalBlob) -> Stamp:
    """Return the stamp of a shard whose content was just read."""
    _, mtime_ns, ctime_ns, inode = blob.state
    # Read-only images and some network file systems set times by rules of their own.
    is_fine = ctime_ns % _SECOND_NS != 0
    is_old = time.time_ns() - ctime_ns > _SETTLED_NS
    is_same = LocalBlob(blob.location).state == blob.state
    return Stamp(inode, mtime_ns, ctime_ns, 0, is_fine and is_old and is_same)


def _download(blob: Blob, scan: Scan, part: PartFile) -> FoundIndex | None:
    """Download the index next to an object, if there is one that fits."""
    if not is_url(blob.location):
        return None
    try:
        other = open_blob(location_beside(blob.location, scan))
        _copy(other, part.file.fileno())
        head, _ = read_head(part.part)
        if not _is_index_of(head, blob, scan) or head.identity["content"] != _pin(blob):
            return None
        FoundIndex(part.part, head).map().verify()
    except (ReadersError, OSError, ValueError, KeyError, TypeError):
        return None
    part.publish(mode=0o644, to_disk=True)
    return FoundIndex(part.path, head)


def _copy(blob: Blob, descriptor: int) -> None:
    """Write a blob into an open file that is empty."""
    for start in range(0, blob.size_bytes, _COPIED_BYTES):
        stop = min(start + _COPIED_BYTES, blob.size_bytes)
        (data,) = blob.read([(start, stop)])
        write_all(descriptor, data, start)


def write_index(blob: Blob, scan: Scan, descriptor: int, folder: Path) -> Head:
    """Scan a shard and write its index into an open file, without a stamp.

    Args:
        blob: The shard.
        scan: Finds its samples.
        descriptor: Descriptor of the file, which is overwritten.
        folder: Folder for temporary files, which long shards need.

    Raises:
        SourceError: The shard is not of the format of the scan.
        OSError: The file or a temporary one cannot be written, or the shard cannot be read.
    """
    try:
        return _write(blob, scan, descriptor, folder)
    except ForeignError as foreign:
        raise foreign.error from None


def _write(blob: Blob, scan: Scan, descriptor: int, folder: Path) -> Head:
    writer = IndexWriter(folder)
    try:
        for entry in _scan_entries(blob, scan):
            writer.add(entry)
        with foreign_errors():
            content = _pin(blob)
        identity = {"scan": scan.identity, "size_bytes": blob.size_bytes, "content": content}
        return writer.write(descriptor, identity)
    finally:
        writer.close()


def _build(blob: Blob, scan: Scan, part: PartFile) -> FoundIndex:
    began = time.perf_counter()
    head = _write(blob, scan, part.file.fileno(), part.path.parent)
    mode = 0o644
    if isinstance(blob, LocalBlob):
        write_stamp(part.file.fileno(), _stamp_of(blob))
        mode = blob.mode | 0o200  # so that its stamp can be renewed
    part.publish(mode=mode, to_disk=True)
    seconds = time.perf_counter() - began
    name, holds = shown_path(blob.location), f"{len(head):,} samples"
    _log.info("indexed %s: %s, in %.2f s, kept in %s", name, holds, seconds, part.path)
    return FoundIndex(part.path, head, built=True)


def _scan_entries(blob: Blob, scan: Scan) -> Iterator[Entry | Remark]:
    forgotten = 0
    try:
        content = blob.content()
        for entry in scan.find(content, blob.name):
            yield entry
            if isinstance(entry, Remark):
                continue
            offset = entry[1][-1][2] if entry[1] else 0
            if offset >= forgotten + _FORGET_BYTES and isinstance(content, memoryview):
                start = address_of(content)
                advise((start, start + len(content)), mmap.MADV_DONTNEED)
                forgotten = offset
    except OSError as error:
        raise ForeignError(error) from error
    except SourceError as error:
        # A scan knows only the name, and the user needs the path.
        text = str(error)
        raise SourceError(
            f"{blob.location}{text[len(blob.name) :]}" if text.startswith(blob.name) else text
        ) from None


def _paths(blob: Blob, scan: Scan) -> list[Path]:
    """Return the paths where the index may lie, best first. That of an object belongs to one version of it."""
    suffix = f"{scan.tag}{SUFFIX}"
    if is_url(blob.location):
        return [path_in_cache("", f"{blob.location}\0{blob.stamp}", suffix)]
    shard = Path(blob.location)
    return [shard.with_name(f"{shard.name}{suffix}"), path_in_cache("", blob.location, suffix)]
