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
from readers.storage.paths import leads_back
from readers.storage.unreadable import refuse_folder_error
from readers.storage.whole_files import read_head

_HEAD_BYTES = 4096
_ANNOTATIONS = (".xml", ".json")


def files_below(root: Path, folder: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the folders below root/folder and the names of their files, sorted; hidden ones are passed over.

    A folder that is called like an annotation (``1.xml``) counts as a file too, which cannot be read: passed over it would be
    an annotation that is not there. Links to folders are followed, but not those that lead to a folder around them.

    Args:
        root: Names are relative to it.
        folder: Where to begin, relative to it.

    Raises:
        SourceError: A folder cannot be listed.
    """
    for path, folders, files in os.walk(
        root / folder, onerror=refuse_folder_error, followlinks=True
    ):
        folders[:] = sorted(
            name for name in folders if name[0] != "." and not leads_back(Path(path, name))
        )
        files += [name for name in folders if name.lower().endswith(_ANNOTATIONS)]
        inside = os.path.relpath(path, root)
        prefix = "" if inside == "." else f"{inside}/"
        yield prefix, sorted(name for name in files if name[0] != ".")


def stem_of(name: str) -> str:
    """A file's name without its last ending: ``a.b`` of ``a.b.jpg``."""
    return name.rpartition(".")[0] or name


def head_of(path: Path) -> bytes:
    """The first 4096 bytes of a file, which tell its kind; see `readers.storage.whole_files.read_head`."""
    return read_head(path, _HEAD_BYTES)


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
