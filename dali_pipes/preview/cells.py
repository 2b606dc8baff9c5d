"""Images as they are shown: fitted into a cell, with their targets drawn and explained."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from dali_pipes.batch import Batch
from dali_pipes.decode import opencv
from dali_pipes.decode.stored import decode_stored
from dali_pipes.preview.page import FAINT, Cell, Line
from dali_pipes.preview.pictures import Picture, annotate, color_of, show_values
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.samples.targets import KINDS, TargetReader
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
    picture: Picture,
    largest: tuple[int, int] = (LARGEST, LARGEST),
    targets: Targets | None = None,
    recipe: Recipe | None = None,
) -> tuple[Image.Image, str]:
    """Draw the targets on a picture, and shrink or enlarge it.

    Args:
        picture: uint8 [H, W, 3].
        largest: Height and width of the room.
        targets: What belongs to it; None draws nothing.
        recipe: Says how boxes and keypoints are written.

    Returns:
        The picture, and its size in words.
    """
    height, width = picture.shape[:2]
    shrunk = min(1.0, largest[0] / height, largest[1] / width)
    times = max(1, min(SMALL, *largest) // max(height, width))
    # Lines are drawn on the enlarged picture, since they would become thick themselves.
    enlarged = picture.repeat(times, axis=0).repeat(times, axis=1)
    image = Image.fromarray(_annotated(enlarged, times, targets, recipe))
    words = f"{height} x {width} px"
    if times > 1:
        words += f", enlarged {times} times"
    if shrunk < 1:
        size = (max(1, round(width * shrunk)), max(1, round(height * shrunk)))
        image = image.resize(size, Image.Resampling.LANCZOS)
        words += f", shrunk to {100 * shrunk:.0f} %"
    return image, words


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
        if images.kind.is_usual:
            picture, values = opencv.decode(payload, size), ""
        else:
            array = np.ascontiguousarray(decode_stored(payload, size, images.kind))
            image = torch.from_numpy(array).permute(2, 0, 1)
            # Floats are in [0, 1] already, unless they have a range of their own.
            image = image.float() / 255 if image.dtype == torch.uint8 else image.float()
            picture, values = show_values(image, stretched=images.kind.depth == "float32")
        targets, trouble = _read_targets(sample, recipe, size)
        shown, size_words = fit(picture, largest, targets, recipe)
        lines = [Line(", ".join(filter(None, [size_words, values])), FAINT)]
        if images.names:
            lines.insert(0, Line(name, FAINT))
        if not cells:
            names = [sample.key, label_words(sample.label, class_names)]
            lines = [*map(Line, names), *lines, *legend(targets, class_names), *trouble]
        cells.append(Cell(shown, lines))
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
    picture: Picture, times: int, targets: Targets | None, recipe: Recipe | None
) -> Picture:
    """Draw the targets of an image on a picture of it that is enlarged so many times."""
    if not targets:
        return picture
    boxes, points = targets.boxes, targets.keypoints
    if boxes is not None:
        size = (picture.shape[0] // times, picture.shape[1] // times)
        boxes = to_xyxy(boxes, (recipe and recipe.boxes) or BoxParams(), size) * times
    if points is not None:
        # The middle of pixel 0 is at 0.5, which recipes may call 0.
        half = 0.5 if recipe and recipe.keypoints and recipe.keypoints.pixel_index else 0
        points = (points + half) * times
    masks = () if targets.masks is None else targets.masks.repeat(times, 1).repeat(times, 2)
    return annotate(
        picture, masks=masks, boxes=boxes, box_labels=targets.box_labels, keypoints=points
    )
