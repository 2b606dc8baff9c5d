"""The base class of datasets in which each sample is a file, and reading many files in parallel."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.datasets.located import Located, Reads
from readers.fingerprint import fingerprint_of
from readers.formats.files.packed import Names
from readers.sample import (
    BadSample,
    ColumnName,
    Payload,
    Sample,
    checked_indices,
    sound,
)
from readers.storage.paths import UrlFolder
from readers.storage.unreadable import is_transient, reason_of, size_or_missing
from readers.storage.whole_files import read_whole

# Threads help on slow storage: on a virtual disk 8 of them read 5500 to 6700 files of 115 kB per second instead
# of 2900 (4: 6300, 16: 8400). Files in the page cache come at 12,000 per second from one thread, and more threads only add
# work, so they start when reading turns out to be slow.
_NUM_THREADS = 8
_PROBE = 4  # files that are read between two checks of the time
_SLOW_SECONDS = 2e-4  # per file; a file in the page cache takes less than half
_FEW = 16  # files; fewer are not worth a thread

Sidecars = dict[str, tuple[tuple[str, str], ...]]
"""Dict from the name of a file to the further files of its sample, each as (field, name)."""


class FileDataset(IndexedDataset):
    """Base class of datasets in which each sample is one file below a folder; a subclass finds the files.

    Args:
        root: The folder.
        names: Names of the files, relative to the folder.
        labels: Class number of each file, -1 for none.
        class_names: Class names, by class number; empty without classes.
        sidecars: Further files of the samples, by name of the file; None if there are none.
        remarks: Warnings for the user.
    """

    def __init__(
        self,
        root: Path | UrlFolder,
        names: Iterable[str],
        labels: Sequence[int] | NDArray[np.int64],
        class_names: tuple[str, ...] = (),
        sidecars: Sidecars | None = None,
        remarks: tuple[str, ...] = (),
    ) -> None:
        self._prefix = f"{root}/"
        self._names = self._keys = names if isinstance(names, Names) else Names(names)
        self._labels = np.array(labels, np.int64)
        self._class_names = class_names
        self._sidecars = sidecars or {}
        self._remarks = (*self._remarks, *remarks)
        fields = dict(next(iter(self._sidecars.values()), ()))  # of the first sample that has some
        self.unlabelled = int((self._labels < 0).sum()), fields, ""

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the files' names, sizes and labels; the first access reads the size of every file."""
        return fingerprint_of(further=self._described())

    def _described(self) -> Iterator[str]:
        for index, (name, label) in enumerate(zip(self._names, self._labels, strict=True)):
            yield f"{name}\0{self._sizes[index]}\0{label}\n"
            for _, sidecar in self._sidecars.get(name, ()):
                yield f"{sidecar}\0{size_or_missing(self._prefix + sidecar)}\n"
            yield self._extra(index)

    @cached_property
    def cache_identity(self) -> str:
        """32 hex digits, a hash of the folder's path and the file names; no file is opened for it."""
        folder = Path(self._prefix).absolute()
        return fingerprint_of(f"files {folder}\n", further=(f"{name}\0" for name in self._names))

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; ``num_bytes`` asks the file system for the size of every file."""
        if name == "label":
            return self._labels.copy()
        if name == "num_bytes":
            sizes = self._sizes.copy()
            for index, file in enumerate(self._names if self._sidecars else ()):
                sidecars = [self._prefix + name for _, name in self._sidecars.get(file, ())]
                of_sample = [sizes[index], *map(size_or_missing, sidecars)]
                sizes[index] = -1 if min(of_sample) < 0 else sum(of_sample)
            return sizes
        return np.zeros(len(self), np.int64)

    def keys(self) -> list[str]:
        return [*self._keys]

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples; their files are read by threads if the storage is slow. See `Dataset.fetch`."""
        return fetch_each(self._fetch_one, checked_indices(indices, len(self)))

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        """Return the paths of the files of samples. Samples with several files are not located; use `fetch` for these."""
        del reads
        own = checked_indices(indices, len(self))
        paths, path_starts, is_located = self._names.paths(self._prefix, np.asarray(own, np.int64))
        if self._sidecars:
            is_located &= np.array(
                [name not in self._sidecars for name in self._names.take(own)], bool
            )
        return Located(
            paths,
            path_starts,
            files=np.where(is_located, np.arange(len(own)), -1),
            starts=np.zeros(len(own), np.int64),
            lengths=np.full(len(own), -1),
            labels=self._labels[own],
            sizes=np.zeros((len(own), 2), np.int64),
            is_located=is_located,
            restarts=None,
            held=None,
            make_sample=lambda row, data: sound(self._fetch_one(own[row], data)),
            make_keys=lambda: self._keys.take(own),
        )

    def _fetch_one(self, index: int, data: Payload | None = None) -> Sample | BadSample:
        """Return one sample.

        Args:
            index: Index of the sample.
            data: Content of its file; None reads the file.
        """
        name = self._names[index]
        try:
            if data is None:
                data = self._payload(self._prefix + name)
            fields = {self._field(name): data}
            for sidecar, path in self._sidecars.get(name, ()):
                fields[sidecar] = read_whole(self._prefix + path)
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            reason = f"the file cannot be read: {reason_of(error)}"
            return BadSample(index, name, "read", reason, transient=is_transient(error))
        return Sample(index, name, fields, int(self._labels[index]))

    def _field(self, name: str) -> str:
        """Return the name of the field that holds a file's content."""
        return name.rpartition(".")[2].lower()

    def _payload(self, path: str) -> Payload:
        return read_whole(path)

    def _extra(self, index: int) -> str:
        """Return further text for the fingerprint about a sample, beyond the file's name, size and label."""
        del index
        return ""

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        sizes = (size_or_missing(self._prefix + name) for name in self._names)
        return np.fromiter(sizes, np.int64, len(self._names))


Fetch = Callable[[int], Sample | BadSample]


def fetch_each(fetch: Fetch, indices: list[int]) -> list[Sample | BadSample]:
    """Return the samples with the given indices; read them by threads as soon as reading turns out to be slow.

    Args:
        fetch: Returns the sample with an index; may be called in any thread.
        indices: Indices of the samples.
    """
    entries: list[Sample | BadSample] = []
    while len(entries) < len(indices):
        begun = time.perf_counter()
        entries += [fetch(index) for index in indices[len(entries) : len(entries) + _PROBE]]
        rest = indices[len(entries) :]
        if len(rest) >= _FEW and time.perf_counter() - begun > _PROBE * _SLOW_SECONDS:
            return entries + _each_by_threads(fetch, rest)
    return entries


def _each_by_threads(fetch: Fetch, indices: list[int]) -> list[Sample | BadSample]:
    from readers.storage.remote.requests import pool

    def fetch_some(some: list[int]) -> list[Sample | BadSample]:
        return [fetch(index) for index in some]

    threads = pool("files", _NUM_THREADS)
    parts = threads.map(fetch_some, [indices[at::_NUM_THREADS] for at in range(_NUM_THREADS)])
    entries: list[Sample | BadSample | None] = [None] * len(indices)
    for at, part in enumerate(parts):
        entries[at::_NUM_THREADS] = part
    return entries  # type: ignore[return-value]  # all are filled now
