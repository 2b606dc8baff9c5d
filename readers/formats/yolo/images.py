"""The pictures of a split of a YOLO dataset, and the files of labels that belong to them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from readers.formats.boxes.listing import files_below, stem_of
from readers.formats.left_out import LeftOut
from readers.formats.yolo.config import Config
from readers.sample import SourceError, is_image_file
from readers.storage.whole_files import read_text

_LOOKED_AT = 20  # pictures of a list
_MPO = ".mpo"  # of stereo cameras: a JPEG with another behind it


class Images(NamedTuple):
    """The pictures of a split.

    Attributes:
        names: Relative to the root, sorted.
        remarks: Sentences for people.
    """

    names: list[str]
    remarks: list[str]


def find_root(config: Config, root: Path | None) -> Path:
    """Return the folder that the names of a description are relative to.

    That is the given one; else ``path`` below the description's folder, if it is there; else that folder.

    Raises:
        SourceError: ``path`` leads to another folder that exists, and nothing lies beside the description.
    """
    if root is not None:
        return root
    beside = config.file.parent
    named = Path(os.path.normpath(beside / config.path))
    if named.is_relative_to(beside) and named.is_dir():
        return named
    firsts = [places[0] for places in config.splits.values()]
    if any((beside / _inside(place)).exists() for place in firsts):
        return beside
    raise SourceError(
        f"{config.file} says path: {config.path or '(nothing)'} and {firsts[0]}, which do not lie in its folder: name the "
        "folder of the dataset, open_dataset(..., root=folder)"
    )


def find_images(root: Path, places: Sequence[str], source: Path) -> Images:
    """Return the pictures of a split.

    Args:
        root: Folder of the dataset.
        places: Folders (with all that lies below them) and ``.txt`` lists, as written.
        source: The description that names them, for errors.

    Raises:
        SourceError: One is not there or leads out of the root, or none holds pictures.
    """
    names: set[str] = set()
    left_out = LeftOut(root)
    for place in places:
        inside = _below(root, place, source)
        if (root / inside).is_dir():
            for prefix, files in files_below(root, inside):
                names |= {f"{prefix}{name}" for name in files if _is_picture(name)}
                left_out.add(prefix, (name for name in files if not _is_picture(name)))
        elif inside.endswith(".txt"):
            names |= set(_read_list(root, inside))
        else:
            raise SourceError(
                f"{source} names {place}, which is no folder and no .txt list: name one of these"
            )
    if not names:
        raise SourceError(
            f"{source} names {places[0]}, where no pictures are: correct it, or put them there"
        )
    return Images(sorted(names), [*left_out.remarks(len(names))])


def beside_images(name: str, folder: str, ending: str) -> str:
    """Return the file that belongs to a picture: the last folder ``images`` is another one, or it lies beside.

    Example:
        >>> beside_images("images/train/a.b.jpg", "labels", ".txt")
        'labels/train/a.b.txt'
    """
    before, images, behind = f"/{name}".rpartition("/images/")
    changed = f"{before}/{folder}/{behind}" if images else f"/{name}"
    return stem_of(changed)[1:] + ending


def _below(root: Path, place: str, source: Path) -> str:
    """Return a place below the root; ``../`` at its beginning may be left out, as in exports of Roboflow."""
    prefix = f"{root}/"
    written = place[len(prefix) :] if place.startswith(prefix) else place
    inside = os.path.normpath(_inside(written))
    if inside.startswith(("/", "../")) or inside == ".." or "\0" in inside:
        raise SourceError(
            f"{source} names {place}, which leads out of {root}: name the folder around both, open_dataset(..., root=folder)"
        )
    if not (root / inside).exists():
        advice = (
            ": name the folder around both, open_dataset(..., root=folder)"
            if inside != place
            else ""
        )
        raise SourceError(f"{source} names {place}, but {root / inside} does not exist{advice}")
    return inside


def _inside(place: str) -> str:
    while place.startswith("../"):
        place = place[3:]
    return place


def _read_list(root: Path, list_name: str) -> list[str]:
    """Return the pictures of a list; ``./a.jpg`` is relative to the list, all else to the root."""
    path = root / list_name
    lines = read_text(path, "a list of pictures").split("\n")
    found = []
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line:
            continue
        written = line
        if line.startswith("./"):
            written = os.path.join(os.path.dirname(list_name), line[2:])  # noqa: PTH118, PTH120
        prefix = f"{root}/"
        name = os.path.normpath(written.removeprefix(prefix))
        if name.startswith(("/", "../")) or "\0" in name:
            raise SourceError(
                f"{path}:{number} names {line}, which leads out of {root}: write names relative to it"
            )
        if not _is_picture(name):
            raise SourceError(f"{path}:{number} names {line}, which is no picture by its ending")
        found.append(name)
    if found and not any((root / name).exists() for name in found[:_LOOKED_AT]):
        raise SourceError(
            f"{path}:1 names {found[0]}, but {root / found[0]} does not exist, nor do the next ones: write names that are "
            f"relative to {root}, or give the folder around it as root="
        )
    return found


def _is_picture(name: str) -> bool:
    return is_image_file(name) or _ending(name) == _MPO


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122 - three times as fast
