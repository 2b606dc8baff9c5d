"""Tar shards in the convention of WebDataset, read at random through memory maps."""

import errno
import hashlib
import mmap
import re
import resource
import sys
import tarfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate, groupby
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from readers.header import read_header
from readers.index import Entry, open_index
from readers.restarts import restart_offsets
from readers.sample import (
    BadSample,
    HeaderError,
    PathLike,
    Sample,
    SourceError,
    checked_indices,
    is_image_field,
)

# Up to the first dot of the base name, and behind it. Names that begin with a dot have no key.
_KEY_AND_FIELD = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)
_META = re.compile(r"__[^/]*__(/|$)")  # WebDataset keeps such names to itself
_LABEL = re.compile(rb"\s*([0-9]{1,18})\s*")
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, zstd
_BLOCK_BYTES = 512


class TarDataset:
    """Samples in tar shards.

    The files of a sample follow one another in the shard and share their name up to the first
    dot of the base name; the rest, in lower case, is the field: ``n01/10026.jpg`` and
    ``n01/10026.cls`` are the fields jpg and cls of the key ``n01/10026``. The label is the
    integer in the field cls, -1 where there is none.

    Shards are scanned once (see `readers.index`) and then mapped: fields are memoryviews into
    the shard, and keep it mapped as long as they live. A shard must not be shortened in place
    while it is in use, since the operating system kills processes that read behind the end of a
    mapped file; a shard that was replaced gives BadSamples.

    In a shard that is cut off or damaged the samples before that place can be read, and one
    BadSample stands for the loss. Nothing but the shard itself is touched: links and devices in
    it are passed over.

    Args:
        shards: Paths of .tar files, not compressed. The samples follow this order.

    Raises:
        SourceError: A shard is missing, not a tar file, compressed, or holds no samples.
        IndexFileError: An index can be kept nowhere.
    """

    def __init__(self, shards: Sequence[PathLike]) -> None:
        self._paths = [Path(shard).absolute() for shard in shards]
        missing = [path for path in self._paths if not path.is_file()]
        if missing:
            raise SourceError(
                f"{missing[0]} is not a file ({len(missing)} of {len(self._paths)} shards are "
                "missing): correct the pattern or the list"
            )
        self._indexes = [open_index(path, _scan) for path in self._paths]
        self._starts = list(accumulate(map(len, self._indexes), initial=0))
        self._names = [path.name for path in self._paths]
        paths, indexes = self._paths, self._indexes  # not self, whose maps should go when it goes
        self._view = lru_cache(maxsize=_max_mapped_shards())(
            lambda shard: _map_indexed(paths[shard], indexes[shard].stamp)
        )

    def __reduce__(self) -> tuple[type[Self], tuple[list[Path]]]:
        """Another process opens the shards itself."""
        return type(self), (self._paths,)

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def class_names(self) -> tuple[str, ...]:
        """Empty: shards number their classes without naming them."""
        return ()

    @property
    def fingerprint(self) -> str:
        """32 hex digits over shard names, keys, field sizes and labels."""
        digest = hashlib.sha256()
        for name, index in zip(self._names, self._indexes, strict=True):
            digest.update(f"{name!r} {index.digest}\n".encode())
        return digest.hexdigest()[:32]

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return views into the shards; see `Dataset.fetch`."""
        return [self._fetch_one(index) for index in checked_indices(indices, len(self))]

    def _fetch_one(self, index: int) -> Sample | BadSample:
        shard = bisect_right(self._starts, index) - 1
        entry = self._indexes[shard].entry(index - self._starts[shard])
        key, members, label, size, fault, restarts = entry
        key = f"{self._names[shard]}/{key}"
        if fault:
            return BadSample(index, key, "read", fault)
        try:
            view = self._view(shard)
        except OSError as error:
            return BadSample(index, key, "read", f"the shard cannot be read: {error.strerror}")
        fields = {name: view[start:stop] for name, start, stop in members}
        return Sample(index, key, fields, label, size, restarts)


def _map_indexed(path: Path, stamp: tuple[int, int]) -> memoryview:
    status = path.stat()
    if (status.st_size, status.st_mtime_ns) != stamp:
        raise OSError(errno.ESTALE, "it has changed since it was indexed, open it anew")
    return memoryview(_map(path))


def _max_mapped_shards() -> int:
    """Return how many shards may stay mapped at once."""
    if sys.version_info >= (3, 13):
        return 16_384  # of the 65,530 maps that Linux grants a process
    # Before 3.13 each map holds a file descriptor: leave the other half to the program.
    num_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 16_384 if num_files == resource.RLIM_INFINITY else min(num_files // 2, 16_384)


def _map(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        if sys.version_info >= (3, 13):
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, trackfd=False)
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class _File(NamedTuple):
    """One stored file that belongs to a sample."""

    key: str
    field: str
    start: int
    stop: int
    fault: str = ""


def _scan(shard: Path) -> list[Entry]:
    """Return the samples of a shard, in stored order."""
    if shard.stat().st_size == 0:
        raise SourceError(f"{shard} is empty (0 bytes): write the shard again")
    mapped = _map(shard)
    files = _stored_files(mapped, shard)
    with memoryview(mapped) as view:
        entries = [_entry(key, list(group), view) for key, group in groupby(files, lambda f: f.key)]
    if not entries:
        raise SourceError(f"{shard} holds no samples: leave it out, or name files KEY.EXTENSION")
    return entries


def _stored_files(mapped: mmap.mmap, shard: Path) -> Iterator[_File]:
    try:
        archive = tarfile.TarFile(fileobj=mapped, encoding="utf-8", errors="surrogateescape")
    except tarfile.TarError as error:
        if mapped[:6].startswith(_COMPRESSED):
            raise SourceError(f"{shard} is compressed: decompress it, to read at random") from None
        raise SourceError(f"{shard} is not a tar file ({error}): correct the path") from None
    place = 0
    with suppress(tarfile.TarError, ValueError):  # where it stopped is judged below
        while (member := archive.next()) is not None:
            if member.size < 0:  # would lead back to a header that was read, and so for ever
                break
            place = archive.offset
            archive.members.clear()  # type: ignore[attr-defined] # else all headers pile up
            name = _KEY_AND_FIELD.fullmatch(member.name)
            if name is None or not member.isreg() or _META.match(member.name):
                continue
            start, stop = member.offset_data, member.offset_data + member.size
            fault = ""
            if stop > len(mapped):
                fault = f"{shard.name} is cut off at byte {len(mapped)}, within {member.name}"
            elif member.issparse():
                fault = (
                    f"{shard.name} stores {member.name} as a sparse file, which has no one place"
                )
            yield _File(name[1], name[2].lower(), start, stop, fault)
    # A header that cannot be read ends tarfile's walk like the zeros at the end of an archive do.
    if mapped[place : place + _BLOCK_BYTES].strip(b"\0"):
        fault = f"{shard.name} is damaged at byte {place}: what lies behind it cannot be found"
        yield _File(f"(byte {place})", "", place, place, fault)


def _entry(key: str, files: list[_File], view: memoryview) -> Entry:
    fields = {file.field: view[file.start : file.stop] for file in files}
    faults = [file.fault for file in files if file.fault]
    if not faults and len(fields) < len(files):
        faults = [f"one of the fields {', '.join(fields)} is stored twice"]
    if faults:
        return Entry(key, (), fault=faults[0])
    size = restarts = None
    image = next((data for name, data in fields.items() if is_image_field(name)), None)
    if image is not None:
        with suppress(HeaderError):  # the sample itself is whole; whoever needs its size will see
            header = read_header(image)
            size = (header.height, header.width)
        restarts = restart_offsets(image)
    label = _LABEL.fullmatch(fields.get("cls", b"")[:32])
    members = tuple((file.field, file.start, file.stop) for file in files)
    return Entry(key, members, int(label[1]) if label else -1, size, restarts=restarts)
