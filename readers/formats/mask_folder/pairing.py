"""Pairing images with masks by their places and names."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from readers.describe import few_of
from readers.formats.boxes.dataset import files_below
from readers.sample import SourceError, is_image_file

_MASK_ENDINGS = ("png", "gif", "bmp", "tif", "tiff")


class Paired(NamedTuple):
    """Images with their masks, and what has no partner. All are names relative to their own folder."""

    pairs: list[tuple[str, str]]
    images: list[str]
    masks: list[str]


def find_pictures(folder: Path) -> list[str]:
    """Return the pictures below a folder, relative to it, sorted.

    Raises:
        SourceError: There are none, or a folder cannot be listed.
    """
    found = [
        place + name
        for place, names in files_below(folder)
        for name in names
        if is_image_file(name)
    ]
    if not found:
        raise SourceError(
            f"{folder} holds no pictures: name the right folder with images= or masks="
        )
    return sorted(found)


def pair(
    images: Sequence[str], masks: Sequence[str], image_suffix: str, mask_suffix: str, where: str
) -> Paired:
    """Pair images and masks that lie in the same place and have the same stem but for the suffixes.

    Args:
        images: Names of the images.
        masks: Names of all pictures in the folder of the masks; those without the suffix do not count.
        image_suffix: End of the images' stems.
        mask_suffix: End of the masks' stems.
        where: The folders, for errors.

    Raises:
        SourceError: Two images or two masks have one stem, or masks are JPEG.
    """
    of_images = _by_stem(images, image_suffix, where)
    of_masks = _by_stem(masks, mask_suffix, where)
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
    """See that nothing is without a partner.

    Raises:
        SourceError: Something is; the text says how masks are called there.
    """
    if not paired.images and not paired.masks:
        return
    told = [
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
    raise SourceError(f"{where}: {' and '.join(told)}: {advice}{leave}")


def _by_stem(names: Iterable[str], suffix: str, where: str) -> dict[str, str]:
    """Return name by place and stem without the suffix; those without it are left out."""
    found: dict[str, str] = {}
    for name in names:
        stem = name.rpartition(".")[0]
        if not stem.endswith(suffix):
            continue
        other = found.setdefault(stem.removesuffix(suffix), name)
        if other != name:
            raise SourceError(
                f"{where}: {other} and {name} have the same name, so which belongs to the other folder's file "
                "cannot be told: rename or remove one of them"
            )
    return found


def _suffixes(images: Sequence[str], masks: Sequence[str], image_suffix: str) -> list[str]:
    """Return what the names of masks have more than that of the first image without one."""
    if not images:
        return []
    stem = images[0].rpartition(".")[0].removesuffix(image_suffix)
    longer = {name.rpartition(".")[0].removeprefix(stem) for name in masks if name.startswith(stem)}
    return sorted(one for one in longer if one and not one[0].isalnum())[:3]
