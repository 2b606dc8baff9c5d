"""The base class of formats whose samples are stored at known offsets of shard files."""

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.datasets.located import Located, Reads
from readers.fingerprint import fingerprint_of
from readers.jpeg_seek_points.sample_file import SampleFile
from readers.plural import counted
from readers.sample import (
    BadSample,
    ColumnName,
    PathLike,
    Payload,
    ReadersError,
    Sample,
    SourceError,
    checked_indices,
    find_image,
    is_video_field,
    sound,
)
from readers.storage.blob import Blob, LocalBlob
from readers.storage.blob.mapped import Descriptor, MappedFile, mapped_file
from readers.storage.blob.mmap_pages import Extent, PagePrefetcher
from readers.storage.index import FoundIndex, Scan, ShardIndex, open_index
from readers.storage.index.builder import current_builder
from readers.storage.index.index_file import Head, Names
from readers.storage.index.shard_index import Row
from readers.storage.limits import TooLargeError, check_bytes, max_sample_bytes
from readers.storage.parallel_open import MOST_THREADS, on_all, open_all
from readers.storage.paths import shown_path
from readers.storage.side_file import DamagedFileError
from readers.storage.traffic import CountingThreads
from readers.storage.unreadable import is_transient, oserror_as_source_error, reason_of

_BLOCK_BYTES = 8_000_000
"""Size of a block of neighbouring samples in a block shuffle: a large sequential read."""
_MOST_OPEN_SHARDS = 16_384
"""Largest number of open shards: each has two mappings, and Linux allows 65,530 mappings per process."""

_Take = Callable[[Names, tuple[int, ...]], dict[str, Payload]]
"""A function that returns the fields of a sample, given their names and bounds; it is called once per sample, in order."""

_IMAGE = struct.Struct("8q")
"""Layout of the numbers that `ShardDataset._find_images` returns for each image."""

_Part = tuple[int, int, int]
"""The samples of a batch that are in one shard: index of the shard, and start and stop in the sorted indices of the batch."""
_FoundRows = tuple[list[Row], _Take, int]
"""Rows of an index, the function for their fields, and the address of the mapped shard, 0 if it is not mapped."""


class _Content(NamedTuple):
    """Identity of a shard's content when the dataset was opened, with which later reads must agree.

    Attributes:
        num_samples: Number of samples in the shard.
        digest: `Head.digest` of the index.
        pin: `pin_content` of the shard.
    """

    num_samples: int
    digest: str
    pin: str

    @classmethod
    def of(cls, head: Head) -> "_Content":
        """Return the identity of a shard's content, given the head of its index."""
        return cls(len(head), head.digest, head.identity["content"])


class ShardDataset(IndexedDataset):
    """Base class of datasets whose samples are stored at known offsets of shards.

    Each shard is scanned once for an index file (see `readers.storage.index`). Fields of local shards are copies, but fields of
    more than 1 MiB are memoryviews into the mapped shard, which stays mapped as long as they live (see
    `readers.storage.blob.mapped.copied`). If a shard is shortened in place, the missing samples become BadSamples; so do all
    samples of a shard that was replaced before it was first read. A shard must not be shortened while it is scanned: that
    kills the process.

    Args:
        shards: Paths or URLs of the shards, in the order of the samples.
        scan: Finds the samples of a shard; see `readers.storage.index.Scan`.

    Raises:
        SourceError: A shard is missing, not of this format, or holds no samples.
        IndexFileError: No writable folder was found for an index.
    """

    def __init__(self, shards: Sequence[PathLike], scan: Scan) -> None:
        self._blobs = open_all(shards)
        self._scan = scan
        builder = current_builder()
        self._found: list[FoundIndex] = (
            builder.build(self._blobs, scan)
            if builder
            else on_all(lambda blob: _open_index(blob, scan), self._blobs)
        )
        for blob, found in zip(self._blobs, self._found, strict=True):
            if isinstance(blob, LocalBlob):
                blob.pin = found.head.identity["content"]
        count = sum(found.head.num_unlabelled for found in self._found)
        self.unlabelled = count, self.members, ""
        self._contents: list[_Content] = []
        self._set_contents([_Content.of(found.head) for found in self._found])
        self._names = [blob.name for blob in self._blobs]
        most = max_sample_bytes()
        self._is_small = [blob.size_bytes <= most for blob in self._blobs]
        self._is_remote = not all(isinstance(blob, LocalBlob) for blob in self._blobs)
        self._prefetcher = PagePrefetcher()
        # No reference to self: a cycle would keep the mappings until the next garbage collection.
        blobs, indexes, contents = self._blobs, self._found, self._contents
        self._open = lru_cache(maxsize=_MOST_OPEN_SHARDS)(
            lambda shard: _OpenShard(blobs[shard], _map(indexes[shard], contents[shard]))
        )

    def _set_contents(self, contents: list[_Content]) -> None:
        """Set the identities of the shards' contents, with which later reads must agree."""
        self._contents[:] = contents
        self._starts = list(accumulate((one.num_samples for one in contents), initial=0))
        self._bounds = np.array(self._starts, np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments only: another process opens the shards itself."""
        return type(self), (self.shards,)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """Pickle the identities of the contents, too, so that another process notices if a shard has changed."""
        del protocol
        make, arguments = self.__reduce__()
        return _reopen, (make, arguments, self._contents)

    @property
    def shards(self) -> list[str]:
        """Path or URL of every shard."""
        return [blob.location for blob in self._blobs]

    @property
    def sample_files(self) -> list[SampleFile]:
        return [
            SampleFile(blob.location, content.digest[:32], content.num_samples)
            for blob, content in zip(self._blobs, self._contents, strict=True)
        ]

    @property
    def members(self) -> frozenset[str]:
        """Names of all fields that are stored in the shards, before `_decode` changes them."""
        kinds = (kind for found in self._found for kind in found.head.kinds)
        return frozenset(name for kind in kinds for name in kind[0])

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.index_remarks

    @property
    def index_remarks(self) -> tuple[str, ...]:
        """Warnings of the scans, and about keys that several samples share."""
        remarks = [*self.scan_remarks]
        repeated = [one.head.num_repeated_keys for one in self._found]
        if total := sum(repeated):
            shard = self.shards[repeated.index(max(repeated))]
            remarks.append(
                f"{counted(total, 'sample')} with the key of an earlier one of the same shard ({max(repeated):,} in {shown_path(shard)}): "
                "each is a sample of its own. The shard was joined to itself, or files of one sample do not follow one another"
            )
        doubled = Counter(self._names) - Counter({*self._names})
        if doubled:
            remarks.append(
                f"{counted(doubled.total(), 'shard')} with the name of an earlier one, such as {shown_path(next(iter(doubled)))}: keys begin "
                "with the name, so samples of these shards can have equal keys; rename the shards, or use indices"
            )
        return tuple(remarks)

    @property
    def scan_remarks(self) -> tuple[str, ...]:
        """Warnings of the scans as sentences; equal warnings about several shards are one sentence with a count."""
        shards: dict[str, list[str]] = {}
        for blob, found in zip(self._blobs, self._found, strict=True):
            for where, what in found.head.remarks:
                shards.setdefault(what, []).append(f"{shown_path(blob.location)} {where}")
        return tuple(
            f"{first} {what}{f' (so do {len(others):,} more shards)' if others else ''}"
            for what, (first, *others) in shards.items()
        )

    def samples_with(self, is_meant: Callable[[Names], object]) -> tuple[int, str, Names]:
        """Count the samples that have certain fields, without reading them.

        Args:
            is_meant: Returns whether to count a sample, given the names of its fields.

        Returns:
            The number of such samples, and the key and the field names of the first one; 0, "" and () if there are none.
        """
        count, key, names = 0, "", Names()
        for shard, found in enumerate(self._found):
            kinds = [number for number, kind in enumerate(found.head.kinds) if is_meant(kind[0])]
            if not kinds:
                continue
            rows = np.flatnonzero(np.isin(self._index_column(shard, "kind"), kinds))
            if len(rows) and not count:
                [row], _, _ = self._locate(shard, rows[:1].tolist())
                key, names = f"{self._names[shard]}/{row.key}", row.names
            count += len(rows)
        return count, key, names

    def _index_column(self, shard: int, name: str) -> NDArray[np.int64]:
        """Return a column of a shard's index, int64 [samples]; a damaged index is rebuilt."""
        try:
            return self._open(shard).index.column(name)
        except (DamagedFileError, OSError):
            return self._verified_index(shard).column(name)

    def samples_of(self, shard: int) -> int:
        """Return the number of samples in the shard with this index."""
        return self._contents[shard].num_samples

    def keys_of(self, shard: int) -> list[str]:
        """Return the keys of the samples of a shard, in stored order; placeholders if the index cannot be read."""
        found, _, _ = self._locate(shard, list(range(self.samples_of(shard))))
        return [row.key for row in found]

    def __len__(self) -> int:
        return self._starts[-1]

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over shard names, keys, field sizes and labels."""
        contents = zip(self._names, self._contents, strict=True)
        return fingerprint_of(*(f"{name!r} {content.digest}\n" for name, content in contents))

    @property
    def block_size(self) -> int:
        """Number of samples in about 8 MB of a shard."""
        num_bytes = sum(blob.size_bytes for blob in self._blobs)
        return max(1, min(len(self), _BLOCK_BYTES * len(self) // max(1, num_bytes)))

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column from the indexes of the shards, one number per sample, int64 [len]."""
        result = np.empty(len(self), np.int64)
        for shard, (start, stop) in enumerate(pairwise(self._starts)):
            result[start:stop] = self._index_column(shard, name)
        return self._readable(result) if name == "label" else result

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples, shard by shard in stored order, and return them in the order of `indices`; see `Dataset.fetch`."""
        wanted = np.asarray(checked_indices(indices, len(self)), np.int64)
        order = np.argsort(wanted, kind="stable")
        stored = wanted[order]
        parts, shards = self._parts(stored)
        rows: list[int] = (stored - self._bounds[shards]).tolist()
        located = self._locate_all(parts, rows)
        if not self._is_remote and parts:
            self._prefetcher.look(partial(_address, located), partial(_extents, located))
        result: list[Any] = [None] * len(wanted)
        positions = order.tolist()
        for (shard, begin, _), (found, take, _) in zip(parts, located, strict=True):
            self._make_samples(shard, begin, found, take, rows, positions, result)
        return result

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        """Return where the images of samples lie in the shards; None if a shard is remote."""
        own = checked_indices(indices, len(self))
        if self._is_remote:
            return None
        wanted = np.asarray(indices, np.int64)
        order = np.argsort(wanted, kind="stable")
        keys = [""] * len(own)
        packed, restarts, held = self._find_images(wanted[order], order.tolist(), reads, keys)
        images = np.frombuffer(b"".join(packed), np.int64).reshape(-1, 8)
        mapped = images[:, 3:5] + images[:, 2:3]
        if packed:
            self._prefetcher.look(lambda turn: int(mapped[turn % len(mapped), 0]), mapped.tolist)
        table = np.zeros((8, len(own)), np.int64)
        table[5] = -1
        table[:, images[:, 0]] = images.T
        lengths = table[4] - table[3]
        is_located = lengths > 0
        return Located(
            b"",
            path_starts=np.empty(0, np.int64),
            files=np.where(is_located, table[1], -1),
            starts=table[3],
            lengths=lengths,
            labels=table[5],
            sizes=np.ascontiguousarray(table[6:].T),
            is_located=is_located,
            restarts=list(map(restarts.get, range(len(own)))) if restarts else None,
            held=held,
            make_sample=lambda row, data: self._with_image(own[row], data),
            make_keys=lambda: [key or self._key(own[row]) for row, key in enumerate(keys)],
        )

    def _find_images(
        self, stored: NDArray[np.int64], places: list[int], reads: Reads, keys: list[str]
    ) -> tuple[list[bytes], dict[int, NDArray[np.int64]], list[Descriptor]]:
        """Find the images of samples in their shards; samples in damaged or changed shards are left out.

        Args:
            stored: Indices of the samples, ascending.
            places: For each of these samples its row in the batch.
            reads: Returns whether the caller will read a field besides the image, given its name.
            keys: A list with an element per row, into which the keys of samples in readable shards are written.

        Returns:
            Eight numbers for each image, packed as bytes (row in the batch, descriptor, address of the mapped shard, start,
            stop, label, height, width); restart intervals by row; and the open files.
        """
        parts, shards = self._parts(stored)
        rows = (stored - self._bounds[shards]).tolist()
        image_at = lru_cache(maxsize=None)(partial(_image_at, reads))
        packed: list[bytes] = []  # packing takes half the time of an array of tuples
        restarts: dict[int, NDArray[np.int64]] = {}
        held: list[Descriptor] = []
        for shard, begin, end in parts:
            try:
                opened = self._open(shard)
                file = opened.map().descriptor()
                found = self._limited(shard, opened.index.rows(rows[begin:end]))
            except (DamagedFileError, OSError):
                continue
            if file is None:
                continue
            held.append(file)
            number, address, last, at = file.number, opened.address, None, -1
            name = self._names[shard]
            for place, row in zip(places[begin:end], found, strict=True):
                key, names, bounds, label, size, fault, offsets, image_field = row
                keys[place] = f"{name}/{key}"
                if names is not last:  # samples of one kind share the object
                    last, at = names, image_at(names, image_field)
                if at >= 0 and not fault:
                    height, width = size or (0, 0)
                    span = bounds[at], bounds[at + 1]
                    packed.append(_IMAGE.pack(place, number, address, *span, label, height, width))
                    if offsets is not None:
                        restarts[place] = offsets
        return packed, restarts, held

    def _find(self, index: int) -> tuple[int, list[Row], _Take]:
        """Return the index of a sample's shard, a list with its row, and the function that reads its fields."""
        shard = bisect_right(self._starts, index) - 1
        found, take, _ = self._locate(shard, [index - self._starts[shard]])
        return shard, found, take

    def _key(self, index: int) -> str:
        shard, [row], _ = self._find(index)
        return f"{self._names[shard]}/{row.key}"

    def _with_image(self, index: int, data: Payload) -> Sample:
        """Return the sample at an index, given the bytes of its image; its other fields are read."""
        shard, found, take = self._find(index)
        image = find_image(found[0].names, found[0].image_field)

        def take_others(names: Names, bounds: tuple[int, ...]) -> dict[str, Payload]:
            spans = zip(names, bounds[::2], bounds[1::2], strict=True)
            return {
                name: data if name == image else take((name,), (start, stop))[name]
                for name, start, stop in spans
            }

        result: list[Any] = [None]
        rows = [index - self._starts[shard]]
        self._make_samples(shard, 0, found, take_others, rows, [0], result)
        return sound(result[0])

    def _parts(self, stored: NDArray[np.int64]) -> tuple[list[_Part], NDArray[np.int64]]:
        """Return ascending indices grouped by shard, and the shard of each index."""
        shards = np.searchsorted(self._bounds, stored, side="right") - 1
        begins = np.flatnonzero(np.diff(shards, prepend=-1))
        ends = np.append(begins[1:], len(shards))
        parts = zip(shards[begins].tolist(), begins.tolist(), ends.tolist(), strict=False)
        return list(parts), shards

    @staticmethod
    def _decode(
        fields: dict[str, Payload],
        size: tuple[int, int] | None,  # noqa: ARG004
    ) -> dict[str, Payload]:
        """Return the fields of a sample, given its stored fields and size.

        By default they are returned unchanged; formats that store encoded fields override this.

        Raises:
            ValueError: The stored fields cannot be decoded; the text is the reason.
            OSError: The shard cannot be read.
        """
        return fields

    def _make_samples(
        self,
        shard: int,
        begin: int,
        found: list[Row],
        take: _Take,
        rows: list[int],
        positions: list[int],
        result: list[Any],
    ) -> None:
        """Read samples of one shard, and put them into the result list.

        Args:
            shard: Index of the shard.
            begin: Index in `rows` of the first of these samples.
            found: Rows of the index for these samples.
            take: Reads the fields of a sample.
            rows: Row numbers of all samples of the batch in their shards.
            positions: Positions in the result of all samples of the batch.
            result: The list to fill.
        """
        start, name, decode = self._starts[shard], self._names[shard], self._decode
        for number, row in enumerate(found, begin):
            key, names, bounds, label, size, fault, restarts, image_field = row
            index, key = start + rows[number], f"{name}/{key}"
            made: Sample | BadSample
            try:
                if fault:
                    raise ValueError(fault)
                fields = decode(take(names, bounds), size)
                made = Sample(index, key, fields, label, size, restarts, image_field)
            except OSError as error:
                made = BadSample(
                    index, key, "read", _read_failure(error), transient=is_transient(error)
                )
            except _LostShardError as error:
                made = BadSample(index, key, "read", str(error), transient=error.transient)
            except ValueError as error:
                made = BadSample(index, key, "read", str(error))
            result[positions[number]] = made

    def _locate_all(self, parts: list[_Part], rows: list[int]) -> list[_FoundRows]:
        """Return the rows of all samples of a batch by part; remote shards are processed in parallel."""
        if self._is_remote and len(parts) > 1:
            with CountingThreads(min(len(parts), MOST_THREADS)) as pool:
                return list(
                    pool.map(lambda part: self._locate(part[0], rows[part[1] : part[2]]), parts)
                )
        return [self._locate(shard, rows[begin:end]) for shard, begin, end in parts]

    def _locate(self, shard: int, rows: list[int]) -> _FoundRows:
        """Return the rows of samples of one shard, given their row numbers, and the function that reads their fields."""
        try:
            opened = self._open(shard)
            found = self._limited(shard, opened.index.rows(rows))
            return found, opened.take or opened.read(found), opened.address
        except (DamagedFileError, OSError):
            return self._locate_after_error(shard, rows)

    def _locate_after_error(self, shard: int, rows: list[int]) -> _FoundRows:
        """Return the result of `_locate` after an error: rebuild a damaged index, or return a function that raises the error."""
        found = [Row(f"(sample {row})") for row in rows]
        try:
            try:
                found = self._limited(shard, self._open(shard).index.rows(rows))
            except (DamagedFileError, OSError):
                found = self._limited(shard, self._verified_index(shard).rows(rows))
            return found, self._open(shard).read(found), 0
        except OSError as error:
            take = partial(_take_nothing, _read_failure(error), is_transient(error))
        except ReadersError as error:  # it has changed, or no index can be written
            take = partial(_take_nothing, str(error), True)
        return [Row(row.key, fault=row.fault) for row in found], take, 0

    def _limited(self, shard: int, rows: list[Row]) -> list[Row]:
        """Return rows with a fault added to samples that would take too much memory; a small shard has no such samples."""
        if self._is_small[shard]:
            return rows
        is_local, most = isinstance(self._blobs[shard], LocalBlob), max_sample_bytes()
        # Fields of a sample are mostly adjacent, so their outer bounds suffice, in a fifth of the time.
        return [
            row
            if not row.bounds or max(row.bounds) - min(row.bounds) <= most
            else _limited(row, is_local)
            for row in rows
        ]

    def _verified_index(self, shard: int) -> ShardIndex:
        """Return the index of a shard after verifying all of its checksums; a damaged index is rebuilt first.

        Raises:
            SourceError: The shard has changed since it was opened.
            IndexFileError: No writable folder was found for the index.
            OSError: The shard cannot be read.
        """
        with suppress(DamagedFileError, OSError):  # it is scanned again below
            index = _map(self._found[shard], self._contents[shard])
            index.verify()
            return index
        after = open_index(self._blobs[shard], self._scan, distrust=True)
        if _Content.of(after.head) != self._contents[shard]:
            raise SourceError("the shard has changed since it was opened: open it again")
        self._found[shard] = after
        self._open.cache_clear()
        return self._open(shard).index


class _OpenShard:
    """A shard that is open for reading.

    Attributes:
        index: The index of the shard.
        address: Memory address of the mapped shard; 0 if it is not mapped.
        take: Function that reads the fields of any sample of a mapped shard; None before `read` is called.
    """

    __slots__ = ("_blob", "_file", "address", "index", "take")

    def __init__(self, blob: Blob, index: ShardIndex) -> None:
        self._blob = blob
        self.index = index
        self.take: _Take | None = None
        self._file: MappedFile | None = None
        self.address = 0

    def read(self, rows: list[Row]) -> _Take:
        """Return a function that returns the fields of these samples; it must be called for each of them, in order.

        Raises:
            OSError: The shard cannot be read, or has changed; see `Blob.read`.
        """
        if isinstance(self._blob, LocalBlob):
            self.take = partial(_fields_of_file, self.map().payload)  # the next call finds it
            return self.take
        sound = (row.bounds for row in rows if not row.fault)
        ranges = [pair for bounds in sound for pair in zip(bounds[::2], bounds[1::2], strict=True)]
        payloads = iter(self._blob.read(ranges))
        return lambda names, _: {name: next(payloads) for name in names}

    def map(self) -> MappedFile:
        """Map the shard, which must be a local file, and return it.

        Raises:
            OSError: The shard no longer exists, or has changed; see `LocalBlob.view`.
        """
        if self._file is None:
            assert isinstance(self._blob, LocalBlob)
            # An own mapping, which ends with this object.
            file = mapped_file(self._blob.unmapped().view())
            assert file is not None  # it has samples
            self._file, self.address = file, file.address
        return self._file


def _limited(row: Row, is_local: bool) -> Row:
    """Return a row, with a fault added if its fields take too much memory.

    Args:
        row: The row.
        is_local: Whether the shard is a local file; videos in it are not copied and do not count.
    """
    spans = zip(row.names, row.bounds[::2], row.bounds[1::2], strict=True)
    sizes = [stop - start for name, start, stop in spans if not (is_local and is_video_field(name))]
    try:
        check_bytes(sum(sizes), "it")
    except TooLargeError as error:
        return row._replace(fault=row.fault or str(error))
    return row


def _open_index(blob: Blob, scan: Scan) -> FoundIndex:
    with oserror_as_source_error(blob.location):
        return open_index(blob, scan)


def _map(found: FoundIndex, content: _Content) -> ShardIndex:
    """Open the tables of an index, and return them.

    Args:
        found: The index.
        content: Identity of the content when the dataset was opened.

    Raises:
        DamagedFileError: The index belongs to other content.
        OSError: The index file no longer exists.
    """
    if _Content.of(found.head) != content:
        raise DamagedFileError("of other content than the dataset was opened with")
    return found.map()


def _reopen(
    make: Callable[..., "ShardDataset"], arguments: tuple[Any, ...], contents: list[_Content]
) -> "ShardDataset":
    """Return a dataset that was pickled, opened again.

    Args:
        make: The class of the dataset.
        arguments: Arguments of the class.
        contents: Identities of the shards' contents when the dataset was first opened.
    """
    dataset = make(*arguments)
    dataset._set_contents(contents)
    return dataset


def _read_failure(error: OSError) -> str:
    return f"the shard cannot be read: {reason_of(error)}"


def _address(located: list[_FoundRows], number: int) -> int:
    """Return the memory address of one of the located samples, chosen by any integer >= 0; 0 if it is not mapped."""
    turn, part = divmod(number, len(located))
    rows, _, address = located[part]
    bounds = rows[turn % len(rows)].bounds
    return address + bounds[0] if address and bounds else 0


def _extents(located: list[_FoundRows]) -> Iterator[Extent]:
    """Yield (start, stop), the memory addresses of the bytes of each mapped sample."""
    for rows, _, address in located:
        for row in rows:
            if address and row.bounds:
                yield address + row.bounds[0], address + row.bounds[-1]


class _LostShardError(Exception):
    """No sample of a shard can be read; the text is the reason.

    Attributes:
        transient: Whether the error may go away.
    """

    def __init__(self, reason: str, transient: bool) -> None:
        super().__init__(reason)
        self.transient = transient


def _image_at(reads: Reads, names: Names, image_field: str | None) -> int:
    """Return the position of the image in `Row.bounds`; -1 if the sample has no image, or another field will be read, too."""
    image = find_image(names, image_field)
    if image is None or is_video_field(image) or any(reads(one) for one in names if one != image):
        return -1
    return 2 * names.index(image)


def _take_nothing(
    reason: str,
    transient: bool,
    names: Names,  # noqa: ARG001
    bounds: tuple[int, ...],  # noqa: ARG001
) -> dict[str, Payload]:
    raise _LostShardError(reason, transient)


def _fields_of_file(
    payload: Callable[[int, int], Payload], names: Names, bounds: tuple[int, ...]
) -> dict[str, Payload]:
    offsets = iter(bounds)
    return {name: payload(next(offsets), next(offsets)) for name in names}
