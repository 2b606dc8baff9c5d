"""The files that `tile` copies: a folder with everything below it, or shards."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from readers.prepare.errors import PrepareError
from readers.prepare.tile_copy import is_shard
from readers.storage.paths import expand_braces, leads_back

FOLDER = ".gpuaug-plan"  # tells of a tiling, at its destination
BESIDE = (
    ".tar.gpuaug-index",
    ".gpuaug-checkpoints",
)  # belong to a shard and would not fit its copy


class Entry(NamedTuple):
    """A file of a tree.

    Attributes:
        source: Its path or URL.
        name: That of its copy, relative to the destination.
        size_bytes: 0 where it cannot be looked at.
        stamp: Changes when the file does; "" where the times of the copies say so.
    """

    source: str
    name: str
    size_bytes: int
    stamp: str = ""


class Tree:
    """The files of a source in an order that does not change, each with the name of its copy.

    Args:
        source: A folder, a .tar shard, or a pattern of shards.
        destination: The folder of the copies, to see that it is apart from the source.

    Attributes:
        source: The source as an absolute path or pattern.

    Raises:
        PrepareError: The source does not exist or is none of these, or source and destination hold
            one another.
    """

    def __init__(self, source: str, destination: Path | None = None) -> None:
        self._root = Path(source)
        self.source = str(self._root.absolute())
        self._shards: list[Path] = []
        if not self._root.is_dir():
            self._shards = _shards(source)
        if destination is not None:
            self._check_apart(destination)

    def files(self) -> Iterator[tuple[Path, str]]:
        """Every file, and the name of its copy; links are followed, and indexes of shards left out.

        Raises:
            PrepareError: A folder cannot be listed.
        """
        for shard in self._shards:
            yield shard, shard.name
        for folder, names in self._folders():
            for name in sorted(names):
                if not name.lower().endswith(BESIDE):
                    path = Path(folder, name)
                    yield path, os.path.relpath(path, self._root)

    def has(self, name: str) -> bool:
        """Whether there is a file whose copy has this name."""
        if self._shards:
            return any(shard.name == name for shard in self._shards)
        return os.path.lexists(self._root / name)

    def entries(self) -> Iterator[Entry]:
        """Every file; see `files`."""
        for path, name in self.files():
            yield Entry(str(path.absolute()), name, size_bytes(path))

    def make_folders(self, destination: Path) -> None:
        """Make the folders of the copies, the empty ones as well."""
        for folder, _ in self._folders():
            (destination / os.path.relpath(folder, self._root)).mkdir(parents=True, exist_ok=True)

    def _folders(self) -> Iterator[tuple[str, list[str]]]:
        if self._shards:
            return
        for folder, folders, names in os.walk(self._root, followlinks=True, onerror=_raise):
            folders[:] = sorted(
                name for name in folders if name != FOLDER and not leads_back(Path(folder, name))
            )
            yield folder, names

    def _check_apart(self, destination: Path) -> None:
        if destination.exists() and not destination.is_dir():
            raise PrepareError(f"{destination} is a file: give the name of a folder")
        target = destination.resolve()
        if self._shards:
            taken = any(shard.parent.resolve() == target for shard in self._shards)
        else:
            root = self._root.resolve()
            taken = target.is_relative_to(root) or root.is_relative_to(target)
        if taken:
            raise not_apart(str(destination))


def not_apart(destination: str) -> PrepareError:
    """The error for copies that would lie among their originals."""
    return PrepareError(
        f"the copies cannot be written to {destination}, which holds the originals or "
        "lies among them: give a folder elsewhere"
    )


def size_bytes(path: Path) -> int:
    """Size of a file, 0 where it cannot be looked at."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _shards(source: str) -> list[Path]:
    shards = [Path(name) for name in ([source] if Path(source).exists() else expand_braces(source))]
    for shard in shards:
        if not shard.is_file():
            raise PrepareError(f"{shard} does not exist: give a folder or .tar shards")
        if not is_shard(shard.name):
            raise PrepareError(f"{shard} is no .tar shard: give the folder that it lies in")
    if len({shard.name for shard in shards}) < len(shards):
        raise PrepareError(f"two shards of {source} have the same name: take one folder at a time")
    return shards


def _raise(error: OSError) -> NoReturn:
    raise PrepareError(f"{error.filename} cannot be listed ({error.strerror}): make it readable")
