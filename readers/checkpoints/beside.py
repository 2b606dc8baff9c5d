"""The checkpoints beside a file of many samples, written whole and then only read."""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from readers.checkpoints.checkpoint_file import CheckpointFile
from readers.checkpoints.layout import DamagedCheckpointsError, Entry, Head, laid_out
from readers.checkpoints.sample_file import SUFFIX, SampleFile
from readers.sample import ReadersError
from readers.storage.atomic_file import atomic_file
from readers.storage.blob import is_url, open_blob
from readers.storage.cache_folder import cache_folder
from readers.storage.destination import open_destination
from readers.storage.paths import with_options_of, with_path

_PIECE_BYTES = 1 << 23


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
    with suppress(OSError, DamagedCheckpointsError):  # there is no copy yet
        CheckpointFile(path, head)
        return path
    blob = open_blob(beside_location(file))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as out:
        for start in range(0, blob.size_bytes, _PIECE_BYTES):
            (data,) = blob.read([(start, min(start + _PIECE_BYTES, blob.size_bytes))])
            out.write(data)
    return path
