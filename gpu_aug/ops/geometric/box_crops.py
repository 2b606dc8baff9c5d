"""Crops whose draw looks at the boxes of the sample, as in Albumentations, and the base of all such operations."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, whole_below
from gpu_aug.ops.geometric.borders import crop_params
from gpu_aug.ops.geometric.resizes import Resampling
from gpu_aug.ops.geometric.spatial import Crop, Pair, ToOneSize
from gpu_aug.ops.operation import Operation

__all__ = [
    "AtLeastOneBBoxRandomCrop",
    "BBoxSafeRandomCrop",
    "RandomCropNearBBox",
    "RandomSizedBBoxSafeCrop",
]

RowBoxes = NDArray[np.float64]
"""Boxes of a batch, float64 [N, 5]: (row, left, top, right, bottom) in pixels, ordered by row, as for torchvision's roi_align."""

_NO_BOXES: RowBoxes = np.empty((0, 5))


class NumbersAndBoxes(NamedTuple):
    """The uniform numbers of a slot, float64 [B, n], and the boxes that the images have before the operation."""

    numbers: Uniforms
    boxes: RowBoxes


class LooksAtBoxes(Operation, abstract=True):
    """Base of operations whose draw depends on the boxes of the image, as they are before the operation.

    ``draw`` takes NumbersAndBoxes in place of uniform numbers; plain uniform numbers stand for images without boxes.
    """

    needs_boxes: ClassVar[bool] = True
    """See Operation; True for all of them."""

    def draw_columns(self, u: Any) -> tuple[NDArray[np.bool_], Drawn]:
        """Return the gate, and the values of the columns of ``random`` and, under ``"boxes"``, the boxes, RowBoxes."""
        numbers, boxes = u if isinstance(u, NumbersAndBoxes) else (u, _NO_BOXES)
        gate, drawn = super().draw_columns(numbers)
        return gate, drawn | {"boxes": boxes}


class _Sometimes(LooksAtBoxes, abstract=True):
    """Base of crops with a field ``p``, the share of the images that are cropped."""

    p: float

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return every size of a result: the field ``size``, or from one pixel up; and ``sizes`` themselves unless ``p`` is 1."""
        size = getattr(self, "size", None)
        if size is None:
            return np.concatenate([np.ones_like(sizes), sizes])
        return np.concatenate([[size], sizes[:0] if self.p == 1 else sizes])


@dataclass(frozen=True)
class AtLeastOneBBoxRandomCrop(_Sometimes, ToOneSize, Crop):
    """Crop a fixed size at a random location where it shows one of the boxes, drawn with equal chances.

    Without boxes the location is random. An image that is smaller than the crop is placed in its middle, on black;
    Albumentations refuses it.

    Args:
        size: (height, width) of the result; one number means a square.
        erosion_factor: Share of the box's height and width that may be outside of the crop: with 0.0 the crop contains the box if
            it is large enough.
        p: Share of the images that are cropped.

    Source: Albumentations AtLeastOneBBoxRandomCrop, whose ``height`` and ``width`` are ``size`` here.

    Example:
        >>> Recipe([AtLeastOneBBoxRandomCrop(256, erosion_factor=0.2), HorizontalFlip()]).size
        (256, 256)
    """

    random: ClassVar[Random] = {"choice": Numbers(), "place": Numbers(2)}

    size: Pair
    erosion_factor: Annotated[float, validation.Number(low=0, high=1, example="0.2")] = 0.0
    p: float = 1.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, which is negative if a border is added, and ``shape``, int64 [B, 2]."""
        room = (sizes - self.size).astype(np.float64)
        low, high = np.zeros(room.shape), np.maximum(room, 0)
        there, top_left, bottom_right = _one_box_each(drawn["boxes"], drawn["choice"])
        shown = (bottom_right - top_left) * (1 - self.erosion_factor)
        low[there] = np.clip(top_left + shown - self.size, 0, room[there])
        high[there] = np.clip(bottom_right - shown, 0, room[there])
        # A crop that is smaller than the box has low > high.
        start = (low + (high - low) * drawn["place"]).astype(np.int64)
        return crop_params(np.where(room < 0, -(-room // 2), start), self.size)


@dataclass(frozen=True)
class RandomCropNearBBox(_Sometimes, Crop):
    """Crop the first box of the sample, with each side moved by a random number of pixels.

    The box counts as it is before this operation, rounded to full pixels and cut off at the border of the image. If the moved sides
    leave nothing of it, a part of the box's size in the middle of the image is cropped. Without boxes the image stays
    as it is.

    Args:
        max_part_shift: Largest shift of (top and bottom, left and right), as shares of the box's height and width; the second is not
            smaller. One number stands for (0, number).
        p: Share of the images that are cropped.

    Source: Albumentations RandomCropNearBBox, which takes the box out of a further argument of the call, named by
    ``cropping_bbox_key``; give it as the first of the sample's boxes here.

    Example:
        >>> Recipe([RandomCropNearBBox(0.2), Resize((112, 112))]).size
        (112, 112)
    """

    random: ClassVar[Random] = {"shift": Numbers(4)}

    max_part_shift: Any = (0.0, 0.3)
    p: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.max_part_shift
        ends = (0.0, given) if validation.is_number(given) else given
        checked = validation.interval(
            "RandomCropNearBBox", "max_part_shift", ends, low=0, high=1, example="(0.0, 0.3)"
        )
        self._set(max_part_shift=checked)

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2], and the gate ``apply``, closed for images without boxes."""
        there, *corners = _one_box_each(drawn["boxes"], np.zeros(len(sizes)))
        inside = sizes[there]
        low, high = (np.clip(np.rint(one).astype(np.int64), 0, inside) for one in corners)
        most = np.rint((high - low) * self.max_part_shift).astype(np.int64)
        numbers = drawn["shift"][there]
        first, last = (
            whole_below(u, 2 * most + 1) - most for u in (numbers[:, :2], numbers[:, 2:])
        )
        start = np.clip(low - first, 0, inside)
        stop = np.clip(high + last, start, inside)
        is_empty = (start == stop).any(axis=1, keepdims=True)
        start = np.where(is_empty, (inside - (high - low)) // 2, start)
        stop = np.where(is_empty, start + (high - low), stop)
        params = crop_params(np.zeros(sizes.shape), sizes)
        params["start"][there], params["shape"][there] = _solid(start, stop, inside)
        is_cropped = np.zeros(len(sizes), bool)
        is_cropped[there] = True
        return params | {"apply": is_cropped}


@dataclass(frozen=True)
class BBoxSafeRandomCrop(_Sometimes, Crop):
    """Crop a random part that contains all boxes, except for fractions of a pixel.

    The sides are drawn uniformly between the border of the image and that of the part with all boxes; a part without area is
    enlarged to one pixel. They are rounded down to full pixels, as in Albumentations, so boxes can lose less than a pixel at the
    right and the bottom, and BoxParams(min_visibility=1.0) drops such boxes. Without boxes, and with ``erosion_rate`` 1, the crop has the ratio of the image, a height of at least
    (1 - erosion_rate) of its height, and a random location.

    Args:
        erosion_rate: Share of the height and width of the part with all boxes that may be cut off, half of it at each side; it has
            no effect on a single box, as in Albumentations.
        p: Share of the images that are cropped.

    Source: Albumentations BBoxSafeRandomCrop.

    Example:
        >>> Recipe([BBoxSafeRandomCrop(erosion_rate=0.1), Resize((320, 320))]).size
        (320, 320)
    """

    random: ClassVar[Random] = {"sides": Numbers(4), "height": Numbers(), "place": Numbers(2)}

    erosion_rate: Annotated[float, validation.Number(low=0, high=1, example="0.2")] = 0.0
    p: float = 1.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2]; see Crop."""
        return crop_params(*_safe_part(drawn, sizes, self.erosion_rate))


@dataclass(frozen=True)
class RandomSizedBBoxSafeCrop(_Sometimes, ToOneSize, Resampling):
    """Crop a random part that contains all boxes, as BBoxSafeRandomCrop does, and resize it to one size.

    Args:
        size: (height, width) of the result; one number means a square.
        erosion_rate: See BBoxSafeRandomCrop.
        p: Share of the images that are changed.
        interpolation: See Resampling, also for the fields that are not listed.

    Source: Albumentations RandomSizedBBoxSafeCrop, whose ``height`` and ``width`` are ``size`` here.

    Example:
        >>> Recipe([RandomSizedBBoxSafeCrop(320), HorizontalFlip()]).size
        (320, 320)
    """

    random: ClassVar[Random] = BBoxSafeRandomCrop.random

    size: Pair
    _: KW_ONLY
    erosion_rate: Annotated[float, validation.Number(low=0, high=1, example="0.2")] = 0.0
    p: float = 1.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]; see Resample."""
        return self._params(*_safe_part(drawn, sizes, self.erosion_rate), self.size)


def _one_box_each(boxes: RowBoxes, u: Uniforms) -> tuple[Sizes, Uniforms, Uniforms]:
    """Choose a box of each row that has some by a uniform number, float64 [B]; return the rows and the boxes.

    Returns:
        The n rows with boxes, int64 [n], and the top-left and the bottom-right corner, (y, x), of a box of each, float64 [n, 2].
    """
    count = np.bincount(boxes[:, 0].astype(np.int64), minlength=len(u))
    there = np.flatnonzero(count)
    chosen = boxes[(np.cumsum(count) - count + whole_below(u, count))[there]]
    return there, chosen[:, [2, 1]], chosen[:, [4, 3]]


def _safe_part(drawn: Drawn, sizes: Sizes, erosion_rate: float) -> tuple[Sizes, Sizes]:
    """Return start and shape of a part with all boxes, int64 [B, 2]; see BBoxSafeRandomCrop."""
    boxes = drawn["boxes"]
    rows = boxes[:, 0].astype(np.int64)
    count = np.bincount(rows, minlength=len(sizes))
    low, high = sizes.astype(np.float64), np.zeros(sizes.shape)
    np.minimum.at(low, rows, boxes[:, [2, 1]])
    np.maximum.at(high, rows, boxes[:, [4, 3]])
    eroded = (high - low) * (count > 1)[:, None] * erosion_rate / 2
    low, high = np.clip(low + eroded, 0, sizes), np.clip(high - eroded, 0, sizes)
    start = (low * drawn["sides"][:, :2]).astype(np.int64)
    stop = (high + (sizes - high) * drawn["sides"][:, 2:]).astype(np.int64)

    height, width = sizes.T
    least = (height * (1 - erosion_rate)).astype(np.int64)
    tall = least + whole_below(drawn["height"], height - least + 1)
    free = np.stack([tall, tall * width // height], axis=1)
    place = whole_below(drawn["place"], sizes - free + 1)

    is_safe = ((count > 0) & (erosion_rate < 1))[:, None]
    return _solid(np.where(is_safe, start, place), np.where(is_safe, stop, place + free), sizes)


def _solid(start: Sizes, stop: Sizes, sizes: Sizes) -> tuple[Sizes, Sizes]:
    """Return the start and the shape of rectangles; those without area are enlarged to one pixel inside the image."""
    shape = np.maximum(stop - start, 1)
    return np.minimum(start, sizes - shape), shape
