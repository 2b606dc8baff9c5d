"""Classes of several splits in folders: numbers are those of the training data in all of them."""

from contextlib import suppress
from pathlib import Path

from readers.detect.splits import folders_in, split_alone
from readers.plural import counted
from readers.sample import SourceError


def classes_of_train(folder: Path, train: Path) -> dict[str, list[str]]:
    """Return the option that gives the folder of a split the classes of the training data; see `Format.split_options`."""
    classes = folders_in(train)
    return {"classes": classes} if classes and folders_in(folder) else {}


def class_mismatch_warnings(root: Path) -> list[str]:
    """Return a warning if a split that was opened by its folder numbers its classes differently from the training data beside it."""
    if split_alone(root.name) in (None, "train"):
        return []
    own: list[str] = []
    others: list[str] = []
    # A warning alone depends on the folder around, which may be closed to this user.
    with suppress(OSError, SourceError):
        train = [
            root.parent / name for name in folders_in(root.parent) if split_alone(name) == "train"
        ]
        own, others = folders_in(root), folders_in(train[0]) if len(train) == 1 else []
    if not own or not others or own == others[: len(own)]:
        return []
    return [
        f"{root} has {counted(len(own), 'class')} and {train[0]} {len(others)}, so that their numbers differ: "
        f"open_dataset({str(root.parent)!r}, split={root.name!r}) gives those of the training data"
    ]
