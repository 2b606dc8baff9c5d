"""The file of a dataset's checkpoints in the cache folder, which grows while the dataset is read."""

import hashlib
import logging
import os
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from readers.checkpoints.checkpoint_file import CheckpointFile, FullError, open_to_add
from readers.checkpoints.layout import (
    DamagedCheckpointsError,
    Entry,
    Head,
    encoded,
)
from readers.checkpoints.room import make_room
from readers.checkpoints.sample_file import SUFFIX
from readers.sample import Dataset
from readers.storage.atomic_file import atomic_file
from readers.storage.cache_folder import cache_folder
from readers.storage.lock import one_at_a_time
from readers.storage.unreadable import reason_of

_log = logging.getLogger(f"gpu_aug.{__name__}")

FOLDER = "checkpoints"


def head_of(dataset: Dataset, version: int) -> Head:
    """What the file of a dataset says of itself."""
    identity = getattr(dataset, "cache_identity", None) or dataset.fingerprint
    if not re.fullmatch("[0-9a-f]{32}", identity):  # a dataset of the user's own
        identity = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return Head(identity, version, len(dataset))


def cache_path(head: Head) -> Path:
    """Where a dataset's file lies; another version of the rows has another one."""
    name = hashlib.sha256(head.pack()).hexdigest()[:32]
    return cache_folder() / FOLDER / f"{name}{SUFFIX}"


def make_whole(head: Head) -> None:
    """Write the file of a dataset anew, in the order of the samples and without what no slot names.

    Files that know the same are the same bytes then. Who has the old one open goes on with it.

    Raises:
        OSError: It cannot be written.
    """
    path = cache_path(head)
    with (
        suppress(FileNotFoundError),
        one_at_a_time(path.with_name(f"{path.name}.lock")),
    ):  # there is nothing to put in order
        file = CheckpointFile(path, head)
        if not _is_in_order(file):
            with atomic_file(path, to_disk=True) as out:
                out.writelines(encoded(head, lambda: file.entries(0, head.num_samples)))


def _is_in_order(file: CheckpointFile) -> bool:
    end = file.head.first_row
    for _, slot in file.slots(0, file.head.num_samples):
        if slot.start != end:
            return False
        end += slot.num_bytes
    return end == file.path.stat().st_size


class CacheFile:
    """Finds and keeps the checkpoints of a dataset, in ``checkpoints`` of the cache folder; any thread may ask.

    How far it grows is told by `readers.checkpoints.room`. Where it is full, or the folder cannot be written, a warning is
    logged once and nothing more is kept.

    Args:
        head: Of the dataset.
        limit_bytes: The largest size of the file; None is as above.

    Attributes:
        writes: Whether something that is found can still be kept.
    """

    def __init__(self, head: Head, limit_bytes: int | None = None) -> None:
        self.path, self.writes = cache_path(head), True
        self._head, self._limit_bytes = head, limit_bytes
        self._file: CheckpointFile | None = None
        self._opening = threading.Lock()

    def file(self) -> CheckpointFile | None:
        """The file, if it is there."""
        return self._file or self._opened()

    def known(self) -> NDArray[np.bool_]:
        """See `CheckpointFile.known`."""
        file = self.file()
        return file.known() if file else np.zeros(self._head.num_samples, np.bool_)

    def keep(self, entries: Sequence[Entry]) -> None:
        """Remember what was found, as far as there is room."""
        if not self.writes:
            return
        try:
            file, limit_bytes = self._to_add()
            file.add(entries, limit_bytes)
        except FullError:
            self._stop("it has reached its largest size", "gpu-aug cache --remove checkpoints")
        except (OSError, DamagedCheckpointsError) as error:
            self._stop(reason_of(error), "set GPU_AUG_CACHE to a folder that can be written")

    def _stop(self, reason: str, advice: str) -> None:
        with self._opening:
            told, self.writes = not self.writes, False
        if not told:
            _log.warning(
                "checkpoints of JPEGs cannot be kept in %s (%s): later runs find them anew; %s, with room for 2 %% of the data",
                self.path,
                reason,
                advice,
            )

    def _opened(self) -> CheckpointFile | None:
        with (
            suppress(OSError, DamagedCheckpointsError),
            self._opening,
        ):  # nothing is known, so all is found anew
            if self._file is None:
                self._file = CheckpointFile(self.path, self._head)
                os.utime(self.path)  # it is in use, which reading does not always tell
        return self._file

    def _to_add(self) -> tuple[CheckpointFile, int]:
        """The file, to be written, and its limit; an empty one where it is not there, is damaged or was removed."""
        with self._opening:
            file = self._file
            if file is None or not file.writes or not file.is_current():
                self._file = file = open_to_add(self.path, self._head)
            if self._limit_bytes is None:
                self._limit_bytes = make_room(self.path)
            return file, self._limit_bytes
