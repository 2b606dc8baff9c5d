"""Images as they are shown: fitted into a cell, with their targets drawn and explained."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from dali_pipes.batch import Batch
from dali_pipes.decode import opencv
from dali_pipes.decode.stored import decode_stored
from dali_pipes.image_fields import ImageFields
from dali_pipes.preview.chosen_batches import stored
from dali_pipes.preview.lettering import shorten_start
from dali_pipes.preview.page import FAINT, FONT_SIZE, NARROWEST, Cell, Line
from dali_pipes.preview.pictures import Picture, annotate, color_of
from dali_pipes.targets import KINDS, TargetReader
from gpu_aug import BoxParams, Recipe, Targets
from gpu_aug.errors import TargetsError
from gpu_aug.targets.boxes import to_xyxy
from readers import Sample, read_header

LARGEST = 320
"""Height and width that a picture may have on the page, in pixels; larger ones are shrunk."""

SMALL = 160
"""Pictures whose sides are at most half of this are enlarged, each pixel to a square of pixels."""

_MOST_NAMES = 6


def fit(
    picture: Picture, targets: Targets, recipe: Recipe, largest: tuple[int, int]
) -> tuple[Image.Image, str]:
    """Shrink or enlarge a picture, and draw its targets on it.

    Args:
        picture: uint8 [H, W, 3].
        targets: What belongs to it.
        recipe: Says how boxes and keypoints are written.
        largest: Height and width of the room.

    Returns:
        The picture, and its size in words.
    """
    height, width = picture.shape[:2]
    shrunk = min(1.0, largest[0] / height, largest[1] / width)
    times = max(1, min(SMALL, *largest) // max(height, width)) if shrunk == 1 else 1
    image = Image.fromarray(picture)
    size = (max(1, round(width * shrunk)) * times, max(1, round(height * shrunk)) * times)
    if size != image.size:
        image = image.resize(
            size, Image.Resampling.NEAREST if times > 1 else Image.Resampling.LANCZOS
        )
    words = f"{height} x {width} px"
    words += f", enlarged {times} times" if times > 1 else ""
    words += f", shrunk to {100 * shrunk:.0f} %" if shrunk < 1 else ""
    return _annotated(np.asarray(image), picture.shape[:2], recipe, targets), words


def original_cells(
    sample: Sample,
    images: ImageFields,
    recipe: Recipe,
    largest: tuple[int, int],
    class_names: Sequence[str],
) -> list[Cell]:
    """Return the whole images of a sample with their targets.

    Below the first stand its key, class, size, and the names of its boxes' classes, below others their names.
    """
    cells: list[Cell] = []
    for name, payload in images.payloads(sample).items():
        header = read_header(payload)
        size = (header.height, header.width)
        usual = images.kind.is_usual
        array = opencv.decode(payload, size) if usual else decode_stored(payload, size, images.kind)
        picture, values = stored(array, stretched=images.kind.depth == "float32")
        targets, trouble = _read_targets(sample, recipe, size)
        image, size_words = fit(picture, targets, recipe, largest)
        lines = [Line(f"{size_words}{', ' if values else ''}{values}", FAINT)]
        if images.names:
            lines.insert(0, Line(name, FAINT))
        if not cells:
            key = shorten_start(sample.key, max(image.width, NARROWEST), FONT_SIZE)
            label = label_words(sample.label, class_names)
            above = [Line(key), *([Line(label)] if label else [])]
            lines = [*above, *lines, *legend(targets, class_names), *trouble]
        cells.append(Cell(image, lines))
    return cells


def _read_targets(
    sample: Sample, recipe: Recipe, size: tuple[int, int]
) -> tuple[Targets, list[Line]]:
    """Return the targets of a sample, and what is wrong with them."""
    try:
        return TargetReader(recipe, frozenset(KINDS)).read(sample.fields, size).targets, []
    except TargetsError as error:
        return Targets(), [Line(str(error))]


def targets_of(batch: Batch, row: int) -> Targets:
    """Return the targets of a row of a batch, as arrays."""
    masks: Any = None
    if isinstance(batch.masks, torch.Tensor):
        masks = batch.masks[row][None].numpy().clip(0)  # -1 where a sample has none
    elif batch.masks is not None:
        masks = batch.masks[row].numpy()
    own = {
        name: values[row].numpy()
        for name in ("boxes", "box_labels", "keypoints")
        if (values := getattr(batch, name)) is not None
    }
    return Targets(masks=masks, **own)


def label_words(label: Any, class_names: Sequence[str]) -> str:
    """Say what a sample is labelled with; "" for no label."""
    if np.ndim(label) == 0:
        number = int(label)
        return "" if number < 0 else class_name(number, class_names)
    values = np.asarray(label).tolist()
    if len(values) == len(class_names):
        named = [(name, value) for name, value in zip(class_names, values, strict=True) if value]
        return ", ".join(name if value == 1 else f"{name} {value:.2g}" for name, value in named)
    more = ", ..." if len(values) > _MOST_NAMES else ""
    return "label " + ", ".join(f"{value:.3g}" for value in values[:_MOST_NAMES]) + more


def class_name(number: int, class_names: Sequence[str]) -> str:
    """Return the name of a class, or its number."""
    return class_names[number] if 0 <= number < len(class_names) else f"class {number}"


def legend(targets: Targets, class_names: Sequence[str]) -> list[Line]:
    """Explain the colours of boxes by their classes, and those of a mask by its values."""
    lines = []
    if targets.box_labels is not None and np.ndim(targets.box_labels) == 1:
        counts = Counter(int(label) for label in targets.box_labels)
        for number, count in sorted(counts.items()):
            name = class_name(number, class_names)
            text = name if count == 1 else f"{name}, {count} times"
            lines.append(Line(text, swatch=color_of(number)))
    elif targets.masks is not None and len(targets.masks) == 1:
        for value in np.unique(targets.masks[targets.masks != 0]).tolist():
            lines.append(Line(f"mask value {value}", swatch=color_of(value)))
    if len(lines) > _MOST_NAMES:
        lines[_MOST_NAMES:] = [Line(f"and {len(lines) - _MOST_NAMES} more", FAINT)]
    return lines


def _annotated(
    picture: Picture, size: tuple[int, ...], recipe: Recipe, targets: Targets
) -> Image.Image:
    """Draw the targets of an image of a size on the picture that is shown of it."""
    (height, width), shown = size[:2], picture.shape[:2]
    scale = np.array([shown[1] / width, shown[0] / height])
    boxes, points = targets.boxes, targets.keypoints
    if boxes is not None:
        boxes = to_xyxy(boxes, recipe.boxes or BoxParams(), (height, width)) * np.tile(scale, 2)
    if points is not None:
        half = recipe.keypoints is not None and recipe.keypoints.pixel_index
        points = (points + (0.5 if half else 0)) * scale
    masks = [] if targets.masks is None else list(targets.masks)
    if len(masks) > 1:  # instances: each is a colour of its own
        masks = [np.where(mask != 0, number + 1, 0) for number, mask in enumerate(masks)]
    drawn = annotate(
        picture,
        masks=[_resized(mask, shown) for mask in masks],
        boxes=boxes,
        box_labels=targets.box_labels,
        keypoints=points,
    )
    return Image.fromarray(drawn)


def _resized(mask: NDArray[np.integer], size: tuple[int, ...]) -> NDArray[np.integer]:
    """Take the nearest values."""
    rows, columns = (
        np.minimum((np.arange(new) + 0.5) * old / new, old - 1).astype(np.int64)
        for new, old in zip(size, mask.shape, strict=True)
    )
    nearest: NDArray[np.integer] = mask[rows[:, None], columns]
    return nearest
