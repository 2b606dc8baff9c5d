"""Turn tensors into RGB pictures, and draw masks, boxes and keypoints on them."""

import colorsys
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision.utils import draw_bounding_boxes, draw_keypoints, draw_segmentation_masks

from gpu_aug import Normalize, Recipe

_MASK_OPACITY = 0.45  # the picture stays visible under a mask
_LINE_WIDTH = 2  # pixels, of boxes: visible, and hides little
_DOT_RADIUS = 3  # pixels, of keypoints, as above
_DOT_EDGE = (255, 255, 255)  # separates a keypoint from pixels of its own colour
_USUAL_SIDE = (
    320  # pixels, for which these widths are meant; they grow with pictures, which are shrunk later
)

_UNKNOWN = (150, 0, 0)  # pixels whose value is NaN or infinite

Picture = NDArray[np.uint8]
"""uint8 [height, width, 3]."""


def viewable(images: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    """Undo the recipe's Normalize operations, so that values are in [0, 1] again."""
    for leaf in reversed(recipe.leaves):
        if isinstance(leaf, Normalize):
            mean, std = torch.tensor(leaf.mean), torch.tensor(leaf.std)
            images = images * std.view(-1, 1, 1) + mean.view(-1, 1, 1)
    return images


def to_pictures(images: torch.Tensor) -> list[Picture]:
    """Turn floats [N, 3, height, width] in [0, 1] into uint8 [height, width, 3]."""
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    return list(pixels.contiguous().numpy())


def show_values(image: torch.Tensor, *, stretched: bool) -> tuple[Picture, str]:
    """Turn an image of any channels into a picture.

    Args:
        image: Float [C, H, W]. Two channels (flow) are shown by their length, more than three by the first three.
        stretched: Whether the smallest value becomes black and the largest white; otherwise 0 and 1 do.

    Returns:
        uint8 [H, W, 3], and a legend, "" if it needs none.
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
        words.append(f"all are {low:.4g}" if low == high else f"black {low:.4g}, white {high:.4g}")
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
) -> Picture:
    """Return the picture with its targets drawn on it.

    Args:
        picture: uint8 [H, W, 3].
        masks: Integer arrays [H, W]. In a single mask each value except 0 gets its own colour; of several masks each
            gets one.
        boxes: [N, 4] as x1, y1, x2, y2 in pixels.
        box_labels: [N]; boxes of a label have the colour of that value in a mask.
        keypoints: [K, 2] as x, y in pixels.
    """
    image = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    scale = max(1, round(max(picture.shape[:2]) / _USUAL_SIDE))
    masks = list(masks)
    if len(masks) > 1:  # instances
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
        # A box ends where the next pixel would begin; torchvision colours its last pixel too.
        corners[:, 2:] = torch.maximum(corners[:, :2], corners[:, 2:] - 1)
        colours = [color_of(int(number)) for number in numbers]
        image = draw_bounding_boxes(image, corners, colors=colours, width=scale * _LINE_WIDTH)
    for number, point in enumerate([] if keypoints is None else np.array(keypoints, np.float32)):
        center, radius = torch.from_numpy(point)[None, None], scale * _DOT_RADIUS
        image = draw_keypoints(image, center, colors=_DOT_EDGE, radius=radius + scale)
        image = draw_keypoints(image, center, colors=color_of(number + 1), radius=radius)
    return image.permute(1, 2, 0).contiguous().numpy()


def color_of(number: int) -> tuple[int, int, int]:
    """Return the colour of a class or of a mask's value; 255 ("ignore") is gray."""
    if number == 255:
        return 160, 160, 160
    # Steps of the golden ratio give neighbouring numbers very different hues.
    red, green, blue = colorsys.hsv_to_rgb(number * 0.61803398875 % 1, 0.85, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)
