"""The side-car index of a shard: where it lies, whether it fits, and that one process builds it.

It is rebuilt when it does not fit the shard or is damaged. It fits a shard of the same size and stamp; and
one of another stamp, such as a copy, when its first and last 64 kB are the same and it was not changed
after the index was written. An index that lies beside an object is taken when the same 64 kB fit.
"""

import dataclasses
import hashlib
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from readers.blob import Blob, LocalBlob, is_url, open_blob
from readers.blob.pages import address_of, advise
from readers.index.format import (
    Entry,
    Head,
    Scan,
    ShardIndex,
    read_head,
)
from readers.index.writer import IndexWriter, WriteError, write_all
from readers.lock import one_at_a_time
from readers.sample import IndexFileError, ReadersError, SourceError

SUFFIX = ".gpuaug-index"
_FORGET_BYTES = 1 << 26
_COPIED_BYTES = 1 << 23
_SAMPLED_BYTES = 1 << 16


class FoundIndex(NamedTuple):
    """An index that fits its shard.

    Attributes:
        place: The file.
        head: What stands before its tables.
        built: Whether it was made just now.
    """

    place: Path
    head: Head
    built: bool = False

    def map(self) -> ShardIndex:
        """Open its tables.

        Raises:
            DamagedIndexError: The file is not the one that was found.
            OSError: It is gone.
        """
        return ShardIndex(self.place, self.head)


def open_index(blob: Blob, scan: Scan, *, distrust: bool = False) -> FoundIndex:
    """Return the index of a shard, from its file where that fits, else by a scan.

    The file is ``NAME.gpuaug-index`` beside the shard or, where that cannot be written, lies in the
    folder ``$GPU_AUG_CACHE`` (``~/.cache/gpu-aug`` when not set). It appears in one step. Of several
    processes that want it one builds it, and the others wait.

    Args:
        blob: The shard.
        scan: Finds its samples.
        distrust: Check all of a file before it is taken, since it was seen to be damaged.

    Raises:
        SourceError: The shard is not of the format that is looked for.
        IndexFileError: Neither place can be written.
        OSError: The shard cannot be read.
    """
    made_by = _describe(scan)
    places = _places(blob, scan)
    found = _find(blob, made_by, places, distrust=distrust)
    if found is not None:
        return found
    for place in places:
        try:
            with one_at_a_time(_part(place)) as descriptor:
                # Another process may have built it while this one waited.
                found = _find(blob, made_by, places, distrust=distrust)
                return (
                    found
                    or _download(blob, made_by, place, descriptor, f"{_tag(scan)}{SUFFIX}")
                    or _build(blob, scan, made_by, place, descriptor)
                )
        except _ReadError as error:
            raise error.reason from None
        except (OSError, WriteError):
            continue
    raise IndexFileError(
        f"the index of {blob.location} can be written neither beside it nor to {places[-1].parent}: "
        "set GPU_AUG_CACHE to a folder that can be written"
    )


def find_index(blob: Blob, scan: Scan) -> FoundIndex | None:
    """Return the index of a shard where there is a file that fits, and None else."""
    return _find(blob, _describe(scan), _places(blob, scan), distrust=False)


class _ReadError(Exception):
    """The shard cannot be read: no reason to try another place for the index."""

    def __init__(self, reason: OSError) -> None:
        self.reason = reason


def _find(blob: Blob, made_by: str, places: list[Path], *, distrust: bool) -> FoundIndex | None:
    for place in places:
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = FoundIndex(place, read_head(place))
            if not _fits(found, blob, made_by):
                continue
            if distrust:
                found.map().verify()
            return found
    return None


def _fits(found: FoundIndex, blob: Blob, made_by: str) -> bool:
    identity = found.head.identity
    if identity["scan"] != made_by or identity["size_bytes"] != blob.size_bytes:
        return False
    if is_url(blob.location) or identity["stamp"] == blob.stamp:
        return True  # the index of an object is named after its stamp
    if _is_newer(Path(blob.location), found.place):
        return False
    return bool(identity["sampled"] == _sampled(blob))


def _is_newer(shard: Path, index: Path) -> bool:
    return shard.stat().st_mtime_ns > index.stat().st_mtime_ns


def _sampled(blob: Blob) -> str:
    """A checksum of the first and the last bytes, the same wherever the shard lies."""
    size_bytes = blob.size_bytes
    ends = [(0, min(size_bytes, _SAMPLED_BYTES)), (max(0, size_bytes - _SAMPLED_BYTES), size_bytes)]
    digest = hashlib.blake2b(digest_size=16)
    if isinstance(blob, LocalBlob):
        blob = blob.unmapped()  # so that its map goes with it
    for data in blob.read(ends):
        digest.update(data)
    return digest.hexdigest()


def _download(
    blob: Blob, made_by: str, place: Path, descriptor: int, suffix: str
) -> FoundIndex | None:
    """Take the index that lies beside an object, if there is one that fits."""
    if not is_url(blob.location):
        return None
    try:
        other = open_blob(_beside(blob.location, suffix))
        _copy(other, descriptor)
        found = FoundIndex(_part(place), read_head(_part(place)))
        if not _fits(found, blob, made_by) or found.head.identity["sampled"] != _sampled(blob):
            return None
        found.map().verify()
    except (ReadersError, OSError, ValueError, KeyError, TypeError):
        return None
    _publish(descriptor, place, 0o644)
    return FoundIndex(place, found.head)


def _copy(blob: Blob, descriptor: int) -> None:
    """Write a blob into an open file, over whatever it holds."""
    os.ftruncate(descriptor, 0)
    for start in range(0, blob.size_bytes, _COPIED_BYTES):
        stop = min(start + _COPIED_BYTES, blob.size_bytes)
        (data,) = blob.read([(start, stop)])
        write_all(descriptor, data, start)


def _beside(location: str, suffix: str) -> str:
    # A URL may remember how to reach its store: see `readers.remote.Url`.
    options = getattr(location, "options", None)
    return type(location)(f"{location}{suffix}", *([options] if options else []))


def _build(blob: Blob, scan: Scan, made_by: str, place: Path, descriptor: int) -> FoundIndex:
    writer = IndexWriter(place.parent)
    try:
        for entry in _scanned(blob, scan):
            writer.add(entry)
        identity = {
            "scan": made_by,
            "size_bytes": blob.size_bytes,
            "stamp": blob.stamp,
            "sampled": _read(_sampled, blob),
        }
        head = writer.write(descriptor, identity)
        _publish(descriptor, place, blob.mode if isinstance(blob, LocalBlob) else 0o644)
    finally:
        writer.close()
    return FoundIndex(place, head, built=True)


def _publish(descriptor: int, place: Path, mode: int) -> None:
    os.fchmod(descriptor, mode)
    os.fsync(descriptor)  # else a power cut may leave the new name on old blocks
    _part(place).replace(place)


def _part(place: Path) -> Path:
    """Where an index is written, and whose lock says who does."""
    return place.with_name(f"{place.name}.part")


def _read(work: Callable[[Blob], str], blob: Blob) -> str:
    try:
        return work(blob)
    except OSError as error:
        raise _ReadError(error) from error


def _scanned(blob: Blob, scan: Scan) -> Iterator[Entry]:
    forgotten = 0
    try:
        content = blob.content()
        for entry in scan(content, blob.name):
            yield entry
            place = entry[1][-1][2] if entry[1] else 0
            if place >= forgotten + _FORGET_BYTES and isinstance(content, memoryview):
                # Else all of the shard would count as memory of this process.
                start = address_of(content)
                advise((start, start + len(content)), mmap.MADV_DONTNEED)
                forgotten = place
    except OSError as error:
        raise _ReadError(error) from error
    except SourceError as error:
        # A scan knows the name alone.
        text = str(error)
        raise SourceError(
            blob.location + text[len(blob.name) :] if text.startswith(blob.name) else text
        ) from None


def _places(blob: Blob, scan: Scan) -> list[Path]:
    """Where the index may lie, best first. That of an object belongs to one content of it."""
    suffix = f"{_tag(scan)}{SUFFIX}"
    if is_url(blob.location):
        return [_cached(f"{blob.location}\0{blob.stamp}", suffix)]
    shard = Path(blob.location)
    return [shard.with_name(f"{shard.name}{suffix}"), _cached(blob.location, suffix)]


def _cached(name: str, suffix: str) -> Path:
    folder = os.environ.get("GPU_AUG_CACHE") or Path.home() / ".cache" / "gpu-aug"
    return Path(folder, f"{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}{suffix}")


def _describe(scan: Any) -> str:
    if dataclasses.is_dataclass(scan):
        return f"{type(scan).__module__}.{scan!r}"
    kind = scan if hasattr(scan, "__qualname__") else type(scan)
    return f"{kind.__module__}.{kind.__qualname__}"


def _tag(scan: Any) -> str:
    """Tells the indexes apart that scans with other options than the usual ones make."""
    if not dataclasses.is_dataclass(scan):
        return ""
    made: Any = type(scan)
    with suppress(TypeError):  # options without a default are not the usual ones
        if scan == made():
            return ""
    return f".{hashlib.sha256(_describe(scan).encode()).hexdigest()[:8]}"
