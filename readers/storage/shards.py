"""Samples that lie at known places of shard files; the base of every format of that kind."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from readers.dataset import IndexedDataset
from readers.sample import (
    BadSample,
    ColumnName,
    PathLike,
    Payload,
    ReadersError,
    Sample,
    SourceError,
    checked_indices,
)
from readers.storage.blob import Blob, LocalBlob, is_url, open_blob
from readers.storage.blob.mapped import MappedFile, mapped_file
from readers.storage.blob.pages import Extent, Foresight
from readers.storage.index import FoundIndex, Scan, open_index
from readers.storage.index.builder import current_builder
from readers.storage.index.format import ROW, DamagedIndexError, Head, Names, Row, ShardIndex
from readers.storage.unreadable import reason_of, unreadable

_BLOCK_BYTES = 8_000_000
_MOST_THREADS = 16  # that wait for a server
_MOST_OPEN_SHARDS = 16_384  # two maps each, of the 65,530 that Linux grants a process


_Take = Callable[[Names, tuple[int, ...]], dict[str, Payload]]
_Part = tuple[int, int, int]
"""The samples of a batch that lie in one shard: its number, and their places in stored order."""
_LookedUp = tuple[_Take, list[Row], int]
"""What makes their fields, in turn; what the index says of them; address of the shard, 0 if not mapped."""


_Content = tuple[int, str, str]
"""Number of samples, digest of the index, pin of the shard."""


class _Found(NamedTuple):
    """What is known of a batch before it is read.

    Attributes:
        takes: For each part, what makes the fields of its samples, in turn.
        addresses: For each part, where its shard is mapped, 0 if not.
        entries: For each sample, in stored order, what the index says.
    """

    takes: list[_Take]
    addresses: list[int]
    entries: list[Row]


class ShardDataset(IndexedDataset):
    """Samples at known byte places of shards.

    Shards are scanned once (see `readers.storage.index`). Fields of local ones are read, and those of more than 1 MiB
    are memoryviews into the mapped shard, which keep it mapped as long as they live (see `readers.storage.blob.mapped.copied`).
    What a shard lost because it was shortened in place gives BadSamples, as a shard does that was replaced
    before it was first read. A shard must not be shortened while it is scanned: that ends the process.

    Args:
        shards: Paths or URLs. The samples follow this order.
        scan: Finds the samples of a shard; see `readers.storage.index.Scan`.

    Raises:
        SourceError: A shard is missing, not of this format, or holds no samples.
        IndexFileError: An index can be kept nowhere.
    """

    def __init__(self, shards: Sequence[PathLike], scan: Scan) -> None:
        self._blobs = _open_all(shards)
        self._scan = scan
        builder = current_builder()
        self._found: list[FoundIndex] = (
            builder.build(self._blobs, scan)
            if builder
            else _on_all(lambda blob: _indexed(blob, scan), self._blobs)
        )
        for blob, found in zip(self._blobs, self._found, strict=True):
            if isinstance(blob, LocalBlob):
                blob.pin = found.head.identity["content"]
        self._number()
        self._names = [blob.name for blob in self._blobs]
        # Without a call in between where nothing is decoded further.
        self._make = Sample if type(self)._sample is ShardDataset._sample else None
        self._is_remote = not all(isinstance(blob, LocalBlob) for blob in self._blobs)
        self._foresight = Foresight()
        blobs, indexes = self._blobs, self._found  # not self, whose maps should go when it goes
        self._open = lru_cache(maxsize=_MOST_OPEN_SHARDS)(
            lambda shard: _OpenShard(blobs[shard], indexes[shard].map())
        )

    def _number(self) -> None:
        """Say which samples lie in which shard."""
        self._starts = list(accumulate((len(found.head) for found in self._found), initial=0))
        self._bounds = np.array(self._starts, np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the shards itself."""
        return type(self), (self.shards,)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """Whatever a format's `__reduce__` opens in another process must be what was opened in this one.

        The samples of a shard that is not are BadSamples there, as they are here.
        """
        del protocol
        make, arguments = self.__reduce__()
        return _open_same, (make, arguments, [_content(found.head) for found in self._found])

    def _expect(self, contents: list[_Content]) -> None:
        """Hold to what was known of the shards when the dataset was pickled."""
        for shard, (found, (length, digest, pin)) in enumerate(
            zip(self._found, contents, strict=True)
        ):
            head = found.head
            if _content(head) != (length, digest, pin):
                # An index of no file: what is asked of it leads to `_trusted`, which says why.
                places = {**head.places, "rows": (0, length * ROW.size)}
                identity = {**head.identity, "content": pin}
                lost = replace(head, identity=identity, digest=digest, places=places, mark=-1)
                self._found[shard] = found._replace(head=lost)
        self._number()

    @property
    def shards(self) -> list[str]:
        """Path or URL of every shard."""
        return [blob.location for blob in self._blobs]

    def __len__(self) -> int:
        return self._starts[-1]

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over shard names, keys, field sizes and labels."""
        digest = hashlib.sha256()
        for name, found in zip(self._names, self._found, strict=True):
            digest.update(f"{name!r} {found.head.digest}\n".encode())
        return digest.hexdigest()[:32]

    @property
    def block_size(self) -> int:
        """Samples in about 8 MB of a shard."""
        num_bytes = sum(blob.size_bytes for blob in self._blobs)
        return max(1, min(len(self), _BLOCK_BYTES * len(self) // max(1, num_bytes)))

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`; it is read from the indexes."""
        result = np.empty(len(self), np.int64)
        for shard, (start, stop) in enumerate(pairwise(self._starts)):
            try:
                result[start:stop] = self._open(shard).index.column(name)
            except (DamagedIndexError, OSError):
                result[start:stop] = self._trusted(shard).column(name)
        return result

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read the samples; see `Dataset.fetch`.

        Samples are read in the order in which they are stored, shard by shard.
        """
        wanted = np.asarray(checked_indices(indices, len(self)), np.int64)
        result: list[Any] = [None] * len(wanted)
        order = np.argsort(wanted, kind="stable")
        stored = wanted[order]
        shards = np.searchsorted(self._bounds, stored, side="right") - 1
        rows: list[int] = (stored - self._bounds[shards]).tolist()
        changes = (np.flatnonzero(shards[1:] != shards[:-1]) + 1).tolist()
        numbers, positions = shards.tolist(), order.tolist()
        parts = [
            (numbers[begin], begin, end)
            for begin, end in pairwise([0, *changes, len(rows)])
            if begin < end
        ]
        found = self._look_up_all(parts, rows)
        if not self._is_remote and parts:
            self._foresight.look(partial(_address, parts, found), partial(_extents, parts, found))
        starts, shard_names, entries = self._starts, self._names, found.entries
        make = self._make or self._sample
        for (shard, begin, end), take in zip(parts, found.takes, strict=True):
            start, shard_name = starts[shard], shard_names[shard]
            for place in range(begin, end):
                key, names, bounds, label, size, fault, restarts, image_field = entries[place]
                index, key = start + rows[place], f"{shard_name}/{key}"
                try:
                    result[positions[place]] = (
                        BadSample(index, key, "read", fault)
                        if fault
                        else make(
                            index, key, take(names, bounds), label, size, restarts, image_field
                        )
                    )
                except OSError as error:
                    reason = f"the shard cannot be read: {reason_of(error)}"
                    result[positions[place]] = BadSample(index, key, "read", reason)
        return result

    def _look_up_all(self, parts: list[_Part], rows: list[int]) -> "_Found":
        """Find the samples of a batch; remote shards side by side."""
        # Few lists that live on: the garbage collector looks at all of them ever again.
        found = _Found([], [], [])
        looked_up: Iterable[_LookedUp]
        if self._is_remote and len(parts) > 1:
            with ThreadPoolExecutor(min(len(parts), _MOST_THREADS)) as pool:
                looked_up = list(
                    pool.map(lambda part: self._look_up(part[0], rows[part[1] : part[2]]), parts)
                )
        else:
            looked_up = (self._look_up(shard, rows[begin:end]) for shard, begin, end in parts)
        for take, entries, address in looked_up:
            found.takes.append(take)
            found.entries.extend(entries)
            found.addresses.append(address)
        return found

    def _look_up(self, shard: int, rows: list[int]) -> _LookedUp:
        """Find samples of one shard."""
        try:
            opened = self._open(shard)
            entries = opened.index.entries(rows)
            return opened.take or opened.read(entries), entries, opened.start
        except (DamagedIndexError, OSError):
            return self._look_up_anyway(shard, rows)

    def _look_up_anyway(self, shard: int, rows: list[int]) -> _LookedUp:
        """What `_look_up` gives, where the index is damaged or the shard cannot be read."""
        entries: list[Row] = [(f"(sample {row})", (), (), -1, None, "", None, None) for row in rows]
        try:
            try:
                entries = self._open(shard).index.entries(rows)
            except (DamagedIndexError, OSError):
                entries = self._trusted(shard).entries(rows)
            return self._open(shard).read(entries), entries, 0
        except OSError as error:
            reason = f"the shard cannot be read: {reason_of(error)}"
        except ReadersError as error:
            reason = str(error)
        lost: list[Row] = [
            (key, (), (), -1, None, fault or reason, None, None) for key, *_, fault, _, _ in entries
        ]
        return _take_nothing, lost, 0

    def _sample(
        self,
        index: int,
        key: str,
        fields: Mapping[str, Payload],
        label: int,
        size: tuple[int, int] | None,
        restarts: NDArray[np.int64] | None,
        image_field: str | None,
    ) -> Sample | BadSample:
        """Make a sample of what a shard holds of it; for formats that decode further."""
        return Sample(index, key, fields, label, size, restarts, image_field)

    def _trusted(self, shard: int) -> ShardIndex:
        """Return an index all of which is as it was written, built anew where it was not.

        Raises:
            SourceError: The shard is no longer what it was when it was opened.
            IndexFileError: It can be kept nowhere.
            OSError: The shard cannot be read.
        """
        before = self._found[shard]
        with suppress(DamagedIndexError, OSError):
            index = before.map()
            index.verify()
            return index
        after = open_index(self._blobs[shard], self._scan, distrust=True)
        if _content(after.head) != _content(before.head):
            raise SourceError("the shard has changed since it was opened, open it anew")
        self._found[shard] = after
        self._open.cache_clear()
        return self._open(shard).index


class _OpenShard:
    """A shard in use.

    Attributes:
        index: Index of its samples.
        start: Address of the mapped shard, 0 where it is not mapped.
        take: Makes fields of names and of starts and stops, where the bytes are at hand; else see `read`.
    """

    __slots__ = ("_blob", "index", "start", "take")

    def __init__(self, blob: Blob, index: ShardIndex) -> None:
        self._blob = blob
        self.index = index
        self.take: _Take | None = None
        self.start = 0

    def read(self, entries: list[Row]) -> _Take:
        """Return what makes fields of these samples, to be called for each of them in turn.

        Raises:
            OSError: See `Blob.read`.
        """
        if isinstance(self._blob, LocalBlob):
            # A map of its own, which goes with this object; the next time it is there.
            file = mapped_file(self._blob.unmapped().view())
            assert file is not None  # it has samples
            self.start, self.take = file.address, partial(_fields_of_file, file)
            return self.take
        bounds = [entry[2] for entry in entries]
        ranges = [pair for one in bounds for pair in zip(one[::2], one[1::2], strict=True)]
        payloads = iter(self._blob.read(ranges))
        return lambda names, _: {name: next(payloads) for name in names}


def _indexed(blob: Blob, scan: Scan) -> FoundIndex:
    with unreadable(blob.location):
        return open_index(blob, scan)


def _content(head: Head) -> _Content:
    return len(head), head.digest, head.identity["content"]


def _open_same(
    make: Callable[..., "ShardDataset"], arguments: tuple[Any, ...], contents: list[_Content]
) -> "ShardDataset":
    """What a pickled dataset is made with."""
    dataset = make(*arguments)
    dataset._expect(contents)
    return dataset


def _address(parts: list[_Part], found: _Found, number: int) -> int:
    """Where one of the samples begins in memory; 0 if nowhere."""
    turn, part = divmod(number, len(parts))
    _, begin, end = parts[part]
    bounds, start = found.entries[begin + turn % (end - begin)][2], found.addresses[part]
    return start + bounds[0] if start and bounds else 0


def _extents(parts: list[_Part], found: _Found) -> Iterator[Extent]:
    """From the first to the last byte of every sample."""
    for (_, begin, end), start in zip(parts, found.addresses, strict=True):
        for entry in found.entries[begin:end]:
            if start and (bounds := entry[2]):
                yield start + bounds[0], start + bounds[-1]


def _take_nothing(names: Names, bounds: tuple[int, ...]) -> dict[str, Payload]:
    raise AssertionError(f"{names} at {bounds} of a shard that cannot be read")


def _fields_of_file(file: MappedFile, names: Names, bounds: tuple[int, ...]) -> dict[str, Payload]:
    places = iter(bounds)
    return {name: file.payload(next(places), next(places)) for name in names}


def _open_all(shards: Sequence[PathLike]) -> list[Blob]:
    if not shards:
        raise SourceError("the list of shards is empty: give at least one")
    missing = [shard for shard in shards if not is_url(shard) and not Path(shard).is_file()]
    if missing:
        raise SourceError(
            f"{Path(missing[0]).absolute()} is not a file ({len(missing)} of {len(shards)} shards are "
            "missing): correct the pattern or the list"
        )
    return _on_all(open_blob, shards)


def _on_all(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Do the same to every shard, several at a time where that is a wait for a server."""
    locations = [
        item if isinstance(item, (str, Path)) else getattr(item, "location", "") for item in items
    ]
    if len(items) > 1 and any(map(is_url, locations)):
        with ThreadPoolExecutor(min(len(items), _MOST_THREADS)) as pool:
            return list(pool.map(work, items))
    return [work(item) for item in items]
