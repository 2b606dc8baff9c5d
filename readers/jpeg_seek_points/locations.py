"""Where the checkpoints of samples lie: beside a file of many samples, written whole and then only read; or in the cache folder, in a file that grows while the dataset is read."""

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

from readers.jpeg_seek_points.checkpoint_file import CheckpointFile, FullError, open_to_add
from readers.jpeg_seek_points.layout import (
    Entry,
    Head,
    encoded,
    laid_out,
)
from readers.jpeg_seek_points.sample_file import SUFFIX, SampleFile
from readers.sample import Dataset, ReadersError
from readers.storage.atomic_file import atomic_file, build_once
from readers.storage.blob import is_url, open_blob
from readers.storage.cache_folder import (
    CachedFile,
    cache_folder,
    default_limit_bytes,
    remove_oldest,
)
from readers.storage.destination import open_destination
from readers.storage.paths import with_options_of, with_path
from readers.storage.side_file import DamagedFileError
from readers.storage.unreadable import reason_of

_PIECE_BYTES = 1 << 23
_LEAST_SHARE = 1 / 4
_log = logging.getLogger(f"gpu_aug.{__name__}")

FOLDER = "checkpoints"


def beside_location(file: SampleFile) -> str:
    """Path or URL of the checkpoints beside a file of samples."""
    return with_path(file.location, lambda path: f"{path}{SUFFIX}")


def open_beside(file: SampleFile, version: int) -> CheckpointFile | None:
    """Open the checkpoints beside a file of samples; None where there are none that fit.

    Those of an object in a store are copied into the cache folder.

    Args:
        file: Holds the samples.
        version: Of the rows.
    """
    head = _head(file, version)
    with suppress(
        OSError, ValueError, ReadersError
    ):  # without them an image takes longer, and is the same
        return CheckpointFile(_copied(file, head) if is_url(file.location) else _path(file), head)
    return None


def write_beside(file: SampleFile, version: int, entries: Sequence[Entry]) -> None:
    """Write what is known of the samples of a file beside it; the file appears whole.

    Raises:
        OSError: It cannot be written.
        PrepareError: A store does not take it.
    """
    data = laid_out(_head(file, version), entries)
    location = beside_location(file)
    if not is_url(location):
        with atomic_file(Path(location), to_disk=True) as out:
            out.write(data)
        return
    folder, name = _split(location)
    with open_destination(folder).create(name) as out:
        out.write(data)


def is_whole_beside(file: SampleFile, version: int) -> bool:
    """Whether all samples are known beside their file, none of it is damaged, and the file was not changed later."""
    found = open_beside(file, version)
    if found is None:
        return False
    with suppress(OSError):  # they are then written again
        if is_url(file.location):
            folder, name = _split(beside_location(file))
            if open_destination(folder).size_bytes(name) != found.path.stat().st_size:
                return False  # the copy in the cache folder is of one that was there before
        elif _is_older(_path(file), Path(file.location)):
            return False
        return sum(1 for _ in found.entries(0, file.num_samples)) == file.num_samples
    return False


def _split(url: str) -> tuple[str, str]:
    folder, _, name = url.rpartition("/")
    return with_options_of(url, folder), name


def _head(file: SampleFile, version: int) -> Head:
    return Head(file.identity, version, file.num_samples)


def _path(file: SampleFile) -> Path:
    return Path(f"{file.location}{SUFFIX}")


def _is_older(path: Path, than: Path) -> bool:
    return path.stat().st_mtime_ns < than.stat().st_mtime_ns


def _copied(file: SampleFile, head: Head) -> Path:
    """The path of a copy in the cache folder.

    Raises:
        OSError: There is none, or it cannot be written.
        SourceError: There is none.
    """
    name = hashlib.sha256(os.fsencode(file.location) + head.pack()).hexdigest()[:32]
    path = cache_folder() / "checkpoints" / f"{name}{SUFFIX}"
    with suppress(OSError, DamagedFileError):  # there is no copy yet
        CheckpointFile(path, head)
        return path
    blob = open_blob(beside_location(file))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as out:
        for start in range(0, blob.size_bytes, _PIECE_BYTES):
            (data,) = blob.read([(start, min(start + _PIECE_BYTES, blob.size_bytes))])
            out.write(data)
    return path


def make_room(path: Path) -> int:
    """Return how large a file of the folder may become: all together take 10 GB, or a tenth of what is free and theirs.

    Where others leave it less than a quarter of that, those that were not used for longest are removed. Who has one of them
    open goes on with it, and makes a new one when something is kept.

    Args:
        path: The file, which is there.

    Raises:
        OSError: The folder cannot be looked at.
    """
    files = []
    for other in path.parent.glob(f"*{SUFFIX}"):
        with suppress(FileNotFoundError):  # another process removed it
            status = other.stat()
            files.append(CachedFile(status.st_mtime, str(other), status.st_size))
    most = default_limit_bytes(path.parent, sum(file.size_bytes for file in files))
    others = (file for file in files if file.path != str(path))
    return most - remove_oldest(others, int((1 - _LEAST_SHARE) * most))


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
    # Where there is no file, there is nothing to put in order.
    with suppress(FileNotFoundError), build_once(path) as part:
        file = CheckpointFile(path, head)
        if not _is_in_order(file):
            part.file.writelines(encoded(head, lambda: file.entries(0, head.num_samples)))
            part.publish(to_disk=True)


def _is_in_order(file: CheckpointFile) -> bool:
    end = file.head.first_row
    for _, slot in file.slots(0, file.head.num_samples):
        if slot.start != end:
            return False
        end += slot.num_bytes
    return end == file.path.stat().st_size


class CacheFile:
    """Finds and keeps the checkpoints of a dataset, in ``checkpoints`` of the cache folder; any thread may ask.

    How far it grows is told by `readers.jpeg_seek_points.locations`. Where it is full, or the folder cannot be written, a warning is
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
        except (OSError, DamagedFileError) as error:
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
            suppress(OSError, DamagedFileError),
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
