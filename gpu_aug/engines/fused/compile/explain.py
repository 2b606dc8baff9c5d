"""The passes of the fused engine, in lines for people."""

from dataclasses import dataclass, field

import numpy as np
import torch

from gpu_aug.engines.fused.compile.plan import Part, Plan, make_plan
from gpu_aug.engines.fused.compile.stages import stages
from gpu_aug.ops import Operation
from gpu_aug.ops.color.jitter import ColorJitter, Contrast
from gpu_aug.ops.dropout.erase import Holes
from gpu_aug.ops.geometric.spatial import Crop, Reorient, Spatial, Warp
from gpu_aug.ops.policy.space import PolicyWarp
from gpu_aug.recipe import Recipe

_FLOAT_BYTES = 4
_KINDS = {
    "": "fused",
    "albumentations": "a step of Albumentations",
    "kornia": "a step of Kornia",
    "you": "a function of yours, which gets the whole batch",
}

Size = tuple[int, int] | None
"""Height and width; None where images have several."""


@dataclass
class Pass:
    """One reading and writing of an image.

    Attributes:
        by: "" for our own kernels, else whose step it is.
        split: Why it does not belong to the pass before.
        operations: What it carries out.
        notes: What else is worth knowing.
        mixes: Whether it reads a second image.
        size: After it.
    """

    by: str
    split: str
    operations: list[Operation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mixes: bool = False
    size: Size = None


def explain(recipe: Recipe, *, device: torch.device, exact: bool) -> str:
    """Return the passes, what each holds, the bytes that it moves, and why it was split off.

    Args:
        recipe: The recipe.
        device: Where it would run.
        exact: See ``compile_engine``.
    """
    plan = make_plan(recipe, device=device, exact=exact)
    passes = find_passes(plan, recipe.decode_size, exact=exact)
    lines = [
        f"{len(passes)} {'pass' if len(passes) == 1 else 'passes'} on {device} for an image whose gates are "
        "all open; an image skips what its gates close"
    ]
    before, total = recipe.decode_size, 0.0
    bytes_before = 1
    for number, one in enumerate(passes):
        names = ", ".join(type(operation).__name__ for operation in one.operations) or "a copy"
        kind = _KINDS[one.by]
        lines.append(f"pass {number + 1}, {kind}: {names}")
        read = _area(before) * 3 * bytes_before * (2 if one.mixes else 1)
        written = _area(one.size) * 3 * _FLOAT_BYTES
        total += read + written
        lines.append(
            f"  {_shape(before, bytes_before)} -> {_shape(one.size, _FLOAT_BYTES)}: "
            f"{_amount(read, before)} read, {_amount(written, one.size)} written"
        )
        lines += [f"  split: {one.split}"] * bool(one.split)
        lines += [f"  {note}" for note in one.notes]
        before, bytes_before = one.size, _FLOAT_BYTES
    if before is not None and recipe.decode_size is not None:
        lines.append(f"in all {total / 1000:.0f} kB per image, written as float32")
    return "\n".join(lines)


def find_passes(plan: Plan, size: Size, *, exact: bool) -> list[Pass]:
    """Gather the parts of a plan in passes, as they are carried out where all gates are open."""
    passes = [Pass("", "", size=size)]
    for part in plan.parts:
        current = passes[-1]
        reason = _why_split(current, part, exact=exact)
        if reason:
            if not current.operations and not current.by and len(passes) == 1 and part.way != "mix":
                passes.pop()
            by = part.by if part.way == "own" else ""
            passes.append(Pass(by, reason, mixes=part.way == "mix"))
            current = passes[-1]
        current.notes += _notes(current, part.operation)
        current.operations.append(part.operation)
        current.size = size = _size_after(part.operation, size)
    if passes[-1].by:
        passes.append(Pass("", "the result is stored as the batch's type", size=size))
    return passes


def _why_split(current: Pass, part: Part, *, exact: bool) -> str:
    """Return why a part begins a pass, or nothing."""
    operation, name = part.operation, type(part.operation).__name__
    if part.way == "own":
        return f"there is no fused kernel for {name}"
    if current.by:
        return f"{type(current.operations[-1]).__name__} was a pass of its own"
    if part.way == "mix":
        return f"{name} reads other images as they are before it"
    if part.way != "map":
        return ""
    before = current.operations
    if current.mixes:
        return f"{name} moves pixels of mixed images"
    if any(isinstance(other, Holes) for other in before):
        return f"{name} moves pixels after rectangles were painted"
    return "" if isinstance(operation, Reorient) else _why_apart(before, operation, exact=exact)


def _why_apart(before: list[Operation], operation: Operation, *, exact: bool) -> str:
    """Return why a Crop or a Warp cannot join the operations before it in a pass."""
    name = type(operation).__name__
    values = [other for other in before if stages(other) is not None]
    warps = [other for other in before if isinstance(other, Warp)]
    if isinstance(operation, Crop):
        if any(map(_takes_mean, values)):
            return f"{name} changes the image whose mean the contrast takes"
        if not operation.may_pad:
            return ""
        if values or warps:
            made = "changed values" if values else f"what {type(warps[-1]).__name__} made"
            return f"{name} pads {made}"
    elif values:
        return f"{name} interpolates values that {type(values[-1]).__name__} changed"
    elif warps:
        return _why_not_composed(warps, operation, exact=exact)
    pads = [other for other in before if isinstance(other, Crop) and other.may_pad]
    if pads and not (_alike(pads[-1], operation) and _pads_once(operation)):
        return f"{name} samples or pads in another way than {type(pads[-1]).__name__}"
    return ""


def _why_not_composed(warps: list[Warp], operation: Operation, *, exact: bool) -> str:
    """Return why a Warp and those before it in a pass cannot be one interpolation."""
    name = type(operation).__name__
    if exact or isinstance(operation, PolicyWarp):
        return f"{name} has an interpolation of its own" + (
            ", as exact=True asks for" if exact else ""
        )
    if "nearest" in (warps[-1].interpolation, getattr(operation, "interpolation", "")):
        return f"{name} or {type(warps[-1]).__name__} takes nearest pixels"
    if not _alike(warps[-1], operation):
        return f"{name} samples or pads in another way than {type(warps[-1]).__name__}"
    if warps[-1].padding_mode in ("reflect", "symmetric"):
        return f"{name} mirrors what lies in the frame between, which one interpolation cannot"
    return f"{name} would be a third warp, and a pass composes two" if len(warps) > 1 else ""


def _alike(one: Spatial, other: Operation) -> bool:
    """Whether the same lies beside both."""
    if not isinstance(other, Spatial) or one.padding_mode != other.padding_mode:
        return False
    return one.padding_mode != "constant" or (one.fill, one.blend) == (other.fill, other.blend)


def _pads_once(operation: Operation) -> bool:
    """Whether what lies beside it may be more of what lies beside the image already."""
    return isinstance(operation, Spatial) and (
        operation.padding_mode == "constant"
        and (isinstance(operation, Crop) or operation.blend == "once")
    )


def _notes(current: Pass, operation: Operation) -> list[str]:
    if _takes_mean(operation):
        return ["contrast: its mean needs all pixels, which wait in a scratch image of float32"]
    warps = [other for other in current.operations if isinstance(other, Warp)]
    if isinstance(operation, Warp) and warps:
        names = f"{type(warps[-1]).__name__} and {type(operation).__name__}"
        return [
            f"composed: {names} become one interpolation, and what the frame between cuts off stays cut off; "
            "exact=True keeps them apart"
        ]
    return []


def _takes_mean(operation: Operation) -> bool:
    if isinstance(operation, ColorJitter):
        return operation.contrast != (1, 1)
    return isinstance(operation, Contrast)


def _size_after(operation: Operation, size: Size) -> Size:
    if size is None:
        return None
    sizes = np.unique(operation.possible_sizes(np.array([size])), axis=0)
    return (int(sizes[0, 0]), int(sizes[0, 1])) if len(sizes) == 1 else None


def _area(size: Size) -> int:
    return 1 if size is None else size[0] * size[1]


def _shape(size: Size, item: int) -> str:
    dtype = {1: "uint8", _FLOAT_BYTES: "float32"}[item]
    return f"{dtype} of several sizes" if size is None else f"{dtype} {[*size, 3]}"


def _amount(bytes_: int, size: Size) -> str:
    return f"{bytes_} bytes per pixel" if size is None else f"{bytes_ / 1000:.0f} kB"
