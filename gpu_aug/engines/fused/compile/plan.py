"""The plan of a recipe: how each operation becomes part of a pass. ``FusedEngine`` runs it and ``explain`` prints it."""

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
from gpu_aug.ops import Filter, Operation
from gpu_aug.ops.color.lookup_tables import HistogramTable
from gpu_aug.ops.mix import CutMix, Mixing, MixUp
from gpu_aug.recipe import Recipe


class Part(Protocol):
    """One operation of the batch stage, and how it is carried out."""

    @property
    def operation(self) -> Operation:
        """The operation."""

    @property
    def by(self) -> str:
        """Engine of the step ("albumentations", "kornia", or "you" for a user function); "" for the fused kernels."""

    def add(self, pending: Pending, params: Params, is_whole: bool) -> None:
        """Add the operation to the programs of a batch.

        Args:
            pending: The programs.
            params: Drawn parameters of all images.
            is_whole: Whether all values are still 8-bit integers.
        """


@dataclass(frozen=True, slots=True)
class Fused:
    """An operation that the fused kernels carry out: it moves pixels, changes values, or both.

    Attributes:
        operation: The operation.
        stages: Writes the stages of a program that change values as the operation does.
        first: Index of its first stage in a program.
        exact: Whether each Warp interpolates separately, instead of being merged with the next one into one interpolation.
        moves: Whether the operation moves pixels.
    """

    operation: Operation
    stages: Stages
    first: int
    exact: bool
    moves: bool
    by: str = ""

    def add(self, pending: Pending, params: Params, is_whole: bool) -> None:
        """Add the operation to the programs of a batch; see Part."""
        rows = params["apply"]
        if isinstance(self.operation, HistogramTable):
            reasons = {"{name} counts the values of all pixels": rows}
            pending.split(self.operation, rows, reasons, torch.uint8 if is_whole else None)
        if self.moves:
            move(self.operation, pending, params, exact=self.exact)
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
    """An operation that mixes two images; the fused kernels read both in one pass."""

    operation: MixUp | CutMix
    by: str = ""

    def add(self, pending: Pending, params: Params, is_whole: bool) -> None:
        """Add the operation to the programs of a batch; see Part."""
        mix(self.operation, pending, params, is_whole)


@dataclass(frozen=True, slots=True)
class OtherStep:
    """An operation that the fused kernels lack, carried out by a step of another engine."""

    operation: Operation
    by: str
    apply: Apply

    def add(self, pending: Pending, params: Params, is_whole: bool) -> None:
        """Add the operation to the programs of a batch; see Part."""
        if isinstance(self.operation, Mixing):
            make_mosaic(self.operation, self.apply, pending, params, is_whole)
            return
        rows = params["apply"]
        if not rows.any():
            return
        dtype: torch.dtype | None = torch.uint8 if is_whole else torch.float32
        if isinstance(self.operation, Filter) and self.by == "albumentations":
            dtype = None  # reads both
        pending.split(self.operation, rows, {NO_KERNEL: rows}, dtype)
        row_numbers = np.flatnonzero(rows)
        drawn = {name: values[row_numbers] for name, values in params.items()}
        pending.replace(
            row_numbers, self.apply([pending.images[row] for row in row_numbers], drawn)
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """How each operation of the batch stage is carried out.

    Attributes:
        parts: The operations in order, each with what carries it out.
        num_uint8: How many leading operations map 8-bit integers to 8-bit integers.
        num_stages: Number of stages of all parts.
        reads_images: Whether some part reads images before the last pass: a step of another engine, or a histogram.
    """

    parts: tuple[Part, ...]
    num_uint8: int
    num_stages: int
    reads_images: bool

    @property
    def is_step_by_step(self) -> bool:
        """Whether Albumentations carries out all operations, on one image after the other, so that no pass is needed."""
        return self.reads_images and all(
            part.by == "albumentations" and part.operation.group == 1 for part in self.parts
        )


def make_plan(recipe: Recipe, *, device: torch.device, exact: bool) -> Plan:
    """Return the plan of a recipe.

    Raises:
        EngineError: No engine can carry out an operation.
    """
    parts: list[Part] = []
    first = 0
    for operation in recipe.batch_leaves:
        made, moves = stages(operation), can_move(operation)
        if isinstance(operation, HistogramTable) and device.type != "cpu":
            made = None  # counting there would wait for the device
        if made is not None or moves:
            made = made or NO_STAGES
            parts.append(Fused(operation, made, first, exact, moves))
            first += made.num
        elif isinstance(operation, MixUp | CutMix):
            parts.append(Mixed(operation))
        else:
            prepare = prepare_mixing if isinstance(operation, Mixing) else prepare_step
            parts.append(OtherStep(operation, *prepare(operation, device)))
    reads_images = any(part.by or isinstance(part.operation, HistogramTable) for part in parts)
    return Plan(tuple(parts), num_uint8(recipe.batch_leaves), first, reads_images)


def add_parts(plan: Plan, pending: Pending, draws: Draws, *, is_uint8: bool) -> None:
    """Add all operations of a plan to the programs of a batch.

    Args:
        plan: The plan.
        pending: The programs.
        draws: Draws for the images of the batch.
        is_uint8: Whether the images are uint8.
    """
    for number, part in enumerate(plan.parts):
        params = draws.params[number]
        if part.operation.group > 1:
            params = params | {"partners": draws.partners}
        part.add(pending, params, is_uint8 and number < plan.num_uint8)
