"""The data that a plan speaks of, opened once in every process that makes its shards."""

import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from readers.formats.stream import TarStream
from readers.prepare.errors import PrepareError, TransientError
from readers.prepare.source import open_source
from readers.sample import Dataset, ReadersError
from readers.storage.paths import is_url, shown_path
from readers.storage.unreadable import is_transient

_SECRETS = ("key", "secret", "token", "password", "sas", "credential", "service_account")


@dataclass(frozen=True)
class PlannedSource:
    """How to open the data, on any machine that reaches it. Pickled without credentials.

    Attributes:
        location: As for `readers.open_dataset`; a path is absolute.
        fingerprint: That of the data for which the plan was made.
        format: Name of the format, None tells it from the source.
        options: ``split``, and options of the format.
        dataset: The data itself where it was handed over and has no location; it is pickled.
    """

    location: str
    fingerprint: str
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    dataset: Dataset | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is secret: each machine has its own credentials, in its environment."""
        settings = self.options.get("settings")
        if not settings:
            return vars(self)
        pairs = settings.items() if isinstance(settings, Mapping) else settings
        plain = tuple((name, value) for name, value in pairs if not _is_secret(str(name)))
        return vars(self) | {"options": {**self.options, "settings": plain}}

    def open(self) -> Dataset:
        """The data, opened at most once in a process.

        Raises:
            PrepareError: It cannot be opened here, or is other data than it was.
        """
        if self.dataset is not None:
            return self.dataset
        with _lock:
            key = (self.location, self.fingerprint, self.format, repr(sorted(self.options.items())))
            if key not in _opened:
                _opened.clear()  # one at a time: they may be large
                _opened[key] = self._open()
            return _opened[key]

    def keep(self, dataset: Dataset) -> None:
        """Let this process go on with what it has opened."""
        with _lock:
            key = (self.location, self.fingerprint, self.format, repr(sorted(self.options.items())))
            _opened.clear()
            _opened[key] = dataset

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


_lock = threading.Lock()
_opened: dict[tuple[object, ...], Dataset] = {}


def _is_secret(name: str) -> bool:
    return any(part in name.lower() for part in _SECRETS)


def located(source: str) -> str:
    """The same source from any working directory."""
    if is_url(source) or source.startswith("pipe:"):
        return source
    return str(Path(source).absolute())
