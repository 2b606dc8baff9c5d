"""Describe in words what was drawn for a sample: which operations changed it, and by how much."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.preview.matrix_descriptions import color_words, warp_words
from gpu_aug import Draws, Recipe
from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.ops.blur.kernels import Filter
from gpu_aug.ops.color.jitter import FACTORS, ColorJitter, Hue
from gpu_aug.ops.dropout.erase import Holes
from gpu_aug.ops.foreign.foreign import Foreign
from gpu_aug.ops.geometric.control_points import PiecewiseAffine, ThinPlateSpline
from gpu_aug.ops.geometric.spatial import Crop, Reorient, Resample, Warp
from gpu_aug.ops.mix import CutMix, Mixing, Mosaic
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.policy.policy import AugMix
from gpu_aug.ops.policy.space import BLENDS, PolicyBlend
from gpu_aug.ops.temporal import SPEED_UNIT, FrameDrop, SpeedJitter, Temporal

Size = tuple[int, int]
"""Height and width."""

# Longer vectors are left out: a caption has four lines.
_MOST_NUMBERS = 4

# Parameters that say nothing to people, such as keys of random numbers, or that are described with others.
_HIDDEN = (
    "apply",
    "key",
    "seed",
    "kernel",
    "points",
    "moved",
    "steps",
    "stains",
    "tiles",
    "sources",
)
_FORMATS = {
    "bits": (1, "{} bits"),
    "hue_shift": (2, "hue {:+.0f}°"),  # OpenCV counts 180 steps around the circle
    "num_changed": (1, "{} pixels"),
    "num_salt": (1, "{} of them white"),
    "num_segments": (1, "{} segments"),
    "quality": (1, "quality {}"),
    "radius": (1, "radius {} px"),
    "sat_shift": (1, "saturation {:+.0f}/255"),
    "size": (1, "{0} x {0} px"),
    "temperature": (1, "{} K"),
    "threshold": (255, "from {:.0f} of 255 on"),
    "val_shift": (1, "value {:+.0f}/255"),
}
"""Parameter -> what it is multiplied by, and its text."""

_TURNS = {  # transpose, top_bottom, left_right
    (True, True, False): "a quarter counter-clockwise",
    (False, True, True): "a half",
    (True, False, True): "a quarter clockwise",
}


class _Sample(NamedTuple):
    """The sample whose draws are described; see `leaf_words`."""

    draws: Draws
    row: int
    size: Size
    keys: Sequence[str]


def draw_words(recipe: Recipe, draws: Draws, row: int, keys: Sequence[str] = ()) -> list[str]:
    """Describe what a recipe did to a sample, with one text for each operation that changed it, in their order.

    Operations that treat all samples alike, such as Normalize, are left out.

    Args:
        recipe: The recipe.
        draws: The draws of this sample and others.
        row: The row of the sample in the draws.
        keys: Keys of all rows, to name the samples that it is mixed with.

    Returns:
        Texts such as "RandomResizedCrop: 45 x 59 px at top 6, left 4, to 64 x 64", or a single text if nothing changed
        the sample at random.

    Example:
        >>> from dali_pipes.preview import draw_words
        >>> recipe = Recipe([RandomResizedCrop(32), HorizontalFlip(p=1.0), Normalize()])
        >>> drawn = recipe.draw(seed=0, epoch=0, indices=np.array([7]), sizes=np.array([[48, 64]]))
        >>> draw_words(recipe, drawn, 0)
        ['RandomResizedCrop: 16 x 18 px at top 32, left 20, to 32 x 32', 'HorizontalFlip']
    """
    size = draws.sizes[row : row + 1]
    texts = []
    for leaf, params in zip(
        (*recipe.temporal_operations, *recipe.leaves),
        (*draws.temporal, *draws.decode_params, *draws.params),
        strict=True,
    ):
        own = row_of(params, row)
        if own["apply"][0] and (set(own) != {"apply"} or leaf.num_uniforms):
            height, width = size[0].tolist()
            texts.append(_named(leaf, leaf_words(leaf, own, draws, row, (height, width), keys)))
        if not isinstance(leaf, Temporal):
            size = leaf.result_size(own, size)
    return texts or ["nothing is changed at random"]


def leaf_words(
    leaf: Operation, own: Params, draws: Draws, row: int, size: Size, keys: Sequence[str] = ()
) -> str:
    """Describe what an operation of a recipe did to a sample; "" if the name of the operation says it all.

    Args:
        leaf: The operation, which changed the sample.
        own: Its parameters for the sample, first axis 1.
        draws: The draws of this sample and others.
        row: The row of the sample in the draws.
        size: Height and width of the image as it reached the operation.
        keys: Keys of all rows; see `draw_words`.
    """
    return _describe(leaf, own, _Sample(draws, row, size, keys))


def _named(operation: Operation, words: str) -> str:
    title = operation.title if isinstance(operation, Foreign) else type(operation).__name__
    title = title.removeprefix("Policy") if words else title
    return f"{title}: {words}" if words else title


@singledispatch
def _describe(leaf: Operation, own: Params, _sample: _Sample) -> str:
    """Describe an operation by the names and values of its parameters; see `leaf_words`."""
    if "matrix" in own and own["matrix"].shape[1:] == (3, 4):
        others = [_parameter(name, own[name][0]) for name in own if name == "temperature"]
        return ", ".join(filter(None, [*others, color_words(own["matrix"][0])]))
    texts = {name: _parameter(name, row[0]) for name, row in own.items() if name not in _HIDDEN}
    if isinstance(leaf, Filter) and "sigma" in texts:
        texts["sigma"] += " px"
    return ", ".join(filter(None, texts.values()))


def _parameter(name: str, value: Any) -> str:
    """Describe a parameter by its name and value; "" if it has too many numbers."""
    if name == "replace":
        return f"{int(np.count_nonzero(value))} replaced"
    if np.ndim(value) == 0 and name in _FORMATS:
        factor, text = _FORMATS[name]
        return text.format(factor * value)
    numbers = np.atleast_1d(value)
    if numbers.ndim > 1 or len(numbers) > _MOST_NUMBERS:
        return ""
    form = "{}" if numbers.dtype.kind in "iub" else "{:.3g}"
    return f"{name.replace('_', ' ')} {', '.join(map(form.format, numbers.tolist()))}"


@_describe.register
def _(_leaf: SpeedJitter, own: Params, _sample: _Sample) -> str:
    return f"{own['speed'][0] / SPEED_UNIT:.2f} times as fast"


@_describe.register
def _(_leaf: FrameDrop, _own: Params, _sample: _Sample) -> str:
    return "lost frames are held"


@_describe.register
def _(leaf: Mixing, own: Params, sample: _Sample) -> str:
    [sources] = leaf.sources(sample.draws.partners)[sample.row : sample.row + 1].tolist()
    [shares] = leaf.shares(own).tolist()
    keys = sample.keys
    parts = [
        f"{100 * share:.0f} % of {keys[source] if source < len(keys) else 'another sample'}"
        for source, share in zip(sources[1:], shares[1:], strict=True)
        if source != sample.row and share > 0
    ]
    if not parts:
        return "it has no partner, and stays as it is"
    if isinstance(leaf, CutMix):
        parts.append(_rectangle(own))
    if isinstance(leaf, Mosaic):
        parts.append(f"corner at {_corner(own)}")
    return ", ".join([f"{100 * shares[0]:.0f} % of it", *parts])


@_describe.register
def _(_leaf: Resample, own: Params, sample: _Sample) -> str:
    height, width = own["resize"][0].tolist()
    is_full = tuple(own["shape"][0].tolist()) == sample.size and not own["start"].any()
    return f"{'all' if is_full else _rectangle(own)}, to {height} x {width}"


@_describe.register
def _(_leaf: Crop, own: Params, sample: _Sample) -> str:
    (top, left), (height, width) = own["start"][0].tolist(), own["shape"][0].tolist()
    if min(-top, -left, top + height - sample.size[0], left + width - sample.size[1]) < 0:
        return _rectangle(own)
    if (height, width) == sample.size:
        return "nothing to do"
    return f"to {height} x {width} px, the picture at top {-top}, left {-left}"


@_describe.register
def _(leaf: Reorient, own: Params, _sample: _Sample) -> str:
    moves = tuple(bool(own[name][0]) for name in ("transpose", "top_bottom", "left_right"))
    if type(leaf).__name__ in ("HorizontalFlip", "VerticalFlip", "Transpose"):
        return ""
    if moves in _TURNS:
        return f"turned by {_TURNS[moves]}"
    names = ("transposed", "top and bottom mirrored", "left and right mirrored")
    done = [name for name, move in zip(names, moves, strict=True) if move]
    return ", then ".join(done) or "left as it is"


@_describe.register
def _(_leaf: Warp, own: Params, sample: _Sample) -> str:
    after = own["shape"][0].tolist() if "shape" in own else sample.size
    return warp_words(own["matrix"][0], sample.size, (after[0], after[1]))


@_describe.register(PiecewiseAffine)
@_describe.register(ThinPlateSpline)
def _(_leaf: Operation, own: Params, sample: _Sample) -> str:
    if "points" not in own:
        return ""
    distance = np.linalg.norm(own["moved"][0] - own["points"][0], axis=1).max()
    return f"points moved by up to {distance:.1f} px of {max(sample.size)}"


@_describe.register
def _(_leaf: Holes, own: Params, sample: _Sample) -> str:
    holes: NDArray[np.int64] = own["holes"][0]
    seen = holes[(holes[:, :2] < holes[:, 2:]).all(axis=1)].tolist()
    if len(seen) == 1:
        [(top, left, bottom, right)] = seen
        return f"{bottom - top} x {right - left} px at top {top}, left {left}"
    covered = np.zeros(sample.size, bool)
    for top, left, bottom, right in seen:
        covered[top:bottom, left:right] = True
    return f"{len(seen)} rectangles, {100 * covered.mean():.0f} % of the picture"


@_describe.register
def _(_leaf: ColorJitter, own: Params, _sample: _Sample) -> str:
    texts = []
    for name in (FACTORS[number] for number in own["order"][0].tolist()):
        value = float(own[name][0])
        if name == "hue" and value:
            texts.append(f"hue {360 * value:+.0f}°")
        elif name != "hue" and value != 1:
            texts.append(f"{name} x{value:.2f}")
    return ", ".join(texts) or "all factors are 1"


@_describe.register
def _(_leaf: Hue, own: Params, _sample: _Sample) -> str:
    return f"{360 * float(own['factor'][0]):+.0f}°"


@_describe.register
def _(_leaf: PolicyBlend, own: Params, _sample: _Sample) -> str:
    return f"{BLENDS[int(own['kind'][0])].lower()} x{float(own['factor'][0]):.2f}"


@_describe.register
def _(leaf: AugMix, own: Params, sample: _Sample) -> str:
    weights = own["weights"][0]
    chains: list[list[str]] = [[] for _ in weights[1:]]
    for chain, carrier, params in leaf.carried(own):
        if params["apply"][0]:
            operation = leaf.carriers[carrier]
            chains[chain].append(_describe(operation, params, sample) or type(operation).__name__)
    parts = [
        f"{100 * weight:.0f} % of ({', then '.join(links)})"
        for weight, links in zip(weights[1:], chains, strict=True)
    ]
    return " + ".join([f"{100 * weights[0]:.0f} % of it", *parts])


def _rectangle(own: Params) -> str:
    """Describe a rectangle by the parameters ``shape`` and ``start``."""
    height, width = own["shape"][0].tolist()
    return f"{height} x {width} px at {_corner(own)}"


def _corner(own: Params) -> str:
    top, left = own["start"][0].tolist()
    return f"top {top}, left {left}"
