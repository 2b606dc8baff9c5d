"""Datasets of images in one folder with their masks in another."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from readers.formats.boxes.checks import require_choice
from readers.formats.files import FileDataset, Sidecars
from readers.formats.files.described import spread_evenly
from readers.formats.mask_folder.layout import (
    Layout,
    find_layout,
    find_pictures,
    inside_split,
    pair,
    require_all,
)
from readers.formats.mask_folder.values import BINARY, to_json, values_in
from readers.plural import counted
from readers.sample import (
    MASK_VALUES,
    BadSample,
    ColumnName,
    PathLike,
    Payload,
    Sample,
    SourceError,
)

_NUM_LOOKED_AT = (
    8  # masks that are decoded at opening; any few of them show whether values are 0 and 255
)


class MaskFolderDataset(FileDataset):
    """Images and their semantic or instance masks, in two folders: ``images/a.jpg`` and ``masks/a.png``.

    A sample has the image in the field named by its extension, and the unchanged mask file in ``mask.png`` (or mask.gif,
    mask.bmp, mask.tif); its label is -1. An image and its mask have equal paths below their two folders, at any depth,
    apart from extensions and suffixes. The two folders are found by their names: images or img with masks, annotations or
    labels; train with train_masks; Cityscapes' leftImg8bit with gtFine or gtCoarse. Both may hold folders of splits
    (``images/training``, ``annotations/training``).

    Masks hold class numbers: the indices of a PNG with a palette, the grey levels of any other file. If the values are no
    class numbers, ``mask_values`` or ``colors`` maps them; the mapping is passed to the loader in the field
    ``mask_values.json``, and an unlisted value makes a bad sample. Eight evenly spread masks are decoded at opening: if they
    hold only 0 and 255, then 255 becomes class 1, with a warning.

    Args:
        root: The folder of the dataset.
        split: Name of the split; None if there is only one.
        images: Folder of the images in root, if it has no usual name; requires ``masks``.
        masks: Folder of the masks in root, if it has no usual name; requires ``images``. It may equal ``images`` if
            ``mask_suffix`` is given.
        image_suffix: End of the stems of images that the stems of masks lack; None for ``_leftImg8bit`` with Cityscapes,
            otherwise "".
        mask_suffix: End of the stems of masks that the stems of images lack, such as ``_mask`` or ``_gtFine_labelIds``.
        mask_values: Dict from value in the file to class; or "binary" (0 and 255), "ade20k" (0 becomes 255, all others one
            less) or "cityscapes" (labelIds become train ids). {} leaves all values unchanged, also 0 and 255.
        colors: Dict from (red, green, blue) in the file to class, for masks in colours.
        ignore: Class of all unlisted values or colours, such as 255; if None, they make a bad sample.
        unpaired: "refuse" raises an error for images without a mask and masks without an image; "leave out" skips them, with a
            warning that states their counts.

    Raises:
        SourceError: The folders are not found; an image has no mask or several, or a mask no image; masks are JPEG files, or
            hold colours although ``colors`` is not given.
    """

    def __init__(
        self,
        root: PathLike,
        *,
        split: str | None = None,
        images: PathLike | None = None,
        masks: PathLike | None = None,
        image_suffix: str | None = None,
        mask_suffix: str = "",
        mask_values: Mapping[int, int] | Literal["binary", "ade20k", "cityscapes"] | None = None,
        colors: Mapping[tuple[int, int, int], int] | None = None,
        ignore: int | None = None,
        unpaired: Literal["refuse", "leave out"] = "refuse",
    ) -> None:
        require_choice("unpaired", unpaired, ("refuse", "leave out"))
        root = Path(root).absolute()
        layout = _layout(root, split, images, masks)
        suffix = layout.image_suffix if image_suffix is None else image_suffix
        names, mask_of, self._remarks = _pairs(root, layout, suffix, mask_suffix, unpaired)
        given = None if mask_values == {} else mask_values
        self._values = to_json(given, colors, ignore)
        if mask_values is None and colors is None:
            self._values = self._look(root, list(mask_of.values()))
        sidecars: Sidecars = {
            name: ((f"mask.{mask.rpartition('.')[2].lower()}", mask),)
            for name, mask in mask_of.items()
        }
        super().__init__(root, names, [-1] * len(names), (), sidecars)

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; ``num_bytes`` asks the file system for the size of every file."""
        values = super().column(name)
        return (
            np.where(values < 0, values, values + len(self._values))
            if name == "num_bytes"
            else values
        )

    def _fetch_one(self, index: int, data: Payload | None = None) -> Sample | BadSample:
        entry = super()._fetch_one(index, data)
        if isinstance(entry, Sample) and self._values:
            return Sample(
                entry.index, entry.key, {**entry.fields, MASK_VALUES: self._values}, entry.label
            )
        return entry

    def _extra(self, index: int) -> str:
        return self._values.decode() if index == 0 else ""

    def _look(self, root: Path, masks: list[str]) -> bytes:
        """Return the field ``mask_values.json`` that maps 0 and 255 to 0 and 1, if masks hold only these; otherwise b""."""
        rows = spread_evenly(len(masks), _NUM_LOOKED_AT)
        values = values_in(root / masks[row] for row in rows)
        if values != {0, 255}:
            return b""
        self._remarks += (
            f"{root} has masks of 0 and 255 alone ({len(rows)} of {len(masks)} were looked at), which are taken for the "
            "classes 0 and 1: say mask_values='binary' for that, or mask_values={} where 255 is no class",
        )
        return to_json(BINARY, None, None)


def _layout(
    root: Path, split: str | None, images: PathLike | None, masks: PathLike | None
) -> Layout:
    if images is None and masks is None:
        return find_layout(root, split)
    if images is None or masks is None:
        raise SourceError("images= and masks= name two folders together: give both")
    named = [os.path.relpath(root / one, root) for one in (images, masks)]
    for name in named:
        if name.startswith("..") or not (root / name).is_dir():
            raise SourceError(
                f"{root} has no folder {name}: give images= and masks= as folders in it"
            )
    return inside_split(root, Layout(*named), split)


def _pairs(
    root: Path, layout: Layout, image_suffix: str, mask_suffix: str, unpaired: str
) -> tuple[list[str], dict[str, str], tuple[str, ...]]:
    """Return the names of the images, the name of each image's mask, and warnings; names are relative to root."""
    where = f"{root} ({layout.images}/ and {layout.masks}/)"
    pictures, of_masks = find_pictures(root / layout.images), find_pictures(root / layout.masks)
    if layout.images == layout.masks:
        if not mask_suffix:
            raise SourceError(f"{where}: images and masks lie in one folder: say mask_suffix=")
        pictures = [name for name in pictures if not name.rpartition(".")[0].endswith(mask_suffix)]
    paired = pair(pictures, of_masks, image_suffix, mask_suffix, where)
    remarks: tuple[str, ...] = ()
    if unpaired == "refuse" or not paired.pairs:
        require_all(paired, of_masks, image_suffix, where)
    elif paired.images or paired.masks:
        left = f"{counted(len(paired.images), 'image')} without a mask and {counted(len(paired.masks), 'mask')}"
        remarks = (f"{where}: {left} without an image are left out",)
    mask_of = {
        os.path.normpath(f"{layout.images}/{image}"): os.path.normpath(f"{layout.masks}/{mask}")
        for image, mask in paired.pairs
    }
    return list(mask_of), mask_of, remarks
