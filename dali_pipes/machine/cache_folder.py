"""List the files in the cache folder, and remove unused ones."""

import fcntl
import re
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dali_pipes.errors import LoaderError
from gpu_aug.compiled import cache as compiled
from readers.storage.cache_folder import cache_folder
from readers.storage.remote.cache import clear_blocks

# Suffix of files that are being written, while their writer holds a lock on them.
_PART = ".part"


@dataclass(frozen=True, slots=True)
class Kind:
    """The files of one kind in the cache folder.

    Attributes:
        name: Name of the kind.
        folder: Folder of the files.
        files: Count of files.
        bytes: Sum of the files' sizes in bytes.
        last_used: Time of the last read or write of any of the files, in seconds since 1970, as far as the file system
            records it; None without files.
        what: A text about the contents of the files, and the cost of removing them.
    """

    name: str
    folder: Path
    files: int
    bytes: int
    last_used: float | None
    what: str


@dataclass(frozen=True, slots=True)
class Removed:
    """The result of removing files of one kind.

    Attributes:
        name: Name of the kind.
        files: Count of removed files.
        bytes: Sum of the removed files' sizes in bytes.
        kept: Files that were kept: a process of this machine has mapped them, or they cannot be removed.
    """

    name: str
    files: int
    bytes: int
    kept: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class _Location:
    """Where files of one kind are: their folder, the pattern of their full names, and a glob for the folder."""

    folder: str
    name: re.Pattern[str]
    what: str
    glob: str = "*"


_LOCATIONS: Mapping[str, _Location] = {
    "blocks": _Location(
        "blocks",
        re.compile(r"[0-9a-f]{32}"),
        "blocks of remote files; they are read again when they are needed",
        glob="??/*",
    ),
    "indexes": _Location(
        "",
        re.compile(r"[0-9a-f]{32}.*\.gpuaug-index(\.part)?"),
        "indexes of shards in folders that are not writable; they are built again, by one pass over the shards",
    ),
    "videos": _Location(
        "",
        re.compile(r".+\.gpuaug-videos(\.part)?"),
        "indexes of videos in folders that are not writable; they are built again, by one pass over the videos",
    ),
    "checkpoints": _Location(
        "checkpoints",
        re.compile(r"[0-9a-f]{32}\.gpuaug-checkpoints(\.part)?"),
        "seek points of JPEGs; they are found again, by one pass over each file when it comes",
    ),
    "sizes": _Location(
        "sizes",
        re.compile(r"[0-9a-f]{32}\.npy(\.part)?"),
        "sizes of images, for buckets; they are read again from the headers",
    ),
    "unpacked": _Location(
        "unpacked",
        re.compile(r"[0-9a-f]{32}(\.part)?"),
        "decompressed shards; they are made again, but a run that reads them needs them to its end",
    ),
    "compiled": _Location(
        "compiled",
        re.compile(r".+-[0-9a-f]{32}\.code"),
        "compiled functions; they are compiled again, for half a minute",
    ),
}

KINDS = tuple(_LOCATIONS)
"""Kinds of files that can be removed."""


def list_cache() -> list[Kind]:
    """Return the kinds of files in the cache folder, ``$GPU_AUG_CACHE`` or ``~/.cache/gpu-aug``.

    Returns:
        One entry for each of KINDS, even if it has no files.

    Example:
        >>> from dali_pipes.machine.cache_folder import list_cache
        >>> [kind.name for kind in list_cache()][:3]
        ['blocks', 'indexes', 'videos']
    """
    return [_kind(name) for name in KINDS]


def remove(kind: str) -> list[Removed]:
    """Remove files of the cache folder; other processes may use the cache meanwhile.

    Only files with a known location and name are removed. Files that a process of this machine has mapped are kept, and
    so are files that are being written. If several machines share the folder, processes of the other machines are not
    visible: their runs read blocks, indexes and sizes again.

    Args:
        kind: One of KINDS, or "all" for each of them.

    Raises:
        LoaderError: The kind is unknown.

    Example:
        >>> from dali_pipes.machine.cache_folder import remove
        >>> [(removed.name, removed.files) for removed in remove("unpacked")]
        [('unpacked', 0)]
    """
    if kind not in (*KINDS, "all"):
        raise LoaderError(f"kind={kind!r} is not allowed; give one of {', '.join(KINDS)}, or all")
    in_use = _mapped_files()
    return [_remove(name, in_use) for name in (KINDS if kind == "all" else (kind,))]


def _remove(name: str, in_use: Set[Path]) -> Removed:
    files = _files(name)
    if name == "blocks":
        try:
            return Removed(name, *clear_blocks(_folder(name)))
        except OSError:  # the folder is not writable, or a suspended process holds its lock
            return Removed(name, 0, 0, tuple(files))
    kept: list[Path] = []
    sizes: list[int] = []
    for path in files:
        with suppress(FileNotFoundError):  # another process removed it
            num_bytes = path.stat().st_size
            if path not in in_use and _unlink(path):
                sizes.append(num_bytes)
            else:
                kept.append(path)
    return Removed(name, len(sizes), sum(sizes), tuple(kept))


def _unlink(path: Path) -> bool:
    """Remove a file unless it is being written; return whether it was removed."""
    try:
        with path.open("rb") as file:
            if path.suffix == _PART:
                # A writer holds the lock; a process that waits for the lock then sees that the file is gone.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True


def _folder(name: str) -> Path:
    # Compiled code is elsewhere if Numba's own NUMBA_CACHE_DIR is set.
    own = compiled.folder() if name == "compiled" else None
    return own or cache_folder() / _LOCATIONS[name].folder


def _files(name: str) -> list[Path]:
    """Return the files of a kind, sorted, without links; empty if the folder does not exist or is not readable."""
    location = _LOCATIONS[name]
    return [
        path
        for path in sorted(_folder(name).glob(location.glob))
        if location.name.fullmatch(path.name) and path.is_file() and not path.is_symlink()
    ]


def _kind(name: str) -> Kind:
    states = []
    for path in _files(name):
        # Another process may delete files of the cache meanwhile.
        with suppress(OSError):
            states.append(path.stat())
    size = sum(state.st_size for state in states)
    used = max((max(state.st_atime, state.st_mtime) for state in states), default=None)
    return Kind(name, _folder(name), len(states), size, used, _LOCATIONS[name].what)


def _mapped_files() -> set[Path]:
    """Return the files that processes of this machine have mapped into memory, as far as this user can see them.

    A process that has a file open without a mapping keeps its contents: only the name is removed.
    """
    mapped: set[Path] = set()
    for process in Path("/proc").glob("[0-9]*"):
        # Processes end meanwhile, and those of other users are not readable; both count as having no files.
        with suppress(OSError):
            lines = (process / "maps").read_text(errors="surrogateescape").splitlines()
            mapped |= {Path(line.split(maxsplit=5)[5]) for line in lines if line.count(" /")}
    return mapped
