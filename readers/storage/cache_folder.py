"""The cache folder, in which readers store files between runs, and limits on the size of these files."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_MOST_BYTES = 10_000_000_000
"""Default limit: 10 GB hold the blocks or seek points of most datasets, and are little on a disk that holds datasets."""


def cache_folder() -> Path:
    """Return the path of the cache folder: ``$GPU_AUG_CACHE``, or ``~/.cache/gpu-aug`` if that is not set.

    The folder may not exist yet. `gpu_aug.compiled.cache` uses it, too.
    """
    given = os.environ.get("GPU_AUG_CACHE") or "~/.cache/gpu-aug"
    return Path(given).expanduser().absolute()


def default_limit_bytes(folder: Path, used_bytes: int) -> int:
    """Return the default limit for the files in a folder, in bytes: 10 GB, or less if the disk is small.

    It is at most a tenth of the disk space that is free or used by these files.

    Args:
        folder: The folder.
        used_bytes: Disk space that the files use now.
    """
    return min(_MOST_BYTES, (used_bytes + shutil.disk_usage(folder).free) // 10)


def path_in_cache(folder: str, name: str | bytes, suffix: str = "") -> Path:
    """Return the path of a file in the cache folder, whose name is the hash of a name of any length, such as a URL.

    Args:
        folder: Subfolder of the cache folder; "" for the cache folder itself.
        name: The name to hash.
        suffix: End of the file name, after the hash.
    """
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()
    return cache_folder() / folder / f"{digest[:32]}{suffix}"


class CachedFile(NamedTuple):
    """A file in a cache, which may be removed to make room.

    Attributes:
        last_used: Time of the last use, in any unit.
        path: Path of the file, as text, which takes less memory than a Path: there may be very many files.
        size_bytes: Disk space of the file.
    """

    last_used: float
    path: str
    size_bytes: int


def remove_oldest(files: Iterable[CachedFile], limit_bytes: int) -> int:
    """Remove the least recently used files until the rest take at most `limit_bytes`; return the bytes that the rest take."""
    oldest_first = sorted(files)
    total = sum(file.size_bytes for file in oldest_first)
    for file in oldest_first:
        if total <= limit_bytes:
            break
        with suppress(FileNotFoundError):  # another process removed it
            os.unlink(file.path)  # noqa: PTH108  # these may be very many
        total -= file.size_bytes
    return total
