"""Where data lie: on which kind of storage, and how much memory there is to keep them near."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from readers.storage.paths import has_wildcards, is_url

StorageKind = Literal["local disk", "network disk", "memory", "remote", "unknown"]

_IN_MEMORY = ("tmpfs", "ramfs")
_OVER_NETWORK = (
    "nfs",
    "cifs",
    "smb",
    "ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "9p",
    "fuse.",
    "afs",
    "glusterfs",
    "wekafs",
)
_MEMORY_LIMITS = (
    "/sys/fs/cgroup/memory.max",  # of a container's own, version 2
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",  # and version 1
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where data lie.

    Attributes:
        kind: The kind of storage; "unknown" where no path or URL is known.
        where: The server, or the file system and where it is mounted: "ext4 on /data"; "" where that is not known.
        memory_bytes: Memory that the system would give to its page cache.
        cache_bytes: What the cache of remote blocks may hold, 0 where it is off; None where data are not remote.
    """

    kind: StorageKind
    where: str
    memory_bytes: int
    cache_bytes: int | None = None


def place_of(source: str | os.PathLike[str] | None) -> Place:
    """Say where a source lies, by its path, pattern or URL."""
    memory = memory_bytes()
    if source is None:
        return Place("unknown", "", memory)
    if is_url(os.fspath(source)):
        parts = urlsplit(os.fspath(source))
        where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        return Place("remote", where, memory, _cache_bytes(os.fspath(source)))
    mount, name = _mount_of(existing_part(source))
    where = f"{name} on {mount}" if name else ""
    if name in _IN_MEMORY:
        return Place("memory", where, memory)
    if name.startswith(_OVER_NETWORK):
        return Place("network disk", where, memory)
    return Place("local disk", where, memory)


def existing_part(source: str | os.PathLike[str]) -> Path:
    """The longest part of a path or pattern that is there: the folder before the first wildcard."""
    path = Path(source).absolute()
    while has_wildcards(str(path)) or "{" in str(path) or not path.exists():
        if path == path.parent:
            break
        path = path.parent
    return path.resolve()


def memory_bytes() -> int:
    """Memory that is free or could be: what the system says is available, within the limit of the container."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = next(
            int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")
        )
    except (OSError, StopIteration):
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in _MEMORY_LIMITS:
        try:
            found = min(found, int(Path(name).read_text()))
        except (OSError, ValueError):  # not here, or "max"
            continue
    return found


def _cache_bytes(url: str) -> int:
    from readers.storage.remote import options_of
    from readers.storage.remote.cache import open_cache

    options = options_of(url, None)
    cache = open_cache(options.cache_folder, options.cache_bytes, options.block_bytes)
    return 0 if cache is None else cache.limit_bytes


def _mount_of(path: Path) -> tuple[str, str]:
    """Where the file system of a path is mounted, and its type; two empty texts where the system does not tell."""
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return "", ""
    mounts = [(fields[1], fields[2]) for line in lines if len(fields := line.split()) > 2]
    found = [(where, name) for where, name in mounts if path.is_relative_to(where)]
    return max(found, key=lambda mount: len(mount[0]), default=("", ""))
