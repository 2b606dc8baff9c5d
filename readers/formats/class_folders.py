"""Warnings about likely mistakes in the layout of class folders, and consistent class numbers over splits."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from readers.detect.registry import Opened
from readers.detect.splits import folders_in, split_alone, train_beside
from readers.detect.unused_annotations import ignored_annotation_warnings
from readers.plural import counted
from readers.sample import SourceError, is_image_file
from readers.video.detect import frame_numbers

_LOOKED_AT = 1000  # names of a folder that are checked: listing millions of files takes seconds
_CLASSES_LOOKED_AT = 8  # class folders that are checked, for the same reason
_FEW = 3  # two classes with fewer pictures may have equal file names by chance
_READ_BESIDE = (".mask.png", ".seg.png")  # masks that are read as fields of their photograph
_MASK_STEM = re.compile(r"(.+)[-_.](?:mask|matte|seg|segmentation|gt|alpha)", re.IGNORECASE)
_NO_CLASS = re.compile(
    r"(?:(?:\w+_)?(?:images?|imgs?|pictures|photos|frames|data)|jpegimages)", re.IGNORECASE
)  # names of folders that hold images but are no classes, such as train_images
_TARGETS = ("masks", "mask", "labels", "annotations", "labelmaps", "segmentation")


def warn(opened: Opened) -> Iterator[str]:
    """Yield warnings about the layout of a folder of class folders, and about annotations in it that are not read.

    At most 1000 names of each folder are checked.
    """
    root = Path(opened.path).absolute()
    yield from ignored_annotation_warnings(root)
    if opened.is_detected:
        names = sorted(name for name in _names(root) if name[0] != ".")
        classes = [name for name in names if (root / name).is_dir()]
        for check in _CHECKS:
            yield from check(root, classes)
    if "classes" not in opened.options:
        yield from _differing_numbers(root)


def classes_of_train(folder: Path, train: Path) -> dict[str, list[str]]:
    """Return the option ``classes`` that numbers a split's classes as the training data does; see `Format.split_options`.

    Args:
        folder: Folder of the split.
        train: Folder of the training data.

    Returns:
        ``{"classes": names}``; empty if one of the two has no class folders.
    """
    classes = folders_in(train)
    return {"classes": classes} if classes and folders_in(folder) else {}


def _differing_numbers(root: Path) -> Iterator[str]:
    """Yield a warning if a split's folder has other class numbers than the training data next to it."""
    own: list[str] = []
    others: list[str] = []
    train = train_beside(root)
    # The folder next to it may be unreadable for this user, and is needed for this warning only.
    with suppress(SourceError):
        own, others = folders_in(root), folders_in(train) if train else []
    if own and others and own != others[: len(own)]:
        yield (
            f"{root} has {counted(len(own), 'class')} and {train} {len(others)}, so that their numbers differ: "
            f"open_dataset({str(root.parent)!r}, split={root.name!r}) gives those of the training data"
        )


def _class_called_like_split(root: Path, classes: list[str]) -> Iterator[str]:
    splits = [name for name in classes if split_alone(name)]
    if splits and len(classes) > 1:
        yield (
            f"{root} has the class {splits[0]!r}, which is called like a split: where it is one, move it out of the folder "
            "of the classes"
        )


def _class_called_like_masks(root: Path, classes: list[str]) -> Iterator[str]:
    masks = [name for name in classes if name.lower() in _TARGETS]
    if masks:
        yield (
            f"{root} has the class {masks[0]!r}: its images are taken for photographs; a mask is read when it lies beside its "
            "photograph, PHOTO.mask.png beside PHOTO.jpg"
        )


def _masks_beside_images(root: Path, classes: list[str]) -> Iterator[str]:
    """Yield a warning about the first file named like the mask of another picture in its folder.

    The folder itself and its first 8 classes are checked.
    """
    for folder in (root, *(root / name for name in classes[:_CLASSES_LOOKED_AT])):
        names = filter(is_image_file, sorted(_names(folder)))
        stems = {name.rpartition(".")[0]: name for name in names}
        for stem, name in stems.items():
            found = _MASK_STEM.fullmatch(stem)
            if found and found[1] in stems and not name.lower().endswith(_READ_BESIDE):
                yield (
                    f"{root} holds {name} beside {stems[found[1]]}, and both are read as images: where it is a mask, call it "
                    f"{found[1]}.mask.png to have it with its image"
                )
                return


def _class_of_masks(root: Path, classes: list[str]) -> Iterator[str]:
    """Yield a warning if the two classes hold files of the same names, and only one class holds JPEGs.

    Such classes are probably photographs and their masks.
    """
    if len(classes) != 2:
        return
    names = [sorted(filter(is_image_file, _names(root / one))) for one in classes]
    stems = [[name.rpartition(".")[0] for name in one] for one in names]
    are_jpegs = [{name.lower().endswith((".jpg", ".jpeg")) for name in one} for one in names]
    is_pair = stems[0] == stems[1] and sorted(map(list, are_jpegs)) == [[False], [True]]
    if is_pair and len(stems[0]) >= _FEW:
        first = are_jpegs.index({True})
        pair = [f"{classes[one]}/{names[one][0]}" for one in (first, 1 - first)]
        yield (
            f"{root} has two classes with the same names of files, {pair[0]} and {pair[1]}: where the second is the mask of the "
            "first, put it beside the first as NAME.mask.png; where they are classes, say format='folder'"
        )


def _only_class(root: Path, classes: list[str]) -> Iterator[str]:
    """Yield a warning if the only class folder is probably no class, by the folders in it or by its name."""
    beside = [name for name in _names(root) if name[0] != "." and is_image_file(name)]
    if len(classes) != 1 or beside:
        return
    inside = sorted(_names(root / classes[0]))
    deeper = [name for name in inside if (root / classes[0] / name).is_dir()]
    if len(deeper) > 1 and not any(map(is_image_file, inside)):
        yield (
            f"{root} has the one class {classes[0]!r}, whose images lie in folders ({', '.join(deeper[:3])}): where these "
            f"are the classes, open {root / classes[0]}"
        )
    elif split_alone(classes[0]) or _NO_CLASS.fullmatch(classes[0]):
        yield (
            f"{root} has the one class {classes[0]!r}, so that all labels are 0: where that is no class, open "
            f"{root / classes[0]}"
        )


def _frames_from_later_number(root: Path, classes: list[str]) -> Iterator[str]:
    """Yield a warning if the pictures of a folder in the first class are named like frames of a video.

    They must be numbered without gaps, from 2 or more on.
    """
    first = root / classes[0] if classes else root
    inside = sorted(name for name in _names(first) if classes and (first / name).is_dir())
    names = sorted(name for name in _names(first / inside[0]) if name[0] != ".") if inside else []
    numbers = frame_numbers(names)
    is_row = len(numbers) == len(names) > 2 and numbers == list(
        range(numbers[0], numbers[0] + len(numbers))
    )
    if is_row and numbers[0] > 1:
        yield (
            f"{root} holds pictures that are called like frames of a video ({names[0]}), but their numbers do not begin at 0 or 1, "
            "so they are read as images of classes: say format='frame-folder' for videos"
        )


def _names(folder: Path) -> list[str]:
    """Return up to 1000 names in a folder; an empty list if the folder cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _LOOKED_AT)]
    except OSError:
        return []


_CHECKS = (
    _class_called_like_split,
    _class_called_like_masks,
    _masks_beside_images,
    _class_of_masks,
    _only_class,
    _frames_from_later_number,
)
"""Functions that get a folder and the names of its classes, and yield at most one warning each."""
