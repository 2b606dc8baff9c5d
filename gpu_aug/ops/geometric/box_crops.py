"""Crops whose draw looks at the boxes of the sample."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_aug.compiled.first_call import CompiledAtFirstCall
from gpu_aug.draws import Params, philox4x32
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Key, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, whole_below
from gpu_aug.ops.geometric.borders import crop_params
from gpu_aug.ops.geometric.resizes import Resampling
from gpu_aug.ops.geometric.spatial import Crop, Pair, ToOneSize
from gpu_aug.ops.operation import Operation

__all__ = [
    "AtLeastOneBBoxRandomCrop",
    "BBoxSafeRandomCrop",
    "RandomCropNearBBox",
    "RandomIoUCrop",
    "RandomSizedBBoxSafeCrop",
]

RowBoxes = NDArray[np.float64]
"""Boxes of a batch, float64 [N, 5]: (row, left, top, right, bottom) in pixels, ordered by row, as for torchvision's roi_align."""

_NO_BOXES: RowBoxes = np.empty((0, 5))
_OPTIONS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # torchvision's default, from the paper about SSD
# torchvision goes on for ever. With the default options, one of seven leaves the image as it is, so that 50 draws of an
# option end without a result for 1 image of 2,000 at most, in which no crop reaches any of the other options.
_MOST_ROUNDS = 50
_KEY = (0, 0)  # any two words: the sample's own key is a part of the counters

_int64: Any = np.int64  # compiled code makes plain whole numbers with it


class NumbersAndBoxes(NamedTuple):
    """The uniform numbers of a slot, float64 [B, n], and the boxes that the images have before the operation."""

    numbers: Uniforms
    boxes: RowBoxes


class LooksAtBoxes(Operation, abstract=True):
    """Base of operations whose draw depends on the boxes of the image, as they are before the operation.

    ``draw`` takes NumbersAndBoxes in place of uniform numbers; plain uniform numbers stand for images without boxes.
    """

    needs_boxes: ClassVar[bool] = True
    """Always."""

    def draw_columns(self, u: Any) -> tuple[NDArray[np.bool_], Drawn]:
        """Return the gate, and the values of the columns of ``random`` and, under ``"boxes"``, the boxes, RowBoxes."""
        numbers, boxes = u if isinstance(u, NumbersAndBoxes) else (u, _NO_BOXES)
        gate, drawn = super().draw_columns(numbers)
        return gate, drawn | {"boxes": boxes}


@dataclass(frozen=True)
class RandomIoUCrop(LooksAtBoxes, Crop):
    """Crop a random part that overlaps one of the boxes enough, and drop boxes whose centre is outside of it.

    An option is drawn: the smallest overlap, as intersection over union, of the crop and a box whose centre is inside. If
    none of ``trials`` crops reaches it, another option is drawn, up to 50 times (in torchvision without end); after these, and
    without boxes, the image stays as it is. Boxes that are dropped stay as (0, 0, 0, 0) if the recipe has
    BoxParams(keep_empty=True), until SanitizeBoundingBoxes.

    Args:
        min_scale: Smallest height and width of the crop, as shares of the image's.
        max_scale: Largest height and width of the crop, as shares of the image's.
        min_aspect_ratio: Smallest width / height of the crop.
        max_aspect_ratio: Largest width / height of the crop.
        sampler_options: Smallest overlaps to draw from; one from 1 leaves the image as it is. None means (0.0, 0.1, 0.3, 0.5,
            0.7, 0.9, 1.0).
        trials: Number of crops that are tried for an option.

    Source: torchvision v2 RandomIoUCrop; Liu et al. 2015, https://arxiv.org/abs/1512.02325.

    Example:
        >>> recipe = Recipe([RandomIoUCrop(), Resize((300, 300)), HorizontalFlip()])
        >>> sample = {"image": np.zeros((48, 64, 3), np.uint8), "boxes": [[10, 10, 40, 40]]}
        >>> [result] = apply(recipe, [sample], seed=0)
        >>> result["image"].shape
        torch.Size([3, 300, 300])
    """

    random: ClassVar[Random] = {"key": Key()}

    min_scale: Annotated[float, validation.Number(low=0, high=1, above=True, example="0.3")] = 0.3
    max_scale: Annotated[float, validation.Number(low=0, high=1, above=True, example="1.0")] = 1.0
    min_aspect_ratio: Annotated[float, validation.Number(low=0, example="0.5")] = 0.5
    max_aspect_ratio: Annotated[float, validation.Number(low=0, example="2.0")] = 2.0
    sampler_options: Any = _OPTIONS
    trials: Annotated[int, validation.Integer(low=1, example="40")] = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        for what in ("scale", "aspect_ratio"):
            low, high = (getattr(self, f"{end}_{what}") for end in ("min", "max"))
            if low > high:
                allowed = f"at least min_{what}={low}, for example {low}"
                raise validation.fault("RandomIoUCrop", f"max_{what}", high, allowed)
        given = self.sampler_options
        options = _OPTIONS if given is None else given
        is_list = isinstance(options, list | tuple) and len(options) > 0
        if not is_list or not all(validation.is_number(one) and one >= 0 for one in options):
            allowed = "None or a list of numbers from 0, for example (0.1, 0.5, 1.0)"
            raise validation.fault("RandomIoUCrop", "sampler_options", given, allowed)
        self._set(sampler_options=tuple(float(one) for one in options))

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2], and the gate ``apply``, closed for images that stay as they are."""
        options, boxes = np.array(self.sampler_options), drawn["boxes"]
        params = crop_params(np.zeros(sizes.shape), sizes)
        is_cropped = np.zeros(len(sizes), bool)
        ends = np.searchsorted(boxes[:, 0], np.arange(len(sizes) + 1))
        waiting = np.flatnonzero(np.diff(ends))
        limits = (self.min_scale, self.max_scale, self.min_aspect_ratio, self.max_aspect_ratio)
        for number in range(_MOST_ROUNDS):
            numbers = _numbers_of_round(drawn["key"][waiting], number, self.trials)
            least = options[whole_below(numbers[:, -1, 0], len(options))]
            goes_on = least < 1
            waiting, least = waiting[goes_on], least[goes_on]
            if not len(waiting):
                break
            _first_with_overlap(
                waiting, least, numbers[goes_on], np.ascontiguousarray(sizes), boxes, ends, *limits,
                params["start"], params["shape"], is_cropped,
            )  # fmt: skip
            waiting = waiting[~is_cropped[waiting]]
        return params | {"apply": is_cropped}

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return the smallest and the largest size of a crop, and ``sizes`` themselves."""
        ends = [(sizes * share).astype(np.int64) for share in (self.min_scale, self.max_scale)]
        return np.maximum(np.concatenate([*ends, sizes]), 1)


def _numbers_of_round(keys: NDArray[np.uint32], number: int, trials: int) -> Uniforms:
    """Return four uniform numbers for each of ``trials`` crops, and in the last row those of the option, float64 [n, trials + 1, 4].

    They are made for the rows that need them, from the keys that their slot drew, because few images need many.
    """
    counter = np.empty((4, len(keys), trials + 1), np.uint32)
    counter[:2] = keys.T[:, :, None]
    counter[2], counter[3] = number, np.arange(trials + 1)
    return np.moveaxis(philox4x32(counter, np.array(_KEY)), 0, -1) * np.float64(2.0**-32)


@CompiledAtFirstCall
def _first_with_overlap(
    rows: Any, least: Any, numbers: Any, sizes: Any, boxes: Any, ends: Any, min_scale: float, max_scale: float,
    narrowest: float, widest: float, starts: Any, shapes: Any, is_cropped: Any,
) -> None:  # fmt: skip
    """Write the first crop of each row that overlaps a box enough, if there is one.

    Args:
        rows: Rows for which a crop is searched, int64 [n].
        least: Smallest overlap of each, float64 [n].
        numbers: Uniform numbers for (width, height, left, top) of each try, float64 [n, trials + 1, 4]; the last are not used.
        sizes: Heights and widths of the images, int64 [B, 2].
        boxes: See RowBoxes.
        ends: Index of the first box of each row, and of the end, int64 [B + 1].
        min_scale: Smallest share of a side.
        max_scale: Largest share of a side.
        narrowest: Smallest allowed width / height.
        widest: Largest allowed width / height.
        starts: Top and left of the crops, int64 [B, 2]; written.
        shapes: Heights and widths of the crops, int64 [B, 2]; written.
        is_cropped: Which rows have a crop, bool [B]; written.
    """
    for at in range(len(rows)):
        row = rows[at]
        height, width = sizes[row, 0], sizes[row, 1]
        for trial in range(numbers.shape[1] - 1):
            wide = _int64(width * (min_scale + (max_scale - min_scale) * numbers[at, trial, 0]))
            tall = _int64(height * (min_scale + (max_scale - min_scale) * numbers[at, trial, 1]))
            if wide < 1 or tall < 1 or not narrowest <= wide / tall <= widest:
                continue
            left = _int64((width - wide) * numbers[at, trial, 2])
            top = _int64((height - tall) * numbers[at, trial, 3])
            for box in range(ends[row], ends[row + 1]):
                x0, y0, x1, y1 = boxes[box, 1], boxes[box, 2], boxes[box, 3], boxes[box, 4]
                x, y = 0.5 * (x0 + x1), 0.5 * (y0 + y1)
                if not (left < x < left + wide and top < y < top + tall):
                    continue
                common = max(min(x1, left + wide) - max(x0, left), 0.0)
                common *= max(min(y1, top + tall) - max(y0, top), 0.0)
                union = (x1 - x0) * (y1 - y0) + wide * tall - common
                if common >= least[at] * union:
                    starts[row, 0], starts[row, 1] = top, left
                    shapes[row, 0], shapes[row, 1] = tall, wide
                    is_cropped[row] = True
                    break
            if is_cropped[row]:
                break


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
        first, last = (whole_below(u, 2 * most + 1) - most for u in (numbers[:, :2], numbers[:, 2:]))
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
    """Crop a random part that contains all boxes.

    The sides are drawn uniformly between the border of the image and that of the part with all boxes; a part without area is
    enlarged to one pixel. Without boxes, and with ``erosion_rate`` 1, the crop has the ratio of the image, a height of at least
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
