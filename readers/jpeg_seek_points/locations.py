"""Find and write the files of seek points.

There are two kinds: files next to a data file of many samples, which are written as a whole and never change; and files in the
cache folder, one for each dataset, which grow while the dataset is read.
"""

import logging
import os
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from readers.fingerprint import fingerprint_of
from readers.jpeg_seek_points.layout import Entry, Head, encode_file, encode_pieces
from readers.jpeg_seek_points.sample_file import SUFFIX, SampleFile
from readers.jpeg_seek_points.seek_point_file import FileFullError, SeekPointFile, open_to_add
from readers.sample import Dataset, ReadersError
from readers.storage.atomic_file import atomic_file, build_once
from readers.storage.blob import is_url, open_blob
from readers.storage.cache_folder import (
    CachedFile,
    default_limit_bytes,
    path_in_cache,
    remove_oldest,
)
from readers.storage.destination import open_destination
from readers.storage.paths import with_options_of, with_path
from readers.storage.side_file import DamagedFileError
from readers.storage.unreadable import reason_of

_log = logging.getLogger(f"gpu_aug.{__name__}")

_FOLDER = "checkpoints"
"""Name of the subfolder of the cache folder. It dates from the first version, and must stay, so that stored files are found."""
_PIECE_BYTES = 1 << 23
"""A remote file is copied in pieces of 8 MB: few requests, little memory."""
_LEAST_SHARE = 1 / 4
"""Share of the folder's limit that the file of a dataset in use may always have, even if files of other datasets fill the rest."""


def location_beside(file: SampleFile) -> str:
    """Return the path or URL of the file of seek points next to a data file."""
    return with_path(file.location, lambda path: f"{path}{SUFFIX}")


def open_beside(file: SampleFile, version: int) -> SeekPointFile | None:
    """Open the file of seek points next to a data file, and return it; None if there is none, or none that fits.

    If the data file is in an object store, its file of seek points is copied into the cache folder first.

    Args:
        file: The data file.
        version: `Finder.version` that the seek points must have.
    """
    head = _head(file, version)
    # Without them decoding takes longer and gives the same image.
    with suppress(OSError, ValueError, ReadersError):
        return SeekPointFile(
            _local_copy(file, head) if is_url(file.location) else _path(file), head
        )
    return None


def write_beside(file: SampleFile, version: int, entries: Sequence[Entry]) -> None:
    """Write the seek points of all samples of a data file into one complete file next to it.

    Args:
        file: The data file.
        version: `Finder.version` of the seek points.
        entries: The seek points, in ascending order of `Entry.number`.

    Raises:
        OSError: The local file cannot be written.
        PrepareError: The file cannot be written to the object store.
    """
    data = encode_file(_head(file, version), entries)
    location = location_beside(file)
    if not is_url(location):
        with atomic_file(Path(location), to_disk=True) as out:
            out.write(data)
        return
    folder, name = _split(location)
    with open_destination(folder).create(name) as out:
        out.write(data)


def is_complete_beside(file: SampleFile, version: int) -> bool:
    """Return whether a file next to a data file holds an undamaged entry for each of its samples, and is not older."""
    found = open_beside(file, version)
    if found is None:
        return False
    with suppress(OSError):  # they are then written again
        if is_url(file.location):
            folder, name = _split(location_beside(file))
            if open_destination(folder).size_bytes(name) != found.path.stat().st_size:
                return False  # the copy in the cache folder is one of an earlier file
        elif _path(file).stat().st_mtime_ns < Path(file.location).stat().st_mtime_ns:
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


def _local_copy(file: SampleFile, head: Head) -> Path:
    """Return the path of a local copy of a remote file of seek points, in the cache folder; it is made if necessary.

    Args:
        file: The remote data file.
        head: Head that the file of seek points must have.

    Raises:
        OSError: The file of seek points cannot be read, or the copy cannot be written.
        SourceError: There is no file of seek points.
    """
    path = path_in_cache(_FOLDER, os.fsencode(file.location) + head.pack(), SUFFIX)
    with suppress(OSError, DamagedFileError):  # there is no copy yet
        SeekPointFile(path, head)
        return path
    blob = open_blob(location_beside(file))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as out:
        for start in range(0, blob.size_bytes, _PIECE_BYTES):
            (data,) = blob.read([(start, min(start + _PIECE_BYTES, blob.size_bytes))])
            out.write(data)
    return path


def make_room(path: Path) -> int:
    """Make room for the file of a dataset in the cache folder, and return the size in bytes to which it may grow.

    All files of seek points together take at most `default_limit_bytes`. If the files of other datasets leave less than a
    quarter of that, the least recently used ones are removed. A process that has a removed file open goes on reading it, and
    creates a new one when it stores more.

    Args:
        path: Path of the dataset's file, which must exist.

    Raises:
        OSError: The folder cannot be listed.
    """
    files = []
    for other in path.parent.glob(f"*{SUFFIX}"):
        with suppress(FileNotFoundError):  # another process removed it
            status = other.stat()
            files.append(CachedFile(status.st_mtime, str(other), status.st_size))
    most = default_limit_bytes(path.parent, sum(file.size_bytes for file in files))
    others = (file for file in files if file.path != str(path))
    return most - remove_oldest(others, int((1 - _LEAST_SHARE) * most))


def make_head(dataset: Dataset, version: int) -> Head:
    """Return the head of a dataset's file of seek points.

    Args:
        dataset: The dataset.
        version: `Finder.version` of the seek points.
    """
    identity = getattr(dataset, "cache_identity", None) or dataset.fingerprint
    if not re.fullmatch("[0-9a-f]{32}", identity):  # a user's own class of dataset
        identity = fingerprint_of(identity)
    return Head(identity, version, len(dataset))


def cache_path(head: Head) -> Path:
    """Return the path of a dataset's file in the cache folder; it depends on the head, so each version has its own file."""
    return path_in_cache(_FOLDER, head.pack(), SUFFIX)


def rewrite_in_order(head: Head) -> None:
    """Rewrite a dataset's file in the cache folder in the order of the samples, without unused bytes.

    The bytes of the file then depend only on the seek points in it. A process that has the old file open goes on using it.

    Raises:
        OSError: The file cannot be written.
    """
    path = cache_path(head)
    # Without a file there is nothing to do.
    with suppress(FileNotFoundError), build_once(path) as part:
        file = SeekPointFile(path, head)
        if not _is_in_order(file):
            part.file.writelines(encode_pieces(head, lambda: file.entries(0, head.num_samples)))
            part.publish(to_disk=True)


def _is_in_order(file: SeekPointFile) -> bool:
    end = file.head.first_row
    for _, slot in file.slots(0, file.head.num_samples):
        if slot.start != end:
            return False
        end += slot.num_bytes
    return end == file.path.stat().st_size


class CacheFile:
    """The file of a dataset in the cache folder, which stores and returns seek points; safe to use from any thread.

    If the file is full or the folder cannot be written, a warning is logged once, and nothing more is stored.

    Args:
        head: Head of the file.
        limit_bytes: Largest size of the file; None takes the result of `make_room`.

    Attributes:
        is_writable: Whether more seek points can be stored.
    """

    def __init__(self, head: Head, limit_bytes: int | None = None) -> None:
        self.path, self.is_writable = cache_path(head), True
        self._head, self._limit_bytes = head, limit_bytes
        self._file: SeekPointFile | None = None
        self._opening = threading.Lock()

    def file(self) -> SeekPointFile | None:
        """Return the open file; None if it does not exist or does not fit."""
        return self._file or self._open()

    def used_slots(self) -> NDArray[np.bool_]:
        """Return which samples have a slot, bool [samples]; all False if there is no file."""
        file = self.file()
        return file.used_slots() if file else np.zeros(self._head.num_samples, np.bool_)

    def store(self, entries: Sequence[Entry]) -> None:
        """Store seek points, as many as the limit of the file allows."""
        if not self.is_writable:
            return
        try:
            file, limit_bytes = self._open_to_add()
            file.add(entries, limit_bytes)
        except FileFullError:
            self._stop("it has reached its largest size", "gpu-aug cache --remove checkpoints")
        except (OSError, DamagedFileError) as error:
            self._stop(reason_of(error), "set GPU_AUG_CACHE to a folder that can be written")

    def _stop(self, reason: str, advice: str) -> None:
        with self._opening:
            was_writable, self.is_writable = self.is_writable, False
        if was_writable:
            _log.warning(
                "seek points of JPEGs cannot be stored in %s (%s): later runs find them again; %s, with room for 2 %% of the data",
                self.path,
                reason,
                advice,
            )

    def _open(self) -> SeekPointFile | None:
        # Without a file all seek points are found again.
        with suppress(OSError, DamagedFileError), self._opening:
            if self._file is None:
                self._file = SeekPointFile(self.path, self._head)
                os.utime(self.path)  # for `make_room`: many file systems do not record reading
        return self._file

    def _open_to_add(self) -> tuple[SeekPointFile, int]:
        """Return the file to add to, and its largest size in bytes; a new file is created if there is none that fits."""
        with self._opening:
            file = self._file
            if file is None or not file.is_writable or not file.is_current():
                self._file = file = open_to_add(self.path, self._head)
            if self._limit_bytes is None:
                self._limit_bytes = make_room(self.path)
            return file, self._limit_bytes
