"""Inspect a dataset in parts that tasks of a job carry out; the result of each part is a file until all are merged.

A part covers a range of samples; one further part covers the checksums of the format, if it has any.
"""

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from platform import node
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.datasets.fetched import FetchedDataset
from readers.datasets.inspected import Checks
from readers.prepare.errors import PrepareError
from readers.prepare.inspection.doubled_keys import DoubledKeys
from readers.prepare.inspection.entries import look_of
from readers.prepare.inspection.findings import MOST_LISTED, Inspection
from readers.prepare.job import Parts, even_boundaries, missing_parts_error
from readers.prepare.source import PlannedSource
from readers.sample import BadSample, Dataset, PathLike
from readers.storage.destination import open_destination
from readers.storage.paths import shown_path

# Version of the files; goes up whenever their content changes.
_VERSION = 4
# Entries that are fetched together: few, because they are also decoded.
_CHUNK = 8
# Samples of a part: little is lost when a task is killed; see `Inspection.extend` for the largest.
_LEAST_SAMPLES, _MOST_SAMPLES = 128, 8192


@dataclass(frozen=True, eq=False)
class InspectionTask:
    """A picklable function that inspects one part and returns the bytes of its file.

    Attributes:
        source: Opens the dataset.
        boundaries: int64 [parts + 1], as in `readers.prepare.job.Parts`; a part without samples is the part of the checksums.
        checks: Functions that decode images and videos.
        count_labels: Whether labels are counted.
    """

    source: PlannedSource
    boundaries: NDArray[np.int64]
    checks: Checks
    count_labels: bool

    def __call__(self, number: int) -> bytes:
        """Inspect the part with this number, and return the bytes of its file.

        If the storage fails to give a sample, the sample is recorded as bad with the name of the machine, and the part is
        marked to be made again.

        Raises:
            PrepareError: The dataset cannot be opened on this machine, or has another fingerprint.
        """
        dataset = self.source.open()
        begin, end = map(int, self.boundaries[number : number + 2])
        found, digests = Inspection(dataset), np.empty(end - begin, np.uint64)
        look, again = look_of(dataset, self.checks), False
        for first in range(begin, end, _CHUNK):
            for entry in dataset.fetch(np.arange(first, min(first + _CHUNK, end))):
                seen = look(entry)
                if seen.bad and seen.bad.transient:
                    reason = f"{seen.bad.reason} on {node()}"
                    seen, again = seen._replace(bad=replace(seen.bad, reason=reason)), True
                digests[found.num_looked_at] = seen.digest
                found.add(seen, count_label=self.count_labels)
        sums = [*dataset.verify()] if begin == end and isinstance(dataset, IndexedDataset) else []
        again = again or any(bad.transient for bad in sums)
        return _encode(dataset.fingerprint, (begin, end), found, digests, sums, again=again)


def has_checksums(dataset: Dataset) -> bool:
    """Return whether the format of a dataset stores checksums, so that its `verify` does something."""
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
    content = {
        "version": _VERSION,
        "fingerprint": fingerprint,
        "span": span,
        "again": again,
        "found": found.counts_to_json(),
        # At most MOST_LISTED of these samples are listed already, and as many are listed in the end.
        "checksums": [[bad.key, bad.stage, bad.reason] for bad in sums[: 2 * MOST_LISTED]],
    }
    file = io.BytesIO()
    np.savez(
        file,
        allow_pickle=False,
        told=np.frombuffer(json.dumps(content).encode(), np.uint8),
        digests=digests,
        checksums=np.array([bad.index for bad in sums], np.int64),
    )
    return file.getvalue()


class InspectionParts(Parts[bytes]):
    """The parts of an inspection, stored as files in a folder or an object store; a part is done if its file exists.

    Args:
        folder: Path of the folder, or the URL of a prefix in an object store.
        dataset: The inspected dataset.

    Raises:
        PrepareError: `folder` is a file, or a URL that cannot be written to.
    """

    what = "part"

    def __init__(self, folder: PathLike, dataset: Dataset) -> None:
        self._folder, self._dataset = open_destination(folder), dataset
        boundaries = even_boundaries(len(dataset), _LEAST_SAMPLES, _MOST_SAMPLES)
        self._num_ranges = len(boundaries) - 1
        if has_checksums(dataset):
            boundaries = np.append(boundaries, len(dataset))
        super().__init__(boundaries)

    def name(self, number: int) -> str:
        """Return the name of a part's file."""
        return f"part-{number:06d}-of-{len(self):06d}.npz"

    def missing(self, numbers: Sequence[int]) -> list[int]:
        """Return those of the given parts whose file is absent or marked to be made again.

        Raises:
            PrepareError: The folder holds parts of another dataset, or something else.
        """
        absent = set(self._absent(numbers))
        return [
            number
            for number in numbers
            if number in absent or self._read(self.name(number))[0]["again"]
        ]

    def store(self, number: int, result: bytes) -> None:
        """Write the file of a part, given its bytes."""
        with self._folder.create(self.name(number)) as file:
            file.write(result)

    def merge(self, into: Inspection, numbers: Sequence[int]) -> None:
        """Add the results of parts to an inspection; if these are all parts, also find duplicate keys.

        Args:
            into: The inspection to add to.
            numbers: Numbers of the parts, ascending.

        Raises:
            PrepareError: The file of a part is missing, damaged, or of another dataset.
        """
        if absent := self._absent(numbers):
            raise missing_parts_error(
                absent, len(absent), len(self), self.what, self._folder.location
            )
        with DoubledKeys(len(self._dataset)) as keys:
            for number in numbers:
                content, digests, sums = self._read(self.name(number))
                into.extend(Inspection.from_json(content["found"], self._dataset))
                keys.add(digests)
                if number >= self._num_ranges:
                    _add_checksums(into, content["checksums"], sums)
            if len(numbers) == len(self):
                into.num_doubled, into.doubled = keys.find(MOST_LISTED)

    def _absent(self, numbers: Sequence[int]) -> list[int]:
        there, other = set(), ""
        for name in self._folder.names():
            if fnmatch(name, "part-*-of-*.npz"):
                there.add(name)
            elif not name.startswith("."):
                other = other or name
        if there:
            self._read(min(there))  # raises if it is of another dataset
        elif other:
            raise PrepareError(
                f"{shown_path(self._folder.location)} holds {other} and no part of an inspection: give --parts an empty "
                "folder, or one that the same inspection has begun"
            )
        return [number for number in numbers if self.name(number) not in there]

    def _read(self, name: str) -> tuple[dict[str, Any], NDArray[np.uint64], NDArray[np.int64]]:
        path = shown_path(self._folder.at(name))
        try:
            with np.load(io.BytesIO(self._folder.read(name) or b""), allow_pickle=False) as file:
                content = json.loads(file["told"].tobytes())
                digests, sums = file["digests"], file["checksums"]
                version, fingerprint = content["version"], content["fingerprint"]
        except (EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            raise PrepareError(
                f"{path} is damaged, or no part of an inspection: remove it, and run its task again"
            ) from None
        if version != _VERSION or fingerprint != self._dataset.fingerprint:
            kind = "another dataset" if version == _VERSION else "another version of gpu-aug"
            raise PrepareError(
                f"{path} is a part of the inspection of {kind}: give a new folder, or remove it"
            )
        return content, digests, sums


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
