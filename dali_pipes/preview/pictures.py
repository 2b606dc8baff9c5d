"""Convert tensors and files to RGB pictures, with their targets drawn on them, scaled to cells of a page, with captions."""

import colorsys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.utils import draw_bounding_boxes, draw_keypoints, draw_segmentation_masks

from dali_pipes.decode import opencv
from dali_pipes.decode.stored import decode_stored
from dali_pipes.preview.page import FAINT, Cell, Line
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.samples.targets import KINDS, TargetReader
from gpu_aug import BoxParams, Normalize, Recipe, Targets
from gpu_aug.targets.box_formats import to_corners
from gpu_aug.targets.boxes import to_xyxy
from readers import Sample, read_header
from readers.sample import Payload

_MASK_OPACITY = 0.45  # the picture stays visible under a mask
_LINE_WIDTH = 2  # pixels, line width of boxes: visible, but hides little
_DOT_RADIUS = 3  # pixels, radius of keypoints, for the same reason
# Side in pixels of a picture for which these widths are meant; they grow with larger pictures, which are shrunk later.
_USUAL_SIDE = 320

_UNKNOWN = (150, 0, 0)  # colour of pixels whose value is NaN or infinite

Picture = NDArray[np.uint8]
"""uint8 [height, width, 3]."""


def viewable(images: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    """Return images without the effect of the recipe's Normalize operations, so that values are in [0, 1]."""
    for leaf in reversed(recipe.leaves):
        if isinstance(leaf, Normalize):
            mean, std = torch.tensor(leaf.mean), torch.tensor(leaf.std)
            images = images * std.view(-1, 1, 1) + mean.view(-1, 1, 1)
    return images


def to_pictures(images: torch.Tensor) -> list[Picture]:
    """Convert floats [N, 3, height, width] in [0, 1] to uint8 [height, width, 3] each."""
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    return list(pixels.contiguous().numpy())


def show_values(image: torch.Tensor, *, stretched: bool) -> tuple[Picture, str]:
    """Convert an image with any number of channels to a picture.

    Args:
        image: Float [C, H, W]. Two channels (flow) are shown by their length; of more than three, the first three are shown.
        stretched: Whether the smallest value becomes black and the largest white; otherwise 0 and 1 do.

    Returns:
        uint8 [H, W, 3], and a legend, which is "" if it is not needed.
    """
    channels, words = len(image), []
    if channels == 2:
        image, stretched = image.norm(dim=0, keepdim=True), True
        words.append("length of the vectors")
    elif channels > 3:
        image = image[:3]
        words.append(f"channels 1 to 3 of {channels} as red, green and blue")
    known = image.isfinite().all(dim=0)
    if stretched and known.any():
        low, high = (float(end) for end in image[:, known].aminmax())
        words.append(f"black {low:.4g}, white {high:.4g}")
        image = (image - low) / (high - low) if low < high else torch.full_like(image, 0.5)
    [picture] = to_pictures(image.nan_to_num(0).expand(3, -1, -1)[None])
    if not known.all():
        picture[~known.numpy()] = _UNKNOWN
        words.append("red is unknown")
    return picture, ", ".join(words)


def annotate(
    picture: Picture,
    *,
    masks: Iterable[NDArray[np.integer]] = (),
    boxes: NDArray[np.floating] | None = None,
    box_labels: NDArray[np.integer] | None = None,
    keypoints: NDArray[np.floating] | None = None,
    keypoint_labels: NDArray[np.integer] | None = None,
) -> Picture:
    """Return the picture with its targets drawn on it.

    Args:
        picture: uint8 [H, W, 3].
        masks: Integer arrays [H, W]. In a single mask, each value except 0 gets its own colour; several masks get one
            colour each.
        boxes: [N, 4] as x1, y1, x2, y2 in pixels, or [N, 8] as x and y of four corners.
        box_labels: [N]; a box has the colour that its label has in a mask.
        keypoints: [K, 2] as x, y in pixels.
        keypoint_labels: [K]; a keypoint has the colour of its label, without labels that of its row.
    """
    image = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    scale = max(1, round(max(picture.shape[:2]) / _USUAL_SIDE))
    masks = list(masks)
    if len(masks) > 1:  # several masks are instances
        masks = [np.where(mask != 0, number + 1, 0) for number, mask in enumerate(masks)]
    for mask in masks:
        values = np.unique(mask[mask != 0])
        if len(values):
            layers = torch.from_numpy(mask == values[:, None, None])
            colours = [color_of(value) for value in values.tolist()]
            image = draw_segmentation_masks(image, layers, alpha=_MASK_OPACITY, colors=colours)
    if boxes is not None and len(boxes):
        numbers = range(1, len(boxes) + 1) if box_labels is None else box_labels.tolist()
        corners = torch.from_numpy(np.array(boxes, np.float32))
        if corners.shape[1] == 4:
            # A box ends where the next pixel begins, but torchvision also colours the pixel at its end.
            corners[:, 2:] = torch.maximum(corners[:, :2], corners[:, 2:] - 1)
        else:
            corners = (corners - 0.5).round()  # from the border of pixels to their centres
        colours = [color_of(int(number)) for number in numbers]
        image = draw_bounding_boxes(image, corners, colors=colours, width=scale * _LINE_WIDTH)
    points = np.empty((0, 2)) if keypoints is None else keypoints
    numbers = range(len(points)) if keypoint_labels is None else keypoint_labels.tolist()
    for number, point in zip(numbers, np.array(points, np.float32), strict=True):
        center, radius = torch.from_numpy(point)[None, None], scale * _DOT_RADIUS
        image = draw_keypoints(image, center, colors=color_of(number + 1), radius=radius)
    return image.permute(1, 2, 0).contiguous().numpy()


def color_of(number: int) -> tuple[int, int, int]:
    """Return the colour of a class or mask value; 255 ("ignore") is gray."""
    if number == 255:
        return 160, 160, 160
    # Steps by the golden ratio give neighbouring numbers very different hues.
    red, green, blue = colorsys.hsv_to_rgb(number * 0.61803398875 % 1, 0.85, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)


LARGEST = 320
"""Largest height and width of a picture on the page, in pixels; larger ones are shrunk."""

SMALL = 160
"""Pictures whose sides are at most half of this are enlarged: each pixel becomes a square of pixels."""

# Largest number of classes or numbers in a caption; more would be wider than the picture.
_MOST_NAMES = 6


def fit(
    picture: Picture,
    largest: tuple[int, int] = (LARGEST, LARGEST),
    targets: Targets | None = None,
    recipe: Recipe | None = None,
) -> Image.Image:
    """Return a picture shrunk or enlarged for the page, with targets drawn on it.

    Args:
        picture: uint8 [H, W, 3].
        largest: Largest height and width.
        targets: The targets to draw; None draws none.
        recipe: The recipe, which defines the formats of boxes and keypoints.
    """
    height, width = picture.shape[:2]
    scale: float = min(largest[0] / height, largest[1] / width)
    if scale >= 1:
        scale = max(1, min(SMALL, *largest) // max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    kind = Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.LANCZOS
    image = Image.fromarray(picture).resize(size, kind)
    if not targets:
        return image
    shown = _scaled(targets, recipe, (height, width), scale, image)
    return Image.fromarray(
        annotate(
            np.asarray(image),
            masks=() if shown.masks is None else shown.masks,
            boxes=shown.boxes,
            box_labels=shown.box_labels,
            keypoints=shown.keypoints,
            keypoint_labels=shown.keypoint_labels,
        )
    )


def _scaled(
    targets: Targets,
    recipe: Recipe | None,
    size: tuple[int, int],
    scale: float,
    image: Image.Image,
) -> Targets:
    """Return targets in pixels of the displayed image, so that lines have the same width on every picture.

    Boxes become corners (two, or four of oriented ones), and keypoints continuous coordinates, whatever formats the recipe has;
    `size` is that of the picture.
    """
    boxes, points, masks = targets.boxes, targets.keypoints, targets.masks
    if boxes is not None:
        params = (recipe and recipe.boxes) or BoxParams()
        read = to_corners if params.is_oriented else to_xyxy
        boxes = read(boxes, params, size).reshape(len(boxes), -1) * scale
    if points is not None:
        # The centre of pixel 0 is at 0.5; for recipes with pixel_index it is at 0.
        half = 0.5 if recipe and recipe.keypoints and recipe.keypoints.pixel_index else 0
        points = (points + half) * scale
    if masks is not None:
        down = (np.arange(image.height) / scale).astype(np.int64).clip(max=size[0] - 1)
        across = (np.arange(image.width) / scale).astype(np.int64).clip(max=size[1] - 1)
        masks = masks[:, down][:, :, across]
    return replace(targets, boxes=boxes, keypoints=points, masks=masks)


def original_cells(
    sample: Sample,
    images: ImageFields,
    recipe: Recipe,
    largest: tuple[int, int],
    class_names: Sequence[str],
) -> list[Cell]:
    """Return cells with the full images of a sample and its targets.

    The caption of the first image has key, class, size and the classes of the boxes; the other captions have the field's name.
    """
    cells: list[Cell] = []
    reader = TargetReader(recipe, frozenset(KINDS))
    for name, payload in images.payloads(sample).items():
        picture, values = _read_picture(payload, images)
        targets = reader.read(sample.fields, picture.shape[:2]).targets
        lines = [Line(size_words(picture, values), FAINT)]
        if images.names:
            lines.insert(0, Line(name, FAINT))
        if not cells:
            names = [sample.key, label_words(sample.label, class_names)]
            lines = [*map(Line, names), *lines, *legend(targets, class_names)]
        cells.append(Cell(fit(picture, largest, targets, recipe), lines))
    return cells


def size_words(picture: Picture, values: str) -> str:
    """Return a caption with the size of a picture, and its values; see `show_values`."""
    return ", ".join(filter(None, [f"{picture.shape[0]} x {picture.shape[1]} px", values]))


def _read_picture(payload: Payload, images: ImageFields) -> tuple[Picture, str]:
    """Decode an image as stored; return it as a picture, with a legend of its values; see `show_values`."""
    header = read_header(payload)
    size = (header.height, header.width)
    is_usual = images.kind.is_usual
    stored: NDArray[Any] = (
        opencv.decode(payload, size) if is_usual else decode_stored(payload, size, images.kind)
    )
    image = torch.from_numpy(np.ascontiguousarray(stored)).permute(2, 0, 1)
    # Floats are in [0, 1] already, unless they are stored floats with any range.
    image = image.float() / 255 if image.dtype == torch.uint8 else image.float()
    return show_values(image, stretched=images.kind.depth == "float32")


def label_words(label: Any, class_names: Sequence[str]) -> str:
    """Return a text for a sample's label: the class, or the first numbers of a vector; "" without a label."""
    if np.ndim(label):
        numbers = np.asarray(label).tolist()[:_MOST_NAMES]
        return f"label {', '.join(f'{number:.3g}' for number in numbers)}"
    return "" if label < 0 else _class_name(int(label), class_names)


def _class_name(number: int, class_names: Sequence[str]) -> str:
    return class_names[number] if 0 <= number < len(class_names) else f"class {number}"


def legend(targets: Targets, class_names: Sequence[str]) -> list[Line]:
    """Return lines that name the first classes of the boxes, or values of a mask, in their colours."""
    names: dict[int, str] = {}
    if targets.box_labels is not None and np.ndim(targets.box_labels) == 1:
        labels = np.unique(targets.box_labels).tolist()
        names = {number: _class_name(number, class_names) for number in labels}
    elif targets.masks is not None and len(targets.masks) == 1:
        values = np.unique(targets.masks[targets.masks != 0]).tolist()
        names = {value: f"mask value {value}" for value in values}
    lines = [Line(name, color_of(number)) for number, name in names.items()]
    return lines[:_MOST_NAMES]
