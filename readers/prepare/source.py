"""Open the data to prepare: with random access if possible, else as a stream."""

import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from readers.datasets.dataset import IndexedDataset
from readers.detect.registry import FORMATS, format_of
from readers.formats.stream import TarStream
from readers.open import open_dataset
from readers.prepare.errors import PrepareError, TransientError
from readers.sample import Dataset, ReadersError, SourceError
from readers.storage.paths import is_url, shown_path
from readers.storage.unreadable import is_transient, refuse_folder_error


def open_at_random(source: str, format: str | None = None, **options: Any) -> IndexedDataset:
    """Open a source, and return a dataset with random access.

    Args:
        source: As for `readers.open_dataset`.
        format: A name in `readers.detect.registry.FORMATS`; None if it is detected.
        options: ``split`` and options of the format, as for `readers.open_dataset`.

    Raises:
        SourceError: The source cannot be opened, or can only be read from front to back.
    """
    if format in FORMATS and not FORMATS[format].random_access:
        raise SourceError(
            f"{format=} is read from front to back, and samples are taken in any order here: make shards "
            f"of it with gpu-aug pack SOURCE FOLDER --source-format {format}"
        )
    kind: Any = format  # open_dataset checks the name
    dataset: IndexedDataset = open_dataset(source, format=kind, **options)
    return dataset


def open_source(
    source: str, *, format: str | None = None, allow_pipe: bool = False, **options: Any
) -> Dataset | TarStream:
    """Open a source, and return a dataset, or a stream if the source can only be read from front to back.

    Args:
        source: As for `readers.open_dataset`, or ``pipe:COMMAND``.
        format: A name in `readers.detect.registry.FORMATS`; None if it is detected.
        allow_pipe: Whether the source may be ``pipe:COMMAND``, which runs the command.
        options: ``split`` and options of the format, as for `readers.open_dataset`.

    Raises:
        SourceError: The source cannot be opened, or is a command and `allow_pipe` is False.
    """
    if source.startswith("pipe:"):
        if not allow_pipe:
            raise SourceError(f"{source!r} runs a command: add --allow-pipe if you trust it")
        return TarStream(source, allow_pipe=True, **options)
    kind: Any = format  # open_dataset checks the name
    try:
        dataset: Dataset | TarStream = open_dataset(source, format=kind, **options)
    except SourceError as error:
        found: Any = format_of(source)
        if format or found is None or found.random_access:
            raise
        try:
            dataset = open_dataset(source, format=found.name, **options)
        except SourceError:
            raise error from None
    return dataset


def title_of(dataset: Dataset | TarStream) -> str:
    """Return the title of a dataset's format, such as "WebDataset tar"."""
    reader = f"{type(dataset).__module__}:{type(dataset).__name__}"
    return next((kind.title for kind in FORMATS.values() if kind.reader == reader), reader)


def files_left_out(source: str, dataset: Dataset | TarStream) -> list[str]:
    """Return the names of media files in a folder that the dataset does not read: images beside videos, or vice versa.

    Args:
        source: Path of the folder.
        dataset: The dataset of the folder.
    """
    endings = getattr(dataset, "unread_suffixes", ())
    if not endings:
        return []
    names = [
        name
        for _, _, files in os.walk(source, onerror=refuse_folder_error)
        for name in sorted(files)
    ]
    return [name for name in names if name.lower().endswith(endings) and name[0] != "."]


# An option with one of these words in its name holds a credential, which must never leave this process.
_SECRETS = ("key", "secret", "token", "password", "sas", "credential", "service_account")


@dataclass(frozen=True)
class PlannedSource:
    """Opens the data of a job on any machine; it is pickled without credentials.

    Attributes:
        location: Source of the data as for `readers.open_dataset`; paths are absolute.
        fingerprint: Fingerprint of the data when the job was planned.
        format: Name of the format; None if it is detected.
        options: ``split`` and options of the format.
        dataset: The dataset itself, if the user gave an object instead of a location; it is pickled, too.
    """

    location: str
    fingerprint: str
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    dataset: Dataset | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without credentials: each machine has its own, in its environment."""
        settings = self.options.get("settings")
        if not settings:
            return vars(self)
        pairs = settings.items() if isinstance(settings, Mapping) else settings
        plain = tuple((name, value) for name, value in pairs if not _is_secret(str(name)))
        return vars(self) | {"options": {**self.options, "settings": plain}}

    def open(self) -> Dataset:
        """Return the dataset, which is opened at most once in a process.

        Raises:
            PrepareError: The data cannot be opened on this machine, or has another fingerprint than planned.
        """
        if self.dataset is not None:
            return self.dataset
        with _lock:
            if self._key not in _opened:
                _opened.clear()  # one at a time: they may be large
                _opened[self._key] = self._open()
            return _opened[self._key]

    def keep(self, dataset: Dataset) -> None:
        """Store an open dataset, so that `open` returns it in this process instead of opening the data again."""
        with _lock:
            _opened.clear()
            _opened[self._key] = dataset

    @property
    def _key(self) -> tuple[object, ...]:
        return self.location, self.fingerprint, self.format, repr(sorted(self.options.items()))

    def _open(self) -> Dataset:
        where = f"{shown_path(self.location)} on {socket.gethostname()}"
        try:
            dataset = open_source(self.location, format=self.format, **self.options)
        except (ReadersError, OSError) as error:
            kind = TransientError if is_transient(error) else PrepareError
            raise kind(
                f"{where} cannot be opened ({error}): make it reachable there, or give a path or URL that every "
                "machine reaches"
            ) from None
        if isinstance(dataset, TarStream) or dataset.fingerprint != self.fingerprint:
            raise PrepareError(
                f"{where} is not the data of the plan (its fingerprint is {dataset.fingerprint}, the plan says "
                f"{self.fingerprint}): put the data back, or plan into a new folder"
            )
        return dataset


# The dataset that this process has opened for its tasks; the threads of the process share it.
_lock = threading.Lock()
_opened: dict[tuple[object, ...], Dataset] = {}


def planned_source(
    source: str | Dataset, dataset: Dataset, format: str | None, options: Mapping[str, Any]
) -> PlannedSource:
    """Return a picklable object with which other processes open a dataset; this process goes on using the open dataset.

    Args:
        source: The source as the user gave it: a location, which may be relative to the working directory, or a dataset.
        dataset: The opened dataset.
        format: Name of the format; None if it is detected.
        options: ``split`` and options of the format.
    """
    if not isinstance(source, str):
        return PlannedSource("a dataset", dataset.fingerprint, dataset=dataset)
    is_path = not is_url(source) and not source.startswith("pipe:")
    location = str(Path(source).absolute()) if is_path else source
    planned = PlannedSource(location, dataset.fingerprint, format, options)
    planned.keep(dataset)
    return planned


def _is_secret(name: str) -> bool:
    return any(part in name.lower() for part in _SECRETS)
