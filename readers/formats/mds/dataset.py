"""Folders of MDS shards, as mosaicml-streaming writes them, read at random and without that package."""

import errno
import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.dataset import IndexedDataset
from readers.formats.mds.index import NAME, MdsFile, MdsShard, read_mds_index
from readers.formats.mds.plan import make_plan
from readers.formats.mds.unpack import check_compression, unpacked
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
from readers.storage.blob.mapped import copied
from readers.storage.blob.pin import pin_content
from readers.storage.unreadable import reason_of, unreadable

_BLOCK_BYTES = 8_000_000


class MdsDataset(IndexedDataset):
    """Samples in a folder of MDS shards (version 2), read through the places that the shards themselves tell.

    Nothing is indexed: opening reads ``index.json`` and looks at the size of every shard. Fields whose
    encoding is bytes, str, jpeg, png, json or a number written as text are as they are stored, those of more
    than 1 MiB views into the mapped shard; single numbers become JSON, arrays (ndarray) .npy files, raw pictures (pil) of the modes L and RGB PGM
    or PPM, and lists of images the fields ``NAME.0``, ``NAME.1`` and so on. Pickled columns are refused.

    Compressed shards are decompressed when they are first needed, into the folder ``unpacked`` of
    ``$GPU_AUG_CACHE`` (``~/.cache/gpu-aug``), unless they lie decompressed beside it.

    Neither sizes of images nor restart intervals are known. What a shard lost because it was shortened in place
    gives BadSamples.

    Args:
        folder: Holds ``index.json``, or is that file; of a dataset with splits, the folder of one. A path or a URL.
        image: Name of the column that holds the encoded image; None takes the first of the usual names, else
            the first column of images.
        label: Likewise, the class number.
        key: Likewise, a name for people; where there is none the number in the shard is the key.
        columns: The columns that become fields; None takes all.

    Raises:
        SourceError: There is no index or a damaged one, a shard is missing or not as long as the index
            says, or a column is missing, pickled or of an unfit or unknown encoding.
    """

    def __init__(
        self,
        folder: PathLike,
        *,
        image: str | None = None,
        label: str | None = None,
        key: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._folder = _folder_of(folder)
        chosen = None if columns is None else tuple(columns)
        self._options: dict[str, Any] = {
            "image": image,
            "label": label,
            "key": key,
            "columns": chosen,
        }
        shards = _read_index(self._folder)
        self._shards = [shard for shard in shards if shard.num_samples]
        if not self._shards:
            raise SourceError(f"{self._folder} holds no samples: write it anew")
        plan = lru_cache(
            lambda columns: make_plan(columns, chosen, image, label, key, self._folder)
        )
        self._plans = [plan(shard.columns) for shard in self._shards]
        # What is there now is what is read later: another file in its place is found out.
        self._files = [_find_file(self._folder, shard) for shard in self._shards]
        self._starts = list(accumulate((shard.num_samples for shard in self._shards), initial=0))
        self._open: list[_OpenShard | None] = [None] * len(self._shards)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the shards itself."""
        return partial(type(self), **self._options), (self._folder,)

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def remarks(self) -> tuple[str, ...]:
        """See `IndexedDataset.remarks`."""
        return self._plans[0].remarks

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over names, sizes and hashes of the shards, their columns and pieces of their content.

        See `readers.storage.blob.pin`: a change that keeps the size of a shard of more than 1 MiB may go unseen.
        """
        digest = hashlib.sha256()
        for shard, file in zip(self._shards, self._files, strict=True):
            raw = shard.raw
            digest.update(
                f"{raw.path!r} {raw.num_bytes} {sorted(raw.hashes.items())} {shard.columns}\n".encode()
            )
            with unreadable(file.place):
                digest.update(f"{pin_content(file.open())}\n".encode())
        return digest.hexdigest()[:32]

    @property
    def block_size(self) -> int:
        """Samples in about 8 MB of a shard."""
        num_bytes = sum(shard.raw.num_bytes for shard in self._shards)
        return max(1, min(len(self), _BLOCK_BYTES * len(self) // max(1, num_bytes)))

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`; heights and widths are not known.

        ``num_bytes`` is -1 where a column is decoded, a label that is no class number counts as none. Labels and sizes are read from the shards, a page each.

        Raises:
            SourceError: A shard cannot be read, or one elsewhere is gone.
        """
        if name in ("height", "width"):
            return np.zeros(len(self), np.int64)
        for number in range(len(self._shards)):  # what is damaged may claim any number of samples
            self._readable(number)
        result = np.full(len(self), -1, np.int64)
        for number, plan in enumerate(self._plans):
            if name == "label" and plan.label is None:
                continue
            if name == "num_bytes" and any(
                column.decode or column.list_of for column in plan.columns
            ):
                continue
            read = plan.read_label if name == "label" else plan.count_bytes
            for index, payload in self._stored(number):
                with suppress(ValueError):
                    result[index] = read(plan.split(payload))
        return result

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read the samples; see `Dataset.fetch`."""
        places = checked_indices(indices, len(self))
        result: list[Any] = [None] * len(places)
        order = sorted(range(len(places)), key=places.__getitem__)
        for number, group in groupby(order, lambda at: bisect_right(self._starts, places[at]) - 1):
            positions = list(group)
            rows = [places[position] - self._starts[number] for position in positions]
            for position, sample in zip(positions, self._fetch_shard(number, rows), strict=True):
                result[position] = sample
        return result

    def verify(self) -> Iterator[BadSample]:
        """Read everything, and compare the hashes of the shards where the index has some.

        Yields:
            Every sample that cannot be read. A shard whose hash is wrong counts as its first sample.
        """
        for number, shard in enumerate(self._shards):
            start = self._starts[number]
            fault = self._wrong_hash(number)
            if fault:
                yield BadSample(start, shard.raw.path, "read", fault)
            for first in range(start, self._starts[number + 1], 256):
                last = min(first + 256, self._starts[number + 1])
                samples = self.fetch(range(first, last))
                yield from (sample for sample in samples if isinstance(sample, BadSample))

    def _wrong_hash(self, number: int) -> str:
        try:
            blob = self._shard(number).blob
            (content,) = map(copied, blob.read([(0, blob.size_bytes)]))
        except (OSError, ReadersError):
            return ""  # all its samples will say so
        for name, expected in self._shards[number].raw.hashes.items():
            if name not in hashlib.algorithms_available or name.startswith("shake"):
                continue  # xxh64 and its like have no place in the standard library
            if hashlib.new(name, content).hexdigest() != expected:
                return f"the shard's {name} is not the one that index.json says"
        return ""

    def _shard(self, number: int) -> "_OpenShard":
        found = self._open[number]
        if found is None:  # several threads may do the same here, to no harm
            found = _open_stored(self._files[number], self._shards[number])
            self._open[number] = found
        return found

    def _readable(self, number: int) -> "_OpenShard":
        try:
            return self._shard(number)
        except OSError as error:
            place = self._files[number].place
            raise SourceError(
                f"{place} cannot be read: {reason_of(error)}; copy or write it again"
            ) from None

    def _fetch_shard(self, number: int, rows: list[int]) -> list[Sample | BadSample]:
        start, path = self._starts[number], self._shards[number].raw.path
        try:
            shard = self._shard(number)
            payloads = shard.read([shard.place(row) for row in rows])
        except (OSError, ReadersError) as error:
            reason = _why_unread(error)
            return [BadSample(start + row, f"{path}/{row}", "read", reason) for row in rows]
        plan, samples = self._plans[number], list[Sample | BadSample]()
        for row, payload in zip(rows, payloads, strict=True):
            try:
                key, fields, label = plan.read(payload)
            except OSError as error:
                samples.append(BadSample(start + row, f"{path}/{row}", "read", _why_unread(error)))
                continue
            except ValueError as error:
                samples.append(BadSample(start + row, f"{path}/{row}", "read", str(error)))
                continue
            name = f"{path}/{row if key is None else key}"
            samples.append(Sample(start + row, name, fields, label, image_field=plan.image_field))
        return samples

    def _stored(self, number: int) -> Iterator[tuple[int, Payload]]:
        """Yield the index and the stored bytes of every sample of a shard."""
        shard, start, stop = self._readable(number), self._starts[number], self._starts[number + 1]
        for first in range(start, stop, 1024):
            indices = range(first, min(first + 1024, stop))
            payloads = shard.read([shard.place(index - start) for index in indices])
            yield from zip(indices, payloads, strict=True)


class _OpenShard:
    """A shard in use.

    Args:
        blob: Its bytes, decompressed.
        num_samples: As index.json says.
    """

    __slots__ = ("blob", "head_bytes", "places")

    def __init__(self, blob: Blob, num_samples: int) -> None:
        self.blob = blob
        head_bytes = self.head_bytes = 4 * (num_samples + 2)
        (head,) = map(copied, blob.read([(0, min(head_bytes, blob.size_bytes))]))
        if len(head) < head_bytes or int.from_bytes(head[:4], "little") != num_samples:
            raise OSError(
                errno.EINVAL,
                f"it does not begin like an MDS shard with the {num_samples} samples of index.json",
            )
        self.places = np.frombuffer(head, "<u4", offset=4)

    def read(self, places: Sequence[tuple[int, int]]) -> list[Payload]:
        """Return samples; of a shard of this machine views into its map, of which only parts may be asked for."""
        if isinstance(self.blob, LocalBlob):
            view = self.blob.view()
            return [view[start:stop] for start, stop in places]
        return self.blob.read(places)

    def place(self, row: int) -> tuple[int, int]:
        """Where a sample lies, nowhere if the shard tells nonsense."""
        start, stop = int(self.places[row]), int(self.places[row + 1])
        inside = self.head_bytes <= start <= stop <= self.blob.size_bytes
        return (start, stop) if inside else (0, 0)


def _why_unread(error: OSError | ReadersError) -> str:
    return f"the shard cannot be read: {reason_of(error)}"


def _folder_of(place: PathLike) -> str:
    """The folder, absolute or a URL, that is meant by itself or by its index."""
    text = os.fspath(place)
    if not is_url(text):
        path = Path(text).absolute()
        return str(path.parent if path.name == NAME else path)
    return _same_options(text, text.removesuffix(NAME).rstrip("/"))


def _inside(folder: str, name: str) -> str:
    return _same_options(folder, f"{folder}/{name}")


def _same_options(url: str, changed: str) -> str:
    """A changed URL with what the first one knows of how it is reached; a path as it is."""
    if not is_url(url):
        return changed
    from readers.storage.remote import Url, options_of

    return Url(changed, options_of(url, None))


def _read_index(folder: str) -> list[MdsShard]:
    place = _inside(folder, NAME)
    try:
        blob = open_blob(place)
    except SourceError as error:
        if is_url(folder) and "no such object" not in str(error):
            raise
        inside = [] if is_url(folder) else sorted(Path(folder).glob(f"*/{NAME}"))
        hint = (
            f"give one of its splits, such as {inside[0].parent}" if inside else "correct the path"
        )
        raise SourceError(f"{folder} holds no {NAME}, as an MDS folder does: {hint}") from None
    with unreadable(place):
        (data,) = map(copied, blob.read([(0, blob.size_bytes)]))
    return read_mds_index(data, place)


@dataclass(frozen=True, slots=True)
class _File:
    """The file that a shard is read from.

    Attributes:
        place: Path or URL.
        is_packed: It is compressed.
        blob: It, where it is of this machine; others are opened when they are needed.
    """

    place: str
    is_packed: bool
    blob: Blob | None

    def open(self) -> Blob:
        """Return its bytes.

        Raises:
            SourceError: It is not there.
        """
        return self.blob or open_blob(self.place)


def _find_file(folder: str, shard: MdsShard) -> _File:
    """See that a shard of this machine is there and as long as the index says."""
    file = _stored_file(folder, shard)
    is_packed, place = file is shard.packed, _inside(folder, file.path)
    if is_packed:
        check_compression(shard.compression, f"{folder}/{file.path}")
    if is_url(folder):
        return _File(place, is_packed, None)
    blob = open_blob(place)
    if blob.size_bytes != file.num_bytes:
        raise SourceError(
            f"{blob.location} has {blob.size_bytes} bytes, and {NAME} says {file.num_bytes}: copy the folder again"
        )
    return _File(place, is_packed, blob)


def _stored_file(folder: str, shard: MdsShard) -> MdsFile:
    """The shard itself where it is there, else the compressed file."""
    if shard.packed is None or (not is_url(folder) and Path(folder, shard.raw.path).exists()):
        return shard.raw
    return shard.packed


def _open_stored(file: _File, shard: MdsShard) -> "_OpenShard":
    blob = file.open()
    if file.is_packed:
        blob = unpacked(blob, shard.compression, shard.raw.num_bytes)
    return _OpenShard(blob, shard.num_samples)
