"""What lies in the cache folder, and what of it may go."""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dali_pipes.errors import LoaderError
from gpu_aug.compiled import cache as compiled
from readers.storage.cache_folder import cache_folder
from readers.storage.remote.cache import clear_blocks

_PART = ".part"  # the end of names of files that are being written, under a lock


@dataclass(frozen=True, slots=True)
class Kind:
    """Files of one kind in the cache folder.

    Attributes:
        name: What it is called.
        folder: Where they lie.
        files: How many there are.
        bytes: What they take, by their sizes.
        last_used: When one of them was last read or written, in seconds since 1970, as far as the file system says;
            None where there is none.
        what: What they are, and what their removal costs.
        ours: Whether `remove` removes them; Hugging Face's files belong to another library.
    """

    name: str
    folder: Path
    files: int
    bytes: int
    last_used: float | None
    what: str
    ours: bool = True


@dataclass(frozen=True, slots=True)
class Removed:
    """What became of the files of one kind.

    Attributes:
        name: The kind.
        files: How many were removed.
        bytes: What they took.
        kept: Files that stay: a process of this machine has them open, or they cannot be removed.
    """

    name: str
    files: int
    bytes: int
    kept: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    folder: str
    files: re.Pattern[str]
    what: str


_PLACES: Mapping[str, _Place] = {
    "blocks": _Place(
        "blocks",
        re.compile(r"[0-9a-f]{32}"),
        "blocks of remote files; they are read again when they are needed",
    ),
    "indexes": _Place(
        "",
        re.compile(r"[0-9a-f]{32}.*\.gpuaug-index(\.part)?"),
        "indexes of shards beside which nothing can be written; they are built again, by one pass over the shards",
    ),
    "videos": _Place(
        "",
        re.compile(r".+\.gpuaug-videos(\.part)?"),
        "indexes of videos beside which nothing can be written; they are built again, by one pass over the videos",
    ),
    "checkpoints": _Place(
        "checkpoints",
        re.compile(r"[0-9a-f]{32}\.gpuaug-checkpoints"),
        "where in JPEGs decoding can begin; it is found again, by one pass over each file when it comes",
    ),
    "sizes": _Place(
        "sizes",
        re.compile(r"[0-9a-f]{32}\.npy"),
        "sizes of images, for buckets; they are read again from the headers",
    ),
    "unpacked": _Place(
        "unpacked",
        re.compile(r"[0-9a-f]{32}(\.part)?"),
        "decompressed shards; they are made again, but a run that reads them needs them to its end",
    ),
    "compiled": _Place(
        "compiled",
        re.compile(r".+-[0-9a-f]{32}\.code"),
        "compiled functions; they are compiled again, for half a minute",
    ),
}

KINDS = tuple(_PLACES)
"""What can be removed."""

HUB = "hub"


def list_cache() -> list[Kind]:
    """Look at what lies in the cache folder, ``$GPU_AUG_CACHE`` or ``~/.cache/gpu-aug``.

    Returns:
        Each of KINDS, those that are empty too; "hub" for the files of Hugging Face's library where there are some;
        and "other" for what is none of these, which nobody here removes.

    Example:
        >>> from dali_pipes.machine.cache_folder import list_cache
        >>> [kind.name for kind in list_cache()][:3]
        ['blocks', 'indexes', 'videos']
    """
    found = [
        _kind(name, _folder(name), list(_files(name)), place.what)
        for name, place in _PLACES.items()
    ]
    if (hub := _hub_folder()) is not None:
        what = "downloads of Hugging Face's library, which other programs use too; hf cache rm removes them"
        found.append(_kind(HUB, hub, list(_all_files(hub)), what, ours=False))
    if others := _others():
        what = "files that are none of these; they stay"
        found.append(_kind("other", cache_folder(), others, what, ours=False))
    return found


def remove(kind: str) -> list[Removed]:
    """Remove files of the cache folder; other processes may go on using it meanwhile.

    Nothing but files that are known by their place and name is removed. What a process of this machine has open stays,
    and so does what one is just writing. On a folder that several machines share the others are not seen: their runs
    read blocks, indexes and sizes anew.

    Args:
        kind: One of KINDS, or "all" for each of them.

    Raises:
        LoaderError: There is no such kind, or it is not ours.

    Example:
        >>> from dali_pipes.machine.cache_folder import remove
        >>> [(removed.name, removed.files) for removed in remove("unpacked")]
        [('unpacked', 0)]
    """
    if kind == HUB:
        raise LoaderError(
            f"kind={kind!r} is not allowed: these files belong to Hugging Face's library; remove them with hf cache rm"
        )
    if kind not in (*KINDS, "all"):
        raise LoaderError(f"kind={kind!r} is not allowed; give one of {', '.join(KINDS)}, or all")
    in_use = _open_files()
    return [_removed(name, in_use) for name in (KINDS if kind == "all" else (kind,))]


def _removed(name: str, in_use: Set[Path]) -> Removed:
    if name == "blocks":
        try:
            return Removed(name, *clear_blocks(_folder(name)))
        except OSError:  # it cannot be written to, or who holds its lock was stopped
            return Removed(name, 0, 0, tuple(_files(name)))
    kept: list[Path] = []
    count = size = 0
    for path in list(_files(name)):
        with suppress(FileNotFoundError):
            num_bytes = path.stat().st_size
            if path in in_use or not _unlink(path):
                kept.append(path)
            else:
                count, size = count + 1, size + num_bytes
    return Removed(name, count, size, tuple(kept))


def _unlink(path: Path) -> bool:
    """Remove a file, but not one that is being written."""
    try:
        if path.suffix != _PART:
            path.unlink()
            return True
        with path.open(
            "rb"
        ) as file:  # its writer has its lock; who waits for it looks whether it is still there
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            return True
    except FileNotFoundError:
        raise
    except OSError:
        return False


def _folder(name: str) -> Path:
    if name == "compiled":
        return compiled.folder() or cache_folder() / name
    return cache_folder() / _PLACES[name].folder


def _files(name: str) -> Iterator[Path]:
    """The files of a kind."""
    folder, pattern = _folder(name), _PLACES[name].files
    folders = [folder]
    if name == "blocks":
        folders = [path for path in _entries(folder) if len(path.name) == 2 and path.is_dir()]
    for one in folders:
        for path in _entries(one):
            if pattern.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                yield path


def _others() -> list[Path]:
    """Files in the cache folder that are of no kind, but for what belongs to the kinds: locks and accounts."""
    known = {path for name in KINDS for path in _files(name)}
    helpers = {_folder("blocks") / name for name in ("CACHEDIR.TAG", "lock", "total")}
    return [
        path
        for path in _all_files(cache_folder())
        if path not in known and path not in helpers and path.suffix != ".lock"
    ]


def _entries(folder: Path) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # it is not there, or not for us
        return []


def _all_files(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _hub_folder() -> Path | None:
    try:
        from huggingface_hub import constants
    except ImportError:
        return None
    folder = Path(constants.HF_HUB_CACHE)
    return folder if folder.is_dir() else None


def _kind(name: str, folder: Path, files: Sequence[Path], what: str, *, ours: bool = True) -> Kind:
    states = []
    for path in files:
        with suppress(OSError):
            states.append(path.stat())
    return Kind(
        name,
        folder,
        len(states),
        sum(state.st_size for state in states),
        max((max(state.st_atime, state.st_mtime) for state in states), default=None),
        what,
        ours,
    )


def _open_files() -> set[Path]:
    """Files that processes of this machine have open or mapped, as far as this user may know."""
    found: set[Path] = set()
    for process in _entries(Path("/proc")):
        if not process.name.isdigit():
            continue
        with suppress(OSError):
            lines = (process / "maps").read_text(errors="surrogateescape").splitlines()
            found |= {Path(line.split(maxsplit=5)[5]) for line in lines if line.count(" /")}
        for link in _entries(process / "fd"):
            with suppress(OSError):
                found.add(Path(os.readlink(link)))  # noqa: PTH115 - what it says, even of what is gone
    return found
