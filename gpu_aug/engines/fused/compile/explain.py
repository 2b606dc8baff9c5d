"""Text that describes the passes of the fused engine."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.engines.fused.compile.other_engines import NO_KERNEL
from gpu_aug.engines.fused.compile.pending import Pending, Rows
from gpu_aug.engines.fused.compile.plan import OtherStep, Part, Plan, make_plan
from gpu_aug.engines.fused.compile.program import Stage
from gpu_aug.engines.fused.compile.stages import stages
from gpu_aug.ops import Operation
from gpu_aug.ops.geometric.spatial import Crop, Warp
from gpu_aug.recipe import Recipe

_NUM_IMAGES = 8  # images that are drawn; the one with the most passes is shown
_ANY_SIZE = (480, 640)  # of images whose size the recipe leaves open
_MEAN = "contrast: its mean needs all pixels, which wait in a scratch image of float32"  # a note
_FLOAT_BYTES = 4  # of the values that passes write
# How `Pass.by` is printed.
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
    """One pass over an image: it is read once and written once.

    Attributes:
        by: What carries out the pass: "" for the fused kernels, "albumentations" or "kornia" for a step of that engine,
            "you" for a function of the user.
        split: Why the operations could not join the pass before.
        operations: The operations that it carries out.
        notes: Further lines to print.
        mixes: Whether it reads a second image.
    """

    by: str
    split: str
    operations: list[Operation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mixes: bool = False


def explain(recipe: Recipe, *, device: torch.device, exact: bool) -> str:
    """Return text that describes each pass: its operations, the bytes that it reads and writes, and why it was split off.

    Args:
        recipe: The recipe.
        device: The device to plan for.
        exact: Whether each warp interpolates by itself; see ``compile_engine``.
    """
    plan = make_plan(recipe, device=device, exact=exact)
    passes = find_passes(plan, recipe)
    lines = [
        f"{len(passes)} {'pass' if len(passes) == 1 else 'passes'} on {device} for an image whose gates are "
        "all open; an image skips what its gates close"
    ]
    before, total = recipe.decode_size, 0.0
    bytes_before = 1
    for number, one in enumerate(passes):
        after = before
        for operation in one.operations:
            after = _size_after(operation, after)
        names = ", ".join(type(operation).__name__ for operation in one.operations) or "a copy"
        kind = _KINDS[one.by]
        lines.append(f"pass {number + 1}, {kind}: {names}")
        read = _area(before) * 3 * bytes_before * (2 if one.mixes else 1)
        written = _area(after) * 3 * _FLOAT_BYTES
        total += read + written
        lines.append(
            f"  {_shape(before, bytes_before)} -> {_shape(after, _FLOAT_BYTES)}: "
            f"{_amount(read, before)} read, {_amount(written, after)} written"
        )
        lines += [f"  split: {one.split}"] * bool(one.split)
        lines += [f"  {note}" for note in one.notes]
        before, bytes_before = after, _FLOAT_BYTES
    if before is not None and recipe.decode_size is not None:
        lines.append(f"in all {total / 1000:.0f} kB per image, written as float32")
    return "\n".join(lines)


def find_passes(plan: Plan, recipe: Recipe) -> list[Pass]:
    """Return the passes that images take if every gate is open, without computing pixels.

    Returns:
        The passes of the image with the most of them, out of a few drawn images.
    """
    if plan.is_step_by_step:
        return [
            Pass(part.by, _filled(NO_KERNEL, part.operation, []), [part.operation])
            for part in plan.parts
        ]
    size = recipe.decode_size or _ANY_SIZE
    sizes, nothing = np.full((_NUM_IMAGES, 2), size), [()] * _NUM_IMAGES
    draws = recipe.draw(0, 0, np.arange(_NUM_IMAGES), sizes, boxes=nothing)
    canvases = draws.crops.canvas.tolist()
    trace = _Trace([torch.empty(*one, 3, dtype=torch.uint8) for one in canvases], plan.num_stages)
    for number, (part, params) in enumerate(zip(plan.parts, draws.params, strict=True)):
        opened = params | {"apply": np.ones_like(params["apply"]), "partners": draws.partners}
        trace.add(part, opened, is_whole=number < plan.num_uint8)
    return max(trace.finish(), key=len)


class _Trace(Pending):
    """Programs that only record which passes each image takes; no pixels are computed."""

    def __init__(self, images: list[torch.Tensor], num_stages: int) -> None:
        super().__init__(images, num_stages, lambda *_: None)
        self._passes = [[Pass("", "")] for _ in images]
        self._reasons = [""] * len(images)

    def add(self, part: Part, params: Params, *, is_whole: bool) -> None:
        """Add an operation to the programs of all images and to their passes."""
        before = self.program.frame[:, 0] > 0
        if isinstance(part, OtherStep):
            part = replace(part, apply=_resized(part.operation))
        part.add(self, params, is_whole)
        composed = (self.program.frame[:, 0] > 0) & ~before
        for row, passes in enumerate(self._passes):
            if part.by:
                self._add_step(row, part)
                continue
            if composed[row]:
                passes[-1].notes.append(_composed(passes[-1], part.operation))
            passes[-1].operations.append(part.operation)

    def _add_step(self, row: int, part: Part) -> None:
        """Turn the current, empty pass into one that is a step of another engine, and begin a new pass."""
        name, passes = type(part.operation).__name__, self._passes[row]
        passes[-1].by, passes[-1].split = part.by, NO_KERNEL.format(name=name)
        passes[-1].operations.append(part.operation)
        passes.append(Pass("", f"{name} was a pass of its own"))

    def split(
        self, operation: Operation, rows: Rows, reasons: dict[str, Rows], dtype: Any = None
    ) -> None:
        """Split programs as Pending.split does, and record the reason for the next pass."""
        for row in np.flatnonzero(rows):
            texts = [text for text, holds in reasons.items() if holds[row]]
            if texts:
                self._reasons[row] = _filled(texts[0], operation, self._passes[row][-1].operations)
        super().split(operation, rows, reasons, dtype)

    def _carry_out(self, row_numbers: NDArray[np.int64] | None, outs: Any) -> None:  # noqa: ARG002
        """End the current pass of the given rows and begin a new one."""
        for row in range(len(self)) if row_numbers is None else row_numbers.tolist():
            passes = self._passes[row]
            passes[-1].mixes = bool(self.is_mixed[row])
            if (self.program.codes[row] == Stage.CONTRAST).any():
                passes[-1].notes.append(_MEAN)
            passes.append(Pass("", self._reasons[row]))

    def finish(self) -> list[list[Pass]]:
        """End all programs and return the passes of each image."""
        self._carry_out(None, None)
        for passes in self._passes:
            passes.pop()
            if len(passes) > 1 and not passes[-1].operations:
                passes[-1].split = "the result is stored as the batch's type"
        return self._passes


def _resized(operation: Operation) -> Any:
    """Return a stand-in for the step of another engine; it returns empty images of the size that the step would return."""

    def apply(images: Sequence[torch.Tensor], _params: Params) -> list[torch.Tensor]:
        sizes = [_size_after(operation, (image.shape[0], image.shape[1])) for image in images]
        return [
            torch.empty(*(size or image.shape[:2]), 3)
            for image, size in zip(images, sizes, strict=True)
        ]

    return apply


def _filled(text: str, operation: Operation, before: list[Operation]) -> str:
    """Return the text of a reason with the names of the operation and of earlier ones in the pass filled in."""
    kinds: dict[str, Any] = {
        "values": lambda other: stages(other) is not None and not isinstance(other, Warp),
        "warp": lambda other: isinstance(other, Warp),
        "pad": lambda other: isinstance(other, Crop) and other.may_pad,
    }
    names = {
        kind: next((type(other).__name__ for other in reversed(before) if fits(other)), "another")
        for kind, fits in kinds.items()
    }
    return text.format(name=type(operation).__name__, **names)


def _composed(current: Pass, operation: Operation) -> str:
    warp = [other for other in current.operations if isinstance(other, Warp)][-1]
    return (
        f"composed: {type(warp).__name__} and {type(operation).__name__} become one interpolation, and what the "
        "frame between cuts off stays cut off; exact=True keeps them apart"
    )


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
