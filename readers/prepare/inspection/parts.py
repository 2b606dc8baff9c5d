"""An inspection in parts, each a range of samples, by whoever carries out tasks; the parts lie in files until they are merged."""

import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from platform import node
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.datasets.fetched import FetchedDataset
from readers.datasets.inspected import Checks
from readers.formats.stream import TarStream
from readers.prepare.errors import PrepareError
from readers.prepare.executor import ArrayTask, Executor, Job
from readers.prepare.inspection.doubled_keys import DoubledKeys
from readers.prepare.inspection.entries import look_of
from readers.prepare.inspection.findings import MOST_LISTED, Inspection
from readers.prepare.source import open_source
from readers.sample import BadSample, Dataset, PathLike
from readers.storage.destination import open_destination
from readers.storage.paths import shown_path

_VERSION = 4
_CHUNK = 8  # entries that are fetched at a time: they are decoded as well
_MOST_TASKS = 4096
_LEAST_SAMPLES, _MOST_SAMPLES = 128, 8192  # of a part; see `Inspection.extend` for the most
_TASK_BYTES = 1 << 28
_MOST_NAMED = 5


@dataclass(frozen=True)
class Source:
    """How a worker comes to the dataset: it opens what it is told, or gets it as it is.

    Attributes:
        source: As for `readers.prepare.inspect`.
        options: ``format`` and options of the format.
    """

    source: str | Dataset
    options: dict[str, Any] = field(default_factory=dict)

    def open(self) -> Dataset:
        """Return the dataset."""
        if not isinstance(self.source, str):
            return self.source
        dataset = open_source(self.source, **self.options)
        assert not isinstance(dataset, TarStream)
        return dataset


class InspectionPart:
    """One task of an inspection: looks at a range of samples, and returns the bytes of a file that tells of it.

    Args:
        source: What to look at.
        dataset: The same, as it was opened here.
        span: Samples of a part.
        count_labels: Whether labels are counted.
        checks: What decodes.
    """

    def __init__(
        self,
        source: Source,
        dataset: Dataset,
        span: int,
        *,
        count_labels: bool,
        checks: Checks,
    ) -> None:
        self._source, self._fingerprint, self._span = source, dataset.fingerprint, span
        self._length = len(dataset)
        self._count_labels, self._checks = count_labels, checks
        self._dataset: Dataset | None = dataset

    def __getstate__(self) -> dict[str, Any]:
        """Another process opens the dataset itself, once."""
        return self.__dict__ | {"_dataset": None}

    def __call__(self, number: int) -> bytes:
        """Carry out a task: samples number x span and those that follow, or behind all ranges the format's checksums.

        What the storage failed to give is told with the name of the machine, and the part as one to make again.

        Raises:
            PrepareError: The source here is another one.
            SourceError: It cannot be opened here.
        """
        dataset = self._opened()
        begin = min(number * self._span, self._length)
        end = min(begin + self._span, self._length)
        found, digests = Inspection(dataset), np.empty(end - begin, np.uint64)
        look, again = look_of(dataset, self._checks), False
        for first in range(begin, end, _CHUNK):
            for entry in dataset.fetch(np.arange(first, min(first + _CHUNK, end))):
                seen = look(entry)
                if seen.bad and seen.bad.transient:
                    reason = f"{seen.bad.reason} on {node()}"
                    seen, again = seen._replace(bad=replace(seen.bad, reason=reason)), True
                digests[found.num_looked_at] = seen.digest
                found.add(seen, count_label=self._count_labels)
        sums = [*dataset.verify()] if begin == end and isinstance(dataset, IndexedDataset) else []
        again = again or any(bad.transient for bad in sums)
        return _encode(self._fingerprint, (begin, end), found, digests, sums, again=again)

    def _opened(self) -> Dataset:
        if self._dataset is None:
            dataset = self._source.open()
            if dataset.fingerprint != self._fingerprint:
                raise PrepareError(
                    f"{self._source.source} is another dataset here than where this was begun: see that all machines read the "
                    "same files"
                )
            self._dataset = dataset
        return self._dataset


def has_checksums(dataset: Dataset) -> bool:
    """Whether the format can compare checksums of its own."""
    return isinstance(dataset, IndexedDataset) and type(dataset).verify is not FetchedDataset.verify


def _encode(
    fingerprint: str,
    span: tuple[int, int],
    found: Inspection,
    digests: NDArray[np.uint64],
    sums: Sequence[BadSample],
    *,
    again: bool,
) -> bytes:
    told = {
        "version": _VERSION,
        "fingerprint": fingerprint,
        "span": span,
        "again": again,
        "found": found.counts_to_json(),
        # Of these, at most MOST_LISTED are known already: the texts of so many are enough.
        "checksums": [[bad.key, bad.stage, bad.reason] for bad in sums[: 2 * MOST_LISTED]],
    }
    file = io.BytesIO()
    np.savez(
        file,
        allow_pickle=False,
        told=np.frombuffer(json.dumps(told).encode(), np.uint8),
        digests=digests,
        checksums=np.array([bad.index for bad in sums], np.int64),
    )
    return file.getvalue()


class Parts:
    """The parts of an inspection as files at a destination, each whole.

    Args:
        folder: Where they lie, or will lie.
        dataset: What is inspected.

    Raises:
        PrepareError: It is no place for files.
    """

    def __init__(self, folder: PathLike, dataset: Dataset) -> None:
        self._folder, self._dataset = open_destination(folder), dataset
        length = len(dataset)
        self.span = max(_LEAST_SAMPLES, min(_MOST_SAMPLES, -(-length // _MOST_TASKS)))
        self.num_ranges = -(-length // self.span)
        self.numbers = range(self.num_ranges + has_checksums(dataset))

    def num_samples(self, number: int) -> int:
        """Of a part."""
        return min(self.span, max(0, len(self._dataset) - number * self.span))

    def name(self, number: int) -> str:
        """Of a part's file."""
        return f"part-{number:06d}-of-{len(self.numbers):06d}.npz"

    def lacking(self, numbers: Sequence[int]) -> list[int]:
        """The numbers of those parts that are not there.

        Raises:
            PrepareError: What is there is of another dataset, or something else.
        """
        there, other = set(), ""
        for name in self._folder.names():
            if fnmatch(name, "part-*-of-*.npz"):
                there.add(name)
            elif not name.startswith("."):
                other = other or name
        if there:
            self._read(min(there))
        elif other:
            raise PrepareError(
                f"{shown_path(self._folder.location)} holds {other} and no part of an inspection: give --parts an empty "
                "folder, or one that the same inspection has begun"
            )
        return [number for number in numbers if self.name(number) not in there]

    def make(
        self,
        part: InspectionPart,
        numbers: Sequence[int],
        executor: Executor,
        on_part: Callable[[int], None],
    ) -> list[int]:
        """Make those of some parts that are not there, or in which the storage failed.

        Args:
            part: What is done.
            numbers: Which ones are wanted.
            executor: Who does it.
            on_part: Called with the number of each part that is there.

        Returns:
            The numbers of those that were made.

        Raises:
            PrepareError: A part could not be made, or cannot be written.
        """
        lacking = self.lacking(numbers)
        there = sorted(set(numbers).difference(lacking))
        lacking += [number for number in there if self._read(self.name(number))[0]["again"]]
        for number in set(numbers).difference(lacking):
            on_part(number)
        job = Job(part, lacking, _TASK_BYTES, "part of the inspection")
        for number, data in executor.run(job):
            with self._folder.create(self.name(number)) as file:
                file.write(data)
            on_part(number)
        return lacking

    def own(self, task: ArrayTask) -> list[int]:
        """The numbers of the parts that a task of an array job makes."""
        return [number for number in self.numbers if number % task.count == task.number]

    def merge(self, into: Inspection, numbers: Sequence[int]) -> None:
        """Count parts in, in the order of the samples, and find doubled keys if these are all parts.

        Raises:
            PrepareError: One is missing, damaged, or of another dataset.
        """
        lacking = self.lacking(numbers)
        if lacking and len(lacking) == len(self.numbers):
            raise PrepareError(
                f"{shown_path(self._folder.location)} holds no part of this inspection, so there is nothing to merge: run "
                "its tasks first, with the same --parts"
            )
        if lacking:
            named = ", ".join(map(str, lacking[:_MOST_NAMED]))
            raise PrepareError(
                f"{len(lacking):,} of {len(self.numbers):,} parts are not in {shown_path(self._folder.location)} (number {named}"
                f"{', ...' if len(lacking) > _MOST_NAMED else ''}): run the tasks again that have not ended well, which "
                "make what is missing"
            )
        with DoubledKeys(len(self._dataset)) as keys:
            for number in numbers:
                told, digests, sums = self._read(self.name(number))
                into.extend(Inspection.from_json(told["found"], self._dataset))
                keys.add(digests)
                if number >= self.num_ranges:
                    _add_checksums(into, told["checksums"], sums)
            if len(numbers) == len(self.numbers):
                into.num_doubled, into.doubled = keys.find(MOST_LISTED)

    def _read(self, name: str) -> tuple[dict[str, Any], NDArray[np.uint64], NDArray[np.int64]]:
        path = shown_path(self._folder.at(name))
        try:
            with np.load(io.BytesIO(self._folder.read(name) or b""), allow_pickle=False) as file:
                told = json.loads(file["told"].tobytes())
                digests, sums = file["digests"], file["checksums"]
                version, fingerprint = told["version"], told["fingerprint"]
        except (EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            raise PrepareError(
                f"{path} is damaged, or no part of an inspection: remove it, and run its task again"
            ) from None
        if version != _VERSION or fingerprint != self._dataset.fingerprint:
            kind = "another dataset" if version == _VERSION else "another version of gpu-aug"
            raise PrepareError(
                f"{path} is a part of the inspection of {kind}: give a new folder, or remove it"
            )
        return told, digests, sums


def _add_checksums(into: Inspection, texts: list[list[str]], indices: NDArray[np.int64]) -> None:
    known = {bad.index for bad in into.bad}
    for place, index in enumerate(indices.tolist()):
        if index in known:
            continue
        if place < len(texts):
            key, stage, reason = texts[place]
            into.add_bad(BadSample(index, key, stage, reason))  # type: ignore[arg-type]
        else:
            into.num_bad += 1
