"""Cells of a page: images at their final size, with their targets drawn and explained."""

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
from readers.sample import Payload

LARGEST = 320
"""Largest height and width of a picture on the page, in pixels; larger ones are shrunk."""

SMALL = 160
"""Pictures whose sides are at most half of this are enlarged, each pixel to a square of pixels."""

_MOST_NAMES = 6  # classes or numbers in a caption; more would be longer than the picture


def fit(
    picture: Picture,
    largest: tuple[int, int] = (LARGEST, LARGEST),
    targets: Targets | None = None,
    recipe: Recipe | None = None,
) -> tuple[Image.Image, str]:
    """Draw the targets on a picture, and shrink or enlarge it.

    Args:
        picture: uint8 [H, W, 3].
        largest: Largest height and width.
        targets: The targets; None draws nothing.
        recipe: Has the formats of boxes and keypoints.

    Returns:
        The picture, and a text with its size and scale.
    """
    height, width = picture.shape[:2]
    shrunk = min(1.0, largest[0] / height, largest[1] / width)
    times = max(1, min(SMALL, *largest) // max(height, width))
    enlarged = picture.repeat(times, axis=0).repeat(times, axis=1)
    if targets:  # drawn on the enlarged picture, because enlarging would make the lines thick
        enlarged = _annotate(enlarged, times, targets, recipe)
    image = Image.fromarray(enlarged)
    words = f"{height} x {width} px"
    if times > 1:
        words += f", enlarged {times} times"
    if shrunk < 1:
        size = (max(1, round(width * shrunk)), max(1, round(height * shrunk)))
        image = image.resize(size, Image.Resampling.LANCZOS)
        words += f", shrunk to {100 * shrunk:.0f} %"
    return image, words


def _annotate(picture: Picture, times: int, targets: Targets, recipe: Recipe | None) -> Picture:
    """Draw the targets of an image on a picture of it that is enlarged `times` times."""
    boxes, points, masks = targets.boxes, targets.keypoints, targets.masks
    if boxes is not None:
        size = (picture.shape[0] // times, picture.shape[1] // times)
        boxes = to_xyxy(boxes, (recipe and recipe.boxes) or BoxParams(), size) * times
    if points is not None:
        # The center of pixel 0 is at 0.5; recipes with pixel_index call it 0.
        half = 0.5 if recipe and recipe.keypoints and recipe.keypoints.pixel_index else 0
        points = (points + half) * times
    return annotate(
        picture,
        masks=() if masks is None else masks.repeat(times, 1).repeat(times, 2),
        boxes=boxes,
        box_labels=targets.box_labels,
        keypoints=points,
    )


def original_cells(
    sample: Sample,
    images: ImageFields,
    recipe: Recipe,
    largest: tuple[int, int],
    class_names: Sequence[str],
) -> list[Cell]:
    """Return the full images of a sample with their targets.

    The caption of the first has the key, class, size and the classes of the boxes, those of others the field's name.
    """
    cells: list[Cell] = []
    for name, payload in images.payloads(sample).items():
        picture, values = _decode(payload, images)
        targets, trouble = Targets(), []
        try:
            reader = TargetReader(recipe, frozenset(KINDS))
            targets = reader.read(sample.fields, picture.shape[:2]).targets
        except TargetsError as error:
            trouble = [Line(str(error))]
        shown, size_words = fit(picture, largest, targets, recipe)
        lines = [Line(", ".join(filter(None, [size_words, values])), FAINT)]
        if images.names:
            lines.insert(0, Line(name, FAINT))
        if not cells:
            names = [sample.key, label_words(sample.label, class_names)]
            lines = [*map(Line, names), *lines, *legend(targets, class_names), *trouble]
        cells.append(Cell(shown, lines))
    return cells


def _decode(payload: Payload, images: ImageFields) -> tuple[Picture, str]:
    """Decode an image to a picture, and a legend of its values; see `show_values`."""
    header = read_header(payload)
    size = (header.height, header.width)
    if images.kind.is_usual:
        return opencv.decode(payload, size), ""
    array = np.ascontiguousarray(decode_stored(payload, size, images.kind))
    image = torch.from_numpy(array).permute(2, 0, 1)
    # Floats are in [0, 1] already, unless they have a range of their own.
    image = image.float() / 255 if image.dtype == torch.uint8 else image.float()
    return show_values(image, stretched=images.kind.depth == "float32")


def targets_of(batch: Batch, row: int) -> Targets:
    """Return the targets of a row of a batch, as arrays."""
    masks: Any = None
    if isinstance(batch.masks, torch.Tensor):
        masks = batch.masks[row][None].numpy().clip(0)  # -1 marks a sample without a mask
    elif batch.masks is not None:
        masks = batch.masks[row].numpy()
    own = {
        name: values[row].numpy()
        for name in ("boxes", "box_labels", "keypoints")
        if (values := getattr(batch, name)) is not None
    }
    return Targets(masks=masks, **own)


def label_words(label: Any, class_names: Sequence[str]) -> str:
    """Describe the label of a sample; "" for no label."""
    if np.ndim(label) == 0:
        number = int(label)
        return "" if number < 0 else _class_name(number, class_names)
    values = np.asarray(label).tolist()
    if len(values) == len(class_names):
        named = [(name, value) for name, value in zip(class_names, values, strict=True) if value]
        return ", ".join(name if value == 1 else f"{name} {value:.2g}" for name, value in named)
    more = ", ..." if len(values) > _MOST_NAMES else ""
    return "label " + ", ".join(f"{value:.3g}" for value in values[:_MOST_NAMES]) + more


def _class_name(number: int, class_names: Sequence[str]) -> str:
    return class_names[number] if 0 <= number < len(class_names) else f"class {number}"


def legend(targets: Targets, class_names: Sequence[str]) -> list[Line]:
    """Explain the colours of boxes by their classes, or those of a mask by its values."""
    lines = []
    if targets.box_labels is not None and np.ndim(targets.box_labels) == 1:
        counts = Counter(int(label) for label in targets.box_labels)
        for number, count in sorted(counts.items()):
            times = "" if count == 1 else f", {count} times"
            lines.append(Line(_class_name(number, class_names) + times, swatch=color_of(number)))
    elif targets.masks is not None and len(targets.masks) == 1:
        for value in np.unique(targets.masks[targets.masks != 0]).tolist():
            lines.append(Line(f"mask value {value}", swatch=color_of(value)))
    if len(lines) > _MOST_NAMES:
        lines[_MOST_NAMES:] = [Line(f"and {len(lines) - _MOST_NAMES} more", FAINT)]
    return lines
