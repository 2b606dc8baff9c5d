"""Describe in words what was drawn for a sample: which operations changed it, and by how much."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

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

_LISTED = 4  # so many numbers of a vector are told
_SILENT = (
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
_UNITS = {
    "bits": "{} bits",
    "radius": "radius {} px",
    "temperature": "{} K",
    "quality": "quality {}",
    "num_changed": "{} pixels",
    "num_salt": "{} of them white",
    "num_segments": "{} segments",
}
_TURNS = {  # transpose, top_bottom, left_right
    (True, True, False): "a quarter counter-clockwise",
    (False, True, True): "a half",
    (True, False, True): "a quarter clockwise",
}


def draw_words(recipe: Recipe, draws: Draws, row: int, keys: Sequence[str] = ()) -> list[str]:
    """Say what a recipe did to a sample, one text for each operation that changed it, in their order.

    What is alike for all samples, such as Normalize, is left out.

    Args:
        recipe: The recipe.
        draws: What was drawn, for this sample and others.
        row: The sample's.
        keys: Of all rows, which name those that it is mixed with.

    Returns:
        Texts such as "RandomResizedCrop: 45 x 59 px at top 6, left 4, to 64 x 64"; one that says that nothing was
        done where that is so.

    Example:
        >>> from dali_pipes.preview import draw_words
        >>> recipe = Recipe([RandomResizedCrop(32), HorizontalFlip(p=1.0), Normalize()])
        >>> drawn = recipe.draw(seed=0, epoch=0, indices=np.array([7]), sizes=np.array([[48, 64]]))
        >>> draw_words(recipe, drawn, 0)
        ['RandomResizedCrop: 16 x 18 px at top 32, left 20, to 32 x 32', 'HorizontalFlip']
    """
    told = [
        _named(operation, _of_time(operation, row_of(params, row)))
        for operation, params in zip(recipe.temporal_operations, draws.temporal, strict=True)
        if params["apply"][row]
    ]
    size = draws.sizes[row : row + 1]
    for leaf, params in zip(recipe.leaves, draws.decode_params + draws.params, strict=True):
        own = row_of(params, row)
        if own["apply"][0] and not (set(own) == {"apply"} and not leaf.num_uniforms):
            height, width = size[0].tolist()
            told.append(_named(leaf, leaf_words(leaf, own, draws, row, (height, width), keys)))
        size = leaf.result_size(own, size)
    return told or ["nothing is changed at random"]


def leaf_words(
    leaf: Operation, own: Params, draws: Draws, row: int, size: Size, keys: Sequence[str] = ()
) -> str:
    """Say what one operation of a recipe did to a sample, "" where its name says it all.

    Args:
        leaf: The operation, which changed it.
        own: What was drawn for it, first axis 1.
        draws: All that was drawn; so `row` and `keys`, see `draw_words`.
        row: The sample's.
        size: Height and width of the image as it reached the operation.
        keys: Of all rows.
    """
    if isinstance(leaf, Temporal):
        return _of_time(leaf, own)
    return _mixed(leaf, own, draws, row, keys) or details(leaf, own, size)


def _named(operation: Operation, words: str) -> str:
    title = operation.title if isinstance(operation, Foreign) else type(operation).__name__
    title = title.removeprefix("Policy") if words else title
    return f"{title}: {words}" if words else title


def _mixed(leaf: Operation, own: Params, draws: Draws, row: int, keys: Sequence[str]) -> str:
    """With which samples one is mixed, and how much of it is left; "" for what mixes nothing."""
    if not isinstance(leaf, Mixing):
        return ""
    [sources] = leaf.sources(draws.partners)[row : row + 1].tolist()
    [shares] = leaf.shares(own).tolist()
    parts = [
        f"{100 * share:.0f} % of {keys[source] if source < len(keys) else 'another sample'}"
        for source, share in zip(sources[1:], shares[1:], strict=True)
        if source != row and share > 0
    ]
    if not parts:
        return "it has no partner, and stays as it is"
    rectangle = f", {rectangle_words(own)}" if isinstance(leaf, CutMix) else ""
    corner = f", corner at {corner_words(own['start'][0])}" if isinstance(leaf, Mosaic) else ""
    return f"{100 * shares[0]:.0f} % of it, {', '.join(parts)}{rectangle}{corner}"


def _of_time(operation: Operation, own: Params) -> str:
    if isinstance(operation, SpeedJitter):
        return f"{own['speed'][0] / SPEED_UNIT:.2f} times as fast"
    return "lost frames are held" if isinstance(operation, FrameDrop) else ""


@singledispatch
def details(leaf: Operation, own: Params, size: Size) -> str:
    """Say what an operation did to an image, "" where its name says it all.

    Args:
        leaf: The operation.
        own: Its parameters for the image, first axis 1.
        size: Height and width of the image as it reached the operation.
    """
    del size
    if "matrix" in own and own["matrix"].shape[1:] == (3, 4):
        told = color_words(own["matrix"][0])
        others = [_plain(name, own[name][0]) for name in own if name == "temperature"]
        return ", ".join([*others, told] if told else others)
    texts = {name: _plain(name, row[0]) for name, row in own.items() if name not in _SILENT}
    if isinstance(leaf, Filter) and "sigma" in texts:
        texts["sigma"] += " px"
    return ", ".join(text for text in texts.values() if text)


def _plain(name: str, value: Any) -> str:
    """A parameter whose name says what it is; "" for one that is too long to be told."""
    words = name.replace("_", " ")
    if np.ndim(value) == 0:
        if name in _UNITS:
            return _UNITS[name].format(value)
        if name == "threshold":
            return f"from {255 * float(value):.0f} of 255 on"
        if name == "size":
            return f"{value} x {value} px"
        if name == "hue_shift":
            return f"hue {2 * float(value):+.0f}°"
        if name in ("sat_shift", "val_shift"):
            return f"{'saturation' if name[0] == 's' else 'value'} {float(value):+.0f}/255"
        return f"{words} {_number(value)}"
    if name == "replace":
        return f"{int(np.count_nonzero(value))} replaced"
    if np.ndim(value) == 1 and len(value) <= _LISTED:
        return f"{words} {', '.join(map(_number, value))}"
    return ""


def _number(value: Any) -> str:
    return f"{value}" if np.asarray(value).dtype.kind in "iub" else f"{float(value):.3g}"


@details.register
def _(leaf: Resample, own: Params, size: Size) -> str:
    del leaf
    height, width = own["resize"][0].tolist()
    whole = tuple(own["shape"][0].tolist()) == size and not own["start"].any()
    return f"{'all' if whole else rectangle_words(own)}, to {height} x {width}"


@details.register
def _(leaf: Crop, own: Params, size: Size) -> str:
    del leaf
    (top, left), (height, width) = own["start"][0].tolist(), own["shape"][0].tolist()
    if top <= 0 and left <= 0 and top + height >= size[0] and left + width >= size[1]:
        if (height, width) == size:
            return "nothing to do"
        return f"to {height} x {width} px, the picture at top {-top}, left {-left}"
    return rectangle_words(own)


@details.register
def _(leaf: Reorient, own: Params, size: Size) -> str:
    del size
    moves = tuple(bool(own[name][0]) for name in ("transpose", "top_bottom", "left_right"))
    if type(leaf).__name__ in ("HorizontalFlip", "VerticalFlip", "Transpose"):
        return ""
    if moves in _TURNS:
        return f"turned by {_TURNS[moves]}"
    names = ("transposed", "top and bottom mirrored", "left and right mirrored")
    done = [name for name, move in zip(names, moves, strict=True) if move]
    return ", then ".join(done) or "left as it is"


@details.register
def _(leaf: Warp, own: Params, size: Size) -> str:
    del leaf
    after = own["shape"][0].tolist() if "shape" in own else size
    return warp_words(own["matrix"][0], size, (after[0], after[1]))


@details.register(PiecewiseAffine)
@details.register(ThinPlateSpline)
def _(leaf: Operation, own: Params, size: Size) -> str:
    del leaf
    if "points" not in own:
        return ""
    distance = np.linalg.norm(own["moved"][0] - own["points"][0], axis=1).max()
    return f"points moved by up to {distance:.1f} px of {max(size)}"


@details.register
def _(leaf: Holes, own: Params, size: Size) -> str:
    del leaf
    holes: NDArray[np.int64] = own["holes"][0]
    seen = holes[(holes[:, :2] < holes[:, 2:]).all(axis=1)].tolist()
    if len(seen) == 1:
        [(top, left, bottom, right)] = seen
        return f"{bottom - top} x {right - left} px at top {top}, left {left}"
    covered = np.zeros(size, bool)
    for top, left, bottom, right in seen:
        covered[top:bottom, left:right] = True
    return f"{len(seen)} rectangles, {100 * covered.mean():.0f} % of the picture"


@details.register
def _(leaf: ColorJitter, own: Params, size: Size) -> str:
    del leaf, size
    texts = []
    for name in (FACTORS[number] for number in own["order"][0].tolist()):
        value = float(own[name][0])
        if name == "hue" and value:
            texts.append(f"hue {360 * value:+.0f}°")
        elif name != "hue" and value != 1:
            texts.append(f"{name} x{value:.2f}")
    return ", ".join(texts) or "all factors are 1"


@details.register
def _(leaf: Hue, own: Params, size: Size) -> str:
    del leaf, size
    return f"{360 * float(own['factor'][0]):+.0f}°"


@details.register
def _(leaf: PolicyBlend, own: Params, size: Size) -> str:
    del leaf, size
    return f"{BLENDS[int(own['kind'][0])].lower()} x{float(own['factor'][0]):.2f}"


@details.register
def _(leaf: AugMix, own: Params, size: Size) -> str:
    weights = own["weights"][0]
    chains: list[list[str]] = [[] for _ in weights[1:]]
    for chain, carrier, params in leaf.carried(own):
        if params["apply"][0]:
            operation = leaf.carriers[carrier]
            words = details(operation, params, size)
            chains[chain].append(words if words else type(operation).__name__)
    parts = [
        f"{100 * weight:.0f} % of ({', then '.join(links)})"
        for weight, links in zip(weights[1:], chains, strict=True)
    ]
    return " + ".join([f"{100 * weights[0]:.0f} % of it", *parts])


def rectangle_words(own: Params) -> str:
    """Tell ``shape`` and ``start`` of parameters."""
    height, width = own["shape"][0].tolist()
    return f"{height} x {width} px at {corner_words(own['start'][0])}"


def corner_words(start: NDArray[np.int64]) -> str:
    """Tell top and left, int64 [2]."""
    top, left = start.tolist()
    return f"top {top}, left {left}"
