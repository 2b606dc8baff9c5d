"""The folder for files that readers keep between runs, and the limits of what they take there."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_MOST_BYTES = 10_000_000_000
"""10 GB hold the blocks or seek points of most datasets, and are missed on no disk that holds a dataset."""


def cache_folder() -> Path:
    """Return ``$GPU_AUG_CACHE``, or ``~/.cache/gpu-aug`` if that is not set; it may not exist yet.

    `gpu_aug.compiled.cache` has the same folder.
    """
    given = os.environ.get("GPU_AUG_CACHE") or "~/.cache/gpu-aug"
    return Path(given).expanduser().absolute()


def default_limit_bytes(folder: Path, used_bytes: int) -> int:
    """Return how much the files in a folder may take: 10 GB, or a tenth of the disk that is free or theirs."""
    return min(_MOST_BYTES, (used_bytes + shutil.disk_usage(folder).free) // 10)


def path_in_cache(folder: str, name: str | bytes, suffix: str = "") -> Path:
    """Return the path of a file in a subfolder of the cache folder, by a name of any length, such as a URL."""
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()
    return cache_folder() / folder / f"{digest[:32]}{suffix}"


class CachedFile(NamedTuple):
    """A file that can be removed to make room.

    Attributes:
        last_used: Time of the last use, in any unit.
        path: Path of the file, as text: there may be very many.
        size_bytes: Disk space of the file.
    """

    last_used: float
    path: str
    size_bytes: int


def remove_oldest(files: Iterable[CachedFile], limit_bytes: int) -> int:
    """Remove the least recently used files until the others take at most this much; return how much they take."""
    oldest_first = sorted(files)
    total = sum(file.size_bytes for file in oldest_first)
    for file in oldest_first:
        if total <= limit_bytes:
            break
        with suppress(FileNotFoundError):  # another process removed it
            os.unlink(file.path)  # noqa: PTH108  # these may be very many
        total -= file.size_bytes
    return total
