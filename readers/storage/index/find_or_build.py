"""Find the index of a shard and check that it fits, or build it, in one process at a time.

An index that is damaged or does not fit its shard is rebuilt. An index stores a stamp of the shard: its inode, mtime and
ctime. An index fits

-   an unchanged file, which is recognised without reading it: size and stamp are equal. ctime cannot be set by programs; the
    stamp also records whether every later change would have changed the ctime;
-   a file of equal size and mtime, but another inode or ctime (it was renamed or got new permissions), if its content is equal;
-   a copy of the shard, if the index was copied, too, the content is equal, and the shard was not changed after the index.

A file of another size is scanned again, and so is a file of another mtime unless the index was copied with it. Contents are
compared by `readers.storage.blob.content_hash.pin_content`: all bytes up to 1 MiB, else 16 pieces of 64 KiB, evenly spread. An
index that fits by its content gets a new stamp if it can be written, so that the next check is fast. An index next to an object
in a store fits if size and content are equal.

One change is not detected: that of a shard of more than 1 MiB which keeps its size and all 16 pieces, and which either keeps
the mtime, too, or was made in a copy of shard and index before the copy was first opened, with an mtime before the index's.
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
"""A scan releases mapped pages after every 64 MB, as they would count as memory of this process."""
_COPIED_BYTES = 1 << 23
"""An index next to an object is downloaded in pieces of 8 MB: few requests, little memory."""
_SETTLED_NS = 100_000_000
"""A ctime is only trusted after this time: clocks of file systems advance in steps of some ms, so a second change shortly after
the first could have an equal ctime."""
_SECOND_NS = 1_000_000_000
"""Some file systems store times in whole seconds, so a ctime with a fraction shows a finer clock."""


class FoundIndex(NamedTuple):
    """An index that fits its shard.

    Attributes:
        path: Path of the index file.
        head: The head of the index, which was read already.
        built: Whether the index was built by this call.
    """

    path: Path
    head: Head
    built: bool = False

    def map(self) -> ShardIndex:
        """Open the tables of the index, and return them.

        Raises:
            DamagedFileError: The file was replaced after its head was read.
            OSError: The file no longer exists.
        """
        return ShardIndex(self.path, self.head)


def open_index(blob: Blob, scan: Scan, *, distrust: bool = False) -> FoundIndex:
    """Return the index of a shard; if no index file fits, scan the shard and write one.

    The file is ``NAME.gpuaug-index`` next to the shard; if that cannot be written, it is in the folder ``$GPU_AUG_CACHE``
    (``~/.cache/gpu-aug`` if not set). If several processes need it, one builds it, and the others wait.

    Args:
        blob: The shard.
        scan: Finds the samples in the shard.
        distrust: Whether to verify all checksums of an existing file before it is used, because one was wrong.

    Raises:
        SourceError: The shard is not of the format of the scan.
        IndexFileError: No writable folder was found for the index file.
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
    """Return the index of a shard if a file with a fitting index exists, locally or next to an object; else None."""
    paths = _paths(blob, scan)
    found = _find(blob, scan, paths, distrust=False)
    if found is not None or not is_url(blob.location):
        return found
    # Errors only cost time, here and in the next two functions: without a file the shard is scanned.
    with suppress(OSError), build_once(paths[0]) as part:
        return _download(blob, scan, part)
    return None


def location_beside(location: str, scan: Scan) -> str:
    """Return the path or URL of the index file next to a shard, given the path or URL of the shard."""
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
    """Download the index next to an object in a store, and return it; None if there is no index, or none that fits.

    Args:
        blob: The shard.
        scan: Finds the samples in the shard.
        part: The local file to write.
    """
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
    """Copy all bytes of a blob into an open, empty file."""
    for start in range(0, blob.size_bytes, _COPIED_BYTES):
        stop = min(start + _COPIED_BYTES, blob.size_bytes)
        (data,) = blob.read([(start, stop)])
        write_all(descriptor, data, start)


def write_index(blob: Blob, scan: Scan, descriptor: int, folder: Path) -> Head:
    """Scan a shard, write its index without a stamp into an open file, and return the head of the index.

    Args:
        blob: The shard.
        scan: Finds the samples in the shard.
        descriptor: Descriptor of the file, which is overwritten.
        folder: Folder for temporary files, which shards with many samples need.

    Raises:
        SourceError: The shard is not of the format of the scan.
        OSError: The file or a temporary file cannot be written, or the shard cannot be read.
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
    """Return the local paths at which the index file may be, best first; for a URL, they depend on the object's version."""
    suffix = f"{scan.tag}{SUFFIX}"
    if is_url(blob.location):
        return [path_in_cache("", f"{blob.location}\0{blob.stamp}", suffix)]
    shard = Path(blob.location)
    return [shard.with_name(f"{shard.name}{suffix}"), path_in_cache("", blob.location, suffix)]
