"""Datasets of MDS shards, the format of mosaicml-streaming, with random access and without that package."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.parts import PartsDataset, samples_in_block
from readers.fingerprint import fingerprint_of
from readers.formats.columns import UNREADABLE, ColumnOptions
from readers.formats.mds.columns import make_plan
from readers.formats.mds.index import folder_of, read_mds_index
from readers.formats.mds.shard import Shard
from readers.sample import BadSample, ColumnName, PathLike, ReadersError, Sample, SourceError
from readers.storage.unreadable import is_transient, oserror_as_source_error, reason_of


class MdsDataset(PartsDataset):
    """Samples in a folder of MDS shards (version 2), read at the offsets that the shards store.

    No index file is written: opening reads ``index.json`` and the size of every shard. Columns of the
    encodings bytes, str, jpeg, png, json and numbers as text become fields unchanged; those of more
    than 1 MiB are views into the mapped shard. Single numbers become JSON, arrays (ndarray) .npy files, raw pictures (pil) of the
    modes L and RGB PGM or PPM, and lists of images the fields ``NAME.0``, ``NAME.1`` and so on. Pickled columns are refused.

    Compressed shards are decompressed when they are first needed, into the folder ``unpacked`` of
    ``$GPU_AUG_CACHE`` (default ``~/.cache/gpu-aug``), unless the decompressed shard lies next to the compressed one.

    Image sizes and restart intervals are unknown. Samples that a shard loses because it is shortened in place
    become BadSamples.

    Args:
        folder: Path or URL of the folder with ``index.json``, or of that file. If the dataset has splits, each split has such a
            folder.
        image: Column of the image; if None, the first usual name that exists, or else the first column of images.
        label: Column of the class number; if None, the first usual name that exists.
        key: Column of the keys; if None, the first usual name that exists, or else the sample's index in the shard.
        columns: Names of the columns that become fields; None for all.

    Raises:
        SourceError: The index is missing or damaged; a shard is missing or has another size than in the index;
            or a column is missing, pickled, or of an unknown encoding or one that does not fit its role.
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
        self._folder = folder_of(folder)
        self._options = ColumnOptions(image, label, key, columns)
        planned = lru_cache(lambda stored: make_plan(stored, self._options, self._folder))
        self._shards = [
            Shard(self._folder, shard, planned(shard.columns))
            for shard in read_mds_index(self._folder)
            if shard.num_samples
        ]
        if not self._shards:
            raise SourceError(f"{self._folder} holds no samples: write it anew")
        plan = self._shards[0].plan
        if plan.label is None:
            count = sum(shard.info.num_samples for shard in self._shards)
            self.unlabelled = count, [column.name for column in plan.columns], ""
        self._starts = np.cumsum([0, *(shard.info.num_samples for shard in self._shards)])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the folder and the options; the process that unpickles opens the shards again."""
        return partial(type(self), **asdict(self._options)), (self._folder,)

    @property
    def remarks(self) -> tuple[str, ...]:
        return self._shards[0].plan.remarks

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the shards' names, sizes, stored hashes, columns and parts of their content.

        The content is hashed as by `readers.storage.blob.content_hash`: a change within a shard of more than 1 MiB that
        keeps its size may go unseen.
        """
        return fingerprint_of(*(shard.identity() for shard in self._shards))

    @property
    def block_size(self) -> int:
        """Number of samples in about 8 MB of a shard."""
        return samples_in_block(len(self), sum(shard.info.raw.num_bytes for shard in self._shards))

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; ``height`` and ``width`` are unknown (0).

        ``num_bytes`` is -1 in shards with a column that is converted. Labels and sizes are read from every sample in the
        shards.

        Raises:
            SourceError: A shard is missing, or a shard or label cannot be read.
        """
        if name in ("height", "width"):
            return np.zeros(len(self), np.int64)
        numbers = np.concatenate([_numbers(shard, name) for shard in self._shards])
        return self._readable(numbers) if name == "label" else numbers

    def verify(self) -> Iterator[BadSample]:
        """Read all samples, and compare the hashes of shards that the index states.

        Yields:
            A `BadSample` for each sample that cannot be read, and one with the index of its first sample for each shard whose
            hash is wrong.
        """
        for number, shard in enumerate(self._shards):
            start, stop = self._starts[number : number + 2].tolist()
            fault = ""
            with suppress(OSError, ReadersError):  # the samples below state the reason
                fault = shard.wrong_hash()
            if fault:
                yield BadSample(start, shard.info.raw.path, "read", fault)
            yield from self._bad_samples(start, stop)

    def _fetch_part(self, number: int, indices: NDArray[np.int64]) -> Iterator[Sample | BadSample]:
        shard, start = self._shards[number], int(self._starts[number])
        plan, path = shard.plan, shard.info.raw.path
        fault, transient = "", False
        try:
            payloads = shard.read((indices - start).tolist())
        except (OSError, ReadersError) as error:
            fault, payloads, transient = _unread(error), [b""] * len(indices), is_transient(error)
        for index, payload in zip(indices.tolist(), payloads, strict=True):
            name = f"{path}/{index - start}"
            try:
                if fault:
                    raise ValueError(fault)
                key, fields, label = plan.read(payload)
            except OSError as error:
                yield BadSample(index, name, "read", _unread(error), transient=is_transient(error))
            except ValueError as error:
                yield BadSample(index, name, "read", str(error), transient=transient)
            else:
                name = name if key is None else f"{path}/{key}"
                yield Sample(index, name, fields, label, image_field=plan.image_field)


def _numbers(shard: Shard, name: ColumnName) -> NDArray[np.int64]:
    """Return the labels or the sizes in bytes of a shard's samples, int64 [samples]."""
    plan = shard.plan
    with oserror_as_source_error(shard.location):
        result = shard.fill(-1)
        known = plan.label is not None if name == "label" else plan.is_stored
        read = plan.read_label if name == "label" else plan.count_bytes
        for first in range(0, len(result) if known else 0, 1024):
            rows = range(first, min(first + 1024, len(result)))
            for row, payload in zip(rows, shard.read(rows), strict=True):
                try:
                    result[row] = read(plan.split(payload))
                except ValueError:
                    result[row] = UNREADABLE if name == "label" else -1
    return result


def _unread(error: OSError | ReadersError) -> str:
    return f"the shard cannot be read: {reason_of(error)}"
