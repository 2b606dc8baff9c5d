"""The passes of a recipe and their operations, which ``FusedEngine`` runs and ``explain`` prints."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from gpu_aug.draws import Draws, Params
from gpu_aug.engines.engine import num_uint8
from gpu_aug.engines.fused.compile.maps import can_move, move
from gpu_aug.engines.fused.compile.mixing import make_mosaic, mix
from gpu_aug.engines.fused.compile.other_engines import (
    NO_KERNEL,
    Apply,
    prepare_mixing,
    prepare_step,
)
from gpu_aug.engines.fused.compile.pending import Pending
from gpu_aug.engines.fused.compile.stages import NO_STAGES, Columns, Stages, stages
from gpu_aug.ops import Operation
from gpu_aug.ops.mix import CutMix, Mixing, MixUp
from gpu_aug.recipe import Recipe


class Part(Protocol):
    """One operation of the batch stage."""

    @property
    def operation(self) -> Operation:
        """What it is."""

    @property
    def by(self) -> str:
        """Whose step it is, where the kernels do not know it; else ""."""

    def add(self, pending: Pending, params: Params, is_whole: bool) -> None:
        """Add it to the programs.

        Args:
            pending: The programs.
            params: Drawn parameters of all images.
            is_whole: Whether images are still whole 8-bit values.
        """


@dataclass(frozen=True, slots=True)
class Fused:
    """An operation that the kernels carry out: it moves pixels, changes values, or both.

    Attributes:
        operation: What it is.
        stages: How it changes values.
        first: Number of its first stage.
        exact: Whether a Warp is carried out by itself.
        moves: Whether it moves pixels.
    """

    operation: Operation
    stages: Stages
    first: int
    exact: bool
    moves: bool
    by: str = ""

    def add(self, pending: Pending, params: Params, is_whole: bool) -> None:  # noqa: ARG002
        """See Part."""
        if self.moves:
            move(self.operation, pending, params, exact=self.exact)
        rows = params["apply"]
        if not self.stages.num or not rows.any():
            return
        own = slice(self.first, self.first + self.stages.num)
        codes, values = pending.program.codes[:, own], pending.program.values[:, own]
        self.stages.write(params, Columns(codes, values, pending, self.first))
        codes *= rows[:, None]
        pending.staged |= rows
        if self.stages.fixed:
            pending.fixed |= rows


@dataclass(frozen=True, slots=True)
class Mixed:
    """An operation that mixes two images, which the kernels do while they read the first."""

    operation: MixUp | CutMix
    by: str = ""

    def add(self, pending: Pending, params: Params, is_whole: bool) -> None:
        """See Part."""
        mix(self.operation, pending, params, is_whole)


@dataclass(frozen=True, slots=True)
class OtherStep:
    """An operation that the kernels do not know, carried out by a step of another engine."""

    operation: Operation
    by: str
    apply: Apply

    def add(self, pending: Pending, params: Params, is_whole: bool) -> None:
        """See Part."""
        if isinstance(self.operation, Mixing):
            make_mosaic(self.operation, self.apply, pending, params, is_whole)
            return
        rows = params["apply"]
        if not rows.any():
            return
        dtype = torch.uint8 if is_whole else torch.float32
        pending.split(self.operation, rows, {NO_KERNEL: rows}, dtype)
        row_numbers = np.flatnonzero(rows)
        drawn = {name: values[row_numbers] for name, values in params.items()}
        pending.replace(
            row_numbers, self.apply([pending.images[row] for row in row_numbers], drawn)
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The batch stage of a recipe.

    Attributes:
        parts: Its operations in order.
        num_uint8: How many leading ones leave whole 8-bit values whole.
        num_stages: Number of stages of all parts.
        asks_others: Whether a part is a step of another engine.
    """

    parts: tuple[Part, ...]
    num_uint8: int
    num_stages: int
    asks_others: bool


def make_plan(recipe: Recipe, *, device: torch.device, exact: bool) -> Plan:
    """Decide how each operation is carried out.

    Raises:
        EngineError: One cannot be.
    """
    parts: list[Part] = []
    first = 0
    for operation in recipe.batch_leaves:
        made, moves = stages(operation), can_move(operation)
        if made is not None or moves:
            made = made or NO_STAGES
            parts.append(Fused(operation, made, first, exact, moves))
            first += made.num
        elif isinstance(operation, MixUp | CutMix):
            parts.append(Mixed(operation))
        else:
            prepare = prepare_mixing if isinstance(operation, Mixing) else prepare_step
            parts.append(OtherStep(operation, *prepare(operation, device)))
    asks_others = any(part.by for part in parts)
    return Plan(tuple(parts), num_uint8(recipe.batch_leaves), first, asks_others)


def add_parts(plan: Plan, pending: Pending, draws: Draws, *, is_uint8: bool) -> None:
    """Add all operations of a plan to the programs of some images.

    Args:
        plan: The plan.
        pending: The programs.
        draws: What was drawn for the images.
        is_uint8: Whether the images are.
    """
    for number, part in enumerate(plan.parts):
        params = draws.params[number]
        if part.operation.group > 1:
            params = params | {"partners": draws.partners}
        part.add(pending, params, is_uint8 and number < plan.num_uint8)
