"""Folders of classes: warnings about likely mistakes in their layout, and the numbers of classes in several splits."""

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

_LOOKED_AT = 1000  # names of a folder
_CLASSES_LOOKED_AT = 8
_FEW = 3  # pictures that may have the names of others by chance
_READ_BESIDE = (".mask.png", ".seg.png")  # as fields of their photograph
_MASK_STEM = re.compile(r"(.+)[-_.](?:mask|matte|seg|segmentation|gt|alpha)", re.IGNORECASE)
_NO_CLASS = re.compile(
    r"(?:(?:\w+_)?(?:images?|imgs?|pictures|photos|frames|data)|jpegimages)", re.IGNORECASE
)  # such as train_images
_TARGETS = ("masks", "mask", "labels", "annotations", "labelmaps", "segmentation")


def warn(opened: Opened) -> Iterator[str]:
    """Yield warnings about the layout of a folder of classes, and about what lies in it and is not read.

    A sample of the names in the folder and in its classes is checked.
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
    """Return the option that gives the folder of a split the classes of the training data; see `Format.split_options`."""
    classes = folders_in(train)
    return {"classes": classes} if classes and folders_in(folder) else {}


def _differing_numbers(root: Path) -> Iterator[str]:
    """Warn if the folder of a split numbers its classes differently from the training data beside it."""
    own: list[str] = []
    others: list[str] = []
    train = train_beside(root)
    # A warning alone depends on the folder beside, which may be closed to this user.
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
    """Warn about the first file that is named like the mask of a picture beside it, in the folder or its first classes."""
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
    """Warn if there are two classes with pictures of the same names, which are JPEGs in one of them alone."""
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
    """Warn if the one class holds folders that may be the classes, or is called like no class."""
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
    """Warn if all pictures of the first folder in the first class are numbered like frames, from 2 or more on without gaps."""
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
    """Return some of the names in a folder; none if it cannot be read."""
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
"""Each looks at a few names and yields at most one warning."""
