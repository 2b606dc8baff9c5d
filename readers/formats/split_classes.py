"""Classes of several splits in folders: numbers are those of the training data in all of them."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from readers.formats.detect_files import Detected
from readers.formats.registry import Format
from readers.formats.splits import split_alone


def with_classes_of_train(found: Detected, root: Path, splits: Mapping[str, str]) -> Detected:
    """Return a split of class folders with the classes that the training data has.

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


def told_of_other_classes(found: Format, folder: str) -> list[str]:
    """A sentence if a split that was opened by its folder numbers classes otherwise than the training data beside it."""
    root = Path(folder).absolute()
    if found.name != "folder" or split_alone(root.name) in (None, "train"):
        return []
    own: list[str] = []
    others: list[str] = []
    with suppress(OSError):  # the folder around it is nobody's business
        train = [
            root.parent / name
            for name in class_folders(root.parent)
            if split_alone(name) == "train"
        ]
        own, others = class_folders(root), class_folders(train[0]) if len(train) == 1 else []
    if not own or not others or own == others[: len(own)]:
        return []
    return [
        f"{root} has {len(own)} classes and {train[0]} {len(others)}, so that their numbers differ: "
        f"open_dataset({str(root.parent)!r}, split={root.name!r}) gives those of the training data"
    ]


def class_folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted, without those that begin with a dot."""
    return sorted(path.name for path in folder.iterdir() if path.name[0] != "." and path.is_dir())
