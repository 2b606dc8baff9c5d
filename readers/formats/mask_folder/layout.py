"""Search for the folders of images and masks, and pairing of their files."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from readers.describe import few_of
from readers.detect.splits import split_of
from readers.formats.boxes.dataset import by_stem, names_below
from readers.formats.named_splits import choose_name
from readers.formats.yolo.config import names_masks
from readers.sample import SourceError, is_image_file
from readers.storage.unreadable import listed, refuse_folder_error

_IMAGES = ("images", "image", "imgs", "img")
_MASKS = ("masks", "mask", "annotations", "labels")
_LOOKED_AT = 16  # images whose masks are looked for, since a few images without a mask are common
_CITYSCAPES = "leftImg8bit"
_CITYSCAPES_MASKS = ("gtFine", "gtCoarse")
# Ends of mask folders that are named after their image folder, as train_masks/ after train/.
_TAILS = ("_masks", "_mask", "_labels", "annot")
# JPEG changes values at edges, so it cannot hold class numbers.
_MASK_ENDINGS = ("png", "gif", "bmp", "tif", "tiff")


class Layout(NamedTuple):
    """The folders of images and masks, relative to the folder of the dataset.

    Attributes:
        images: Name of the folder of images.
        masks: Name of the folder of masks, with equal subfolders.
        image_suffix: End of the images' stems that the masks' stems lack.
    """

    images: str
    masks: str
    image_suffix: str = ""


def fits(root: Path) -> bool:
    """Return whether a folder holds a folder of images and a folder of their masks, judged by names.

    False if a metadata.jsonl or the YAML file of a YOLO dataset describes the images.
    """
    if not any(_share_a_name(root, pair) for pair in _pairs(root)):
        return False
    return not (root / "metadata.jsonl").is_file() and not names_masks(root)


def find_layout(root: Path, split: str | None) -> Layout:
    """Return the folders of images and masks of a split.

    Args:
        root: The folder of the dataset.
        split: Name of the split; None if there is only one.

    Raises:
        SourceError: There is no pair of such folders or several, there are several splits but `split` is None, or the split
            does not exist.
    """
    layouts = [pair for pair in _pairs(root) if _share_a_name(root, pair)] or list(_pairs(root))
    by_tail = {pair.images: pair for pair in layouts if pair.masks.startswith(pair.images)}
    if by_tail and len(by_tail) == len(layouts):
        return by_tail[choose_name({name: split_of(name) or name for name in by_tail}, split, root)]
    if len(layouts) != 1:
        pairs = " and ".join(f"{one.images}/ with {one.masks}/" for one in layouts)
        raise SourceError(
            f"{root} has {pairs or 'no folders images/ and masks/'}: say images= and masks=, two folders in it"
        )
    return inside_split(root, layouts[0], split)


def inside_split(root: Path, pair: Layout, split: str | None) -> Layout:
    """Return the folders of a split in the folders of images and masks.

    If there are no folders of splits, and `split` is None, the pair is returned unchanged.

    Raises:
        SourceError: There are several splits but `split` is None, or the split does not exist in both folders.
    """
    of_images = _splits(root / pair.images)
    if split is None and len(of_images) < 2:
        return pair
    name = choose_name(of_images, split, root / pair.images)
    of_masks = _splits(root / pair.masks)
    same = (
        name
        if name in of_masks
        else next((n for n in of_masks if of_masks[n] == of_images[name]), "")
    )
    if not same:
        raise SourceError(
            f"{root / pair.images} has the split {name}, and {root / pair.masks} no folder of that name: move the masks "
            "of the split into one"
        )
    return pair._replace(images=f"{pair.images}/{name}", masks=f"{pair.masks}/{same}")


def _pairs(root: Path) -> Iterator[Layout]:
    """Yield pairs of folders in root that are named like images and masks; their content is not checked."""
    names = _names(root)
    yield from (
        Layout(_CITYSCAPES, mask, f"_{_CITYSCAPES}")
        for mask in _CITYSCAPES_MASKS
        if _CITYSCAPES in names and mask in names
    )
    yield from (
        Layout(image, mask)
        for image in names
        for mask in names
        if (image.lower() in _IMAGES and mask.lower() in _MASKS and mask.lower() == mask)
        or (mask.startswith(image) and mask[len(image) :] in _TAILS)
    )


def _share_a_name(root: Path, pair: Layout) -> bool:
    """Return whether one of the first images has a mask whose name equals or begins with the image's stem."""
    inside, images = _first_images(root / pair.images)
    stems = tuple(name.rpartition(".")[0].removesuffix(pair.image_suffix) for name in images)
    names = _names(root / pair.masks / inside, folders=False)
    return any(name.startswith(stems) and is_image_file(name) for name in names)


def _first_images(folder: Path) -> tuple[str, list[str]]:
    """Return the first subfolder that holds images, relative to the folder, and up to 16 names of them; ("", []) without images."""
    for path, folders, files in os.walk(folder, onerror=refuse_folder_error):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        names = sorted(name for name in files if name[0] != "." and is_image_file(name))
        if names:
            return os.path.relpath(path, folder), names[:_LOOKED_AT]
    return "", []


def _splits(folder: Path) -> dict[str, str]:
    return {name: split for name in _names(folder) if (split := split_of(name))}


def _names(folder: Path, *, folders: bool = True) -> list[str]:
    """Return the names of the subfolders of a folder, or of its files if `folders` is false; empty if it does not exist."""
    below, files = listed(folder)
    return sorted(name for name in (below if folders else files) if name[0] != ".")


class Paired(NamedTuple):
    """Images with their masks, and files without a counterpart.

    Attributes:
        pairs: (image, mask), names relative to their folders.
        images: Names of images without a mask.
        masks: Names of masks without an image.
    """

    pairs: list[tuple[str, str]]
    images: list[str]
    masks: list[str]


def find_pictures(folder: Path) -> list[str]:
    """Return the names of all pictures below a folder, relative to it and sorted.

    Raises:
        SourceError: There are no pictures, or a folder cannot be listed.
    """
    names = sorted(filter(is_image_file, names_below(folder)))
    if not names:
        raise SourceError(
            f"{folder} holds no pictures: name the right folder with images= or masks="
        )
    return names


def pair(
    images: Sequence[str], masks: Sequence[str], image_suffix: str, mask_suffix: str, where: str
) -> Paired:
    """Pair images and masks whose paths are equal apart from extensions and suffixes.

    Args:
        images: Names of the images.
        masks: Names of all pictures in the folder of the masks; those without the suffix are skipped.
        image_suffix: End of the images' stems that the masks' stems lack.
        mask_suffix: End of the masks' stems that the images' stems lack.
        where: The folders, for errors.

    Raises:
        SourceError: Two images or two masks have one stem, or a mask is a JPEG file.
    """
    of_images = by_stem(images, where, image_suffix)
    of_masks = by_stem(masks, where, mask_suffix)
    pairs = [(of_images[stem], of_masks[stem]) for stem in of_images if stem in of_masks]
    lossy = [mask for _, mask in pairs if mask.lower().rpartition(".")[2] not in _MASK_ENDINGS]
    if lossy:
        raise SourceError(
            f"{where}: {few_of(lossy, 3)} cannot hold a mask, since its kind of file changes values at edges: write masks as "
            f"{', '.join(_MASK_ENDINGS)}, from their source"
        )
    alone = [name for stem, name in of_images.items() if stem not in of_masks]
    without = [name for stem, name in of_masks.items() if stem not in of_images]
    return Paired(pairs, alone, without)


def require_all(paired: Paired, masks: Sequence[str], image_suffix: str, where: str) -> None:
    """Check that every image has a mask and every mask an image.

    Args:
        paired: Result of `pair`.
        masks: Names of all pictures in the folder of the masks.
        image_suffix: End of the images' stems that the masks' stems lack.
        where: The folders, for errors.

    Raises:
        SourceError: A file has no counterpart; the text suggests suffixes that masks have.
    """
    if not paired.images and not paired.masks:
        return
    counts = [
        f"{len(alone)} of {len(alone) + len(paired.pairs)} {what} ({few_of(alone, 3)})"
        for alone, what in (
            (paired.images, "images have no mask"),
            (paired.masks, "masks have no image"),
        )
        if alone
    ]
    suffixes = _suffixes(paired.images, masks, image_suffix)
    advice = f"say mask_suffix={' or '.join(map(repr, suffixes))}, or " if suffixes else ""
    leave = "unpaired='leave out' to go on without them" if paired.pairs else "correct the folders"
    raise SourceError(f"{where}: {' and '.join(counts)}: {advice}{leave}")


def _suffixes(images: Sequence[str], masks: Sequence[str], image_suffix: str) -> list[str]:
    """Return up to three suffixes that may be meant: ends of masks' stems that begin with the first unpaired image's stem."""
    if not images:
        return []
    stem = images[0].rpartition(".")[0].removesuffix(image_suffix)
    longer = {name.rpartition(".")[0].removeprefix(stem) for name in masks if name.startswith(stem)}
    return sorted(one for one in longer if one and not one[0].isalnum())[:3]
