"""RandomIoUCrop: a random crop that overlaps one of the boxes enough."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpu_aug.compiled.first_call import CompiledAtFirstCall
from gpu_aug.draws import Params, philox4x32
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Key, Random
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, whole_below
from gpu_aug.ops.geometric.borders import crop_params
from gpu_aug.ops.geometric.box_crops import LooksAtBoxes
from gpu_aug.ops.geometric.spatial import Crop

__all__ = ["RandomIoUCrop"]

_OPTIONS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # torchvision's default, from the paper about SSD
# torchvision goes on for ever. With the default options, one of seven leaves the image as it is, so that 50 draws of an
# option end without a result for 1 image of 2,000 at most, in which no crop reaches any of the other options.
_MOST_ROUNDS = 50
_KEY = (0, 0)  # any two words: the sample's own key is a part of the counters

_int64: Any = np.int64  # compiled code makes plain whole numbers with it


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
        possible: Sizes = np.maximum(np.concatenate([*ends, sizes]), 1)
        return possible


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
