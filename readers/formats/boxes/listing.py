"""The files below a folder, in a fixed order."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from readers.formats.splits import (
    canonical,
    in_order,
    no_such_split,
    several_splits,
    split_alone,
)
from readers.sample import SourceError
from readers.storage.unreadable import is_transient, reason_of

_HEAD_BYTES = 4096


def files_below(root: Path, folder: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the folders below root/folder and the names of their files, sorted; hidden ones are passed over.

    Links to folders are followed, but not those that lead to a folder around them.

    Args:
        root: Names are relative to it.
        folder: Where to begin, relative to it.

    Raises:
        SourceError: A folder cannot be listed.
    """

    def refuse(error: OSError) -> None:
        raise SourceError(
            f"{error.filename} cannot be listed ({error.strerror}): give a folder that can be read"
        ) from None

    for path, folders, files in os.walk(root / folder, onerror=refuse, followlinks=True):
        folders[:] = sorted(
            name for name in folders if name[0] != "." and not _leads_back(Path(path, name))
        )
        inside = os.path.relpath(path, root)
        prefix = "" if inside == "." else f"{inside}/"
        yield prefix, sorted(name for name in files if name[0] != ".")


def stem_of(name: str) -> str:
    """A file's name without its last ending: ``a.b`` of ``a.b.jpg``."""
    return name.rpartition(".")[0] or name


def head_of(path: Path) -> bytes:
    """Return the first 4096 bytes of a file, which tell its kind; none where it is no file.

    Raises:
        SourceError: The storage failed: data must not be taken for another format because of that.
    """
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        if is_transient(error):
            raise SourceError(
                f"{path} cannot be read ({reason_of(error)}): try again, or give a file that can be read"
            ) from None
        return b""


def inside_split(root: Path, names: Iterable[str], split: str | None) -> Callable[[str], bool]:
    """Return what tells whether a file is one of a split, by the folder in root in which it lies.

    Args:
        root: The folder, for errors.
        names: Files with annotations, relative to it.
        split: Name of the split, None where there is but one.

    Raises:
        SourceError: There are several splits and none is asked for, or no such split.
    """
    folders = {name.partition("/")[0] for name in names if "/" in name}
    told = {folder: one for folder in folders if (one := split_alone(folder))}
    splits = in_order(told.values())
    if split is None:
        if len(splits) > 1:
            raise SourceError(several_splits(str(root), splits, ""))
        return lambda name: bool(name)
    inside = {folder for folder, one in told.items() if one in (split, canonical(split))}
    if not inside:
        raise SourceError(no_such_split(str(root), split, splits))
    return lambda name: name.partition("/")[0] in inside


def _leads_back(folder: Path) -> bool:
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())
