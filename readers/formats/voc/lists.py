"""The lists in ``ImageSets``: of all pictures of a split, or of those with and without a class."""

import re
from pathlib import Path

from readers.formats.boxes.dataset import stem_of
from readers.sample import SourceError, is_image_file
from readers.storage.whole_files import read_text

_OF_CLASS = re.compile(r"(\S.*?)\s+(-1|0|1)")
_LABELS = {"1": 1, "-1": 0, "0": -1}


def splits_in(folder: Path) -> dict[str, str]:
    """Return the lists of a folder: name -> the class that a list is of, "" for lists of all.

    ``cat_train.txt`` is a list of the class ``cat`` where its first line ends in 1, -1 or 0.
    """
    found = {}
    for path in sorted(folder.glob("*.txt")):
        class_name = path.stem.rpartition("_")[0]
        found[path.stem] = class_name if class_name and _is_of_class(path) else ""
    return found


def read_list(path: Path) -> list[tuple[str, int]]:
    """Return the pictures of a list without their endings, and the label of each.

    The label is -1 in a list of all; in one of a class 1 where the picture has it, 0 where not, and -1 where
    only objects of it are there that are hard to recognise, which the list says by 0.

    Raises:
        SourceError: It cannot be read, names nothing, or one picture twice.
    """
    found: dict[str, int] = {}
    of_class = _is_of_class(path)
    for number, line in enumerate(read_text(path, "a list of pictures").split("\n"), start=1):
        name, label = line.strip(), -1
        if not name:
            continue
        if of_class:
            told = _OF_CLASS.fullmatch(name)
            if told is None:
                raise SourceError(
                    f"{path}:{number} must be a picture and 1, -1 or 0, as the first line is"
                )
            name, label = told[1], _LABELS[told[2]]
        name = stem_of(name) if is_image_file(name) else name
        if name in found:
            raise SourceError(f"{path}:{number} names {name} a second time: a split has it once")
        found[name] = label
    if not found:
        raise SourceError(f"{path} names no pictures: write a name without ending in each line")
    return list(found.items())


def _is_of_class(path: Path) -> bool:
    if "_" not in path.stem:
        return False
    first = next(
        (
            line.strip()
            for line in read_text(path, "a list of pictures").split("\n")
            if line.strip()
        ),
        "",
    )
    return _OF_CLASS.fullmatch(first) is not None
