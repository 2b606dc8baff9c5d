"""Classes of several splits in folders: numbers are those of the training data in all of them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from readers.detect.files import Detected
from readers.detect.registry import Format
from readers.detect.splits import split_alone
from readers.formats.path_table.metadata_folder import METADATA_NAMES
from readers.formats.path_table.read import read_table
from readers.formats.path_table.roles import find_label
from readers.labels.classes import numbering_of
from readers.plural import counted
from readers.sample import SourceError
from readers.storage.unreadable import oserror_as_source_error

_MOST_NAMED = 10  # classes in a warning


def with_classes_of_train(found: Detected, root: Path, splits: Mapping[str, str]) -> Detected:
    """Return a split of class folders with the classes of the training data.

    Args:
        found: What was detected in one of the splits.
        root: The folder of the splits.
        splits: Folder in root -> split.
    """
    train = [name for name, split in splits.items() if split == "train"]
    if found.format.name != "folder" or len(train) != 1 or found.paths == [str(root / train[0])]:
        return found
    classes = class_folders(root / train[0])
    is_flat = not class_folders(Path(found.paths[0]))
    return found if is_flat or not classes else found._replace(options={"classes": classes})


def class_mismatch_warnings(found: Format, folder: str) -> list[str]:
    """Return a warning if a split that was opened by its folder numbers its classes differently from the training data beside it."""
    root = Path(folder).absolute()
    if found.name != "folder" or split_alone(root.name) in (None, "train"):
        return []
    own: list[str] = []
    others: list[str] = []
    # A warning alone depends on the folder around, which may be closed to this user.
    with suppress(OSError, SourceError):
        train = [
            root.parent / name
            for name in class_folders(root.parent)
            if split_alone(name) == "train"
        ]
        own, others = class_folders(root), class_folders(train[0]) if len(train) == 1 else []
    if not own or not others or own == others[: len(own)]:
        return []
    return [
        f"{root} has {counted(len(own), 'class')} and {train[0]} {len(others)}, so that their numbers differ: "
        f"open_dataset({str(root.parent)!r}, split={root.name!r}) gives those of the training data"
    ]


def class_name_mismatch_warnings(file: str, label: object, names: Sequence[str]) -> list[str]:
    """Return a warning if the metadata file of a split numbers its classes differently from the training data beside it.

    Args:
        file: The metadata file.
        label: The column of labels that was asked for, or None.
        names: The classes that it has.
    """
    root = Path(file).absolute().parent
    if not names or Path(file).name not in METADATA_NAMES:
        return []
    if split_alone(root.name) in (None, "train"):
        return []
    train, others = _names_of_train(root.parent, Path(file).name, label)
    if not others or tuple(names) == others[: len(names)]:
        return []
    every = sorted({*names, *others})
    given = every if len(every) <= _MOST_NAMED else "[...]"
    return [
        f"{root} has {counted(len(names), 'class')} and {train} {len(others)}, so that their numbers differ: give both "
        f"classes={given}"
    ]


def _names_of_train(root: Path, name: str, label: object) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of the training data, and the classes that its metadata file names; none if it names none."""
    with suppress(OSError, SourceError, ValueError):  # a warning alone depends on it, as above
        train = [root / one for one in class_folders(root) if split_alone(one) == "train"]
        if len(train) == 1 and (train[0] / name).is_file():
            table = read_table(train[0] / name)
            column = label if isinstance(label, str) else find_label(table, [])[0]
            values = [value for value in table.columns.get(column or "", []) if value]
            return train[0], numbering_of(values, None).names
    return root, ()


def class_folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted, without those that begin with a dot.

    Raises:
        SourceError: It cannot be listed: classes are not numbered by a part of them.
    """
    with oserror_as_source_error(str(folder)):
        inside = [path for path in folder.iterdir() if path.name[0] != "." and path.is_dir()]
    return sorted(path.name for path in inside)
