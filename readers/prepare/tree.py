"""The files that `tile` copies: a folder with everything below it, or shards."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from readers.prepare.errors import PrepareError
from readers.storage.paths import expand_braces

_SHARD = ".tar"
_INDEX = ".tar.gpuaug-index"  # belongs to a shard and would not fit its copy


class Copy(NamedTuple):
    """A file to read, and where its copy goes."""

    source: Path
    target: Path

    @property
    def is_shard(self) -> bool:
        """Whether the name is that of a tar shard."""
        return self.source.name.lower().endswith(_SHARD)


class Tree:
    """The files of a source in an order that does not change, each with the path of its copy.

    Args:
        source: A folder, a .tar shard, or a pattern of shards.
        destination: The folder of the copies.

    Raises:
        PrepareError: The source does not exist or is none of these, or source and destination hold
            one another.
    """

    def __init__(self, source: str, destination: Path) -> None:
        self._destination = destination
        self._root = Path(source)
        self._shards: list[Path] = []
        if not self._root.is_dir():
            self._shards = _shards(source)
        if destination.exists() and not destination.is_dir():
            raise PrepareError(f"{destination} is a file: give the name of a folder")
        self._check_apart()

    def files(self) -> Iterator[Copy]:
        """Every file; links are followed, and indexes of shards left out.

        Raises:
            PrepareError: A folder cannot be listed.
        """
        for shard in self._shards:
            yield Copy(shard, self._destination / shard.name)
        for folder, names in self._folders():
            for name in sorted(names):
                if not name.lower().endswith(_INDEX):
                    yield Copy(Path(folder, name), self._target(folder) / name)

    def make_folders(self) -> None:
        """Make the folders of the copies, the empty ones as well."""
        for folder, _ in self._folders():
            self._target(folder).mkdir(parents=True, exist_ok=True)

    def _folders(self) -> Iterator[tuple[str, list[str]]]:
        if self._shards:
            return
        for folder, folders, names in os.walk(self._root, followlinks=True, onerror=_raise):
            folders[:] = sorted(name for name in folders if not _is_loop(Path(folder, name)))
            yield folder, names

    def _target(self, folder: str) -> Path:
        return self._destination / os.path.relpath(folder, self._root)

    def _check_apart(self) -> None:
        target = self._destination.resolve()
        if self._shards:
            taken = any(shard.parent.resolve() == target for shard in self._shards)
        else:
            root = self._root.resolve()
            taken = target.is_relative_to(root) or root.is_relative_to(target)
        if taken:
            raise PrepareError(
                f"the copies cannot be written to {self._destination}, which holds the originals or "
                "lies among them: give a folder elsewhere"
            )


def _shards(source: str) -> list[Path]:
    shards = [Path(name) for name in ([source] if Path(source).exists() else expand_braces(source))]
    for shard in shards:
        if not shard.is_file():
            raise PrepareError(f"{shard} does not exist: give a folder or .tar shards")
        if not Copy(shard, shard).is_shard:
            raise PrepareError(f"{shard} is no .tar shard: give the folder that it lies in")
    if len({shard.name for shard in shards}) < len(shards):
        raise PrepareError(f"two shards of {source} have the same name: take one folder at a time")
    return shards


def _is_loop(folder: Path) -> bool:
    """Whether a folder is a link to one that holds it."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def _raise(error: OSError) -> NoReturn:
    raise PrepareError(f"{error.filename} cannot be listed ({error.strerror}): make it readable")
