"""Which operations of a recipe share a pass: what ``FusedEngine`` carries out and ``explain`` prints."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gpu_aug.draws import Params
from gpu_aug.engines.engine import num_exact
from gpu_aug.engines.fused.compile.host_passes import Apply, prepare_mixing, prepare_step
from gpu_aug.engines.fused.compile.maps import can_move, move
from gpu_aug.engines.fused.compile.mixing import mix, mosaic
from gpu_aug.engines.fused.compile.pending import Pending
from gpu_aug.engines.fused.compile.stages import NO_STAGES, Columns, Stages, stages
from gpu_aug.ops import Operation
from gpu_aug.ops.mix import CutMix, Mixing, MixUp
from gpu_aug.ops.policy.space import PolicyWarp
from gpu_aug.recipe import Recipe

Add = Callable[[Pending, Params, bool], None]


@dataclass(frozen=True, slots=True)
class Part:
    """One operation of the batch stage.

    Attributes:
        operation: What it is.
        way: "map", "stages", "mix" or "own".
        by: The operation whose step it is, if ``way`` is "own".
        add: Adds it to the programs: takes them, what was drawn, and whether images are still whole 8-bit values.
    """

    operation: Operation
    way: str
    by: str
    add: Add


@dataclass(frozen=True, slots=True)
class Plan:
    """The batch stage of a recipe.

    Attributes:
        parts: Its operations in order.
        num_exact: How many leading ones leave whole 8-bit values whole.
        num_stages: Number of stages of all parts.
    """

    parts: tuple[Part, ...]
    num_exact: int
    num_stages: int


def make_plan(recipe: Recipe, *, device: torch.device, exact: bool) -> Plan:
    """Decide how each operation is carried out.

    Raises:
        EngineError: One cannot be.
    """
    parts, first = [], 0
    for operation in recipe.batch_leaves:
        made = stages(operation)
        moves = can_move(operation)
        if made is not None or moves:
            add = _adds_stages(made or NO_STAGES, first)
            if moves:
                apart = exact or isinstance(operation, PolicyWarp)
                add = _adds_move(operation, add, exact=apart)
            parts.append(Part(operation, "map" if moves else "stages", "", add))
            first += (made or NO_STAGES).num
        elif isinstance(operation, MixUp | CutMix):
            parts.append(Part(operation, "mix", "", _adds_mix(operation)))
        else:
            mixes = isinstance(operation, Mixing)
            by, apply = (prepare_mixing if mixes else prepare_step)(operation, device)
            add = mosaic(operation, apply) if isinstance(operation, Mixing) else _carries_out(apply)
            parts.append(Part(operation, "own", by, add))
    return Plan(tuple(parts), num_exact(recipe.batch_leaves), first)


def _adds_stages(made: Stages, first: int) -> Add:
    last = first + made.num

    def add(pending: Pending, params: Params, _exact: bool) -> None:
        rows = params["apply"]
        if not made.num or not rows.any():
            return
        codes = pending.codes[:, first:last]
        made.write(params, Columns(codes, pending.values[:, first:last], pending))
        codes *= rows[:, None]
        pending.staged |= rows
        if made.fixed:
            pending.fixed |= rows

    return add


def _adds_move(operation: Operation, then: Add, *, exact: bool) -> Add:
    def add(pending: Pending, params: Params, is_whole: bool) -> None:
        move(operation, pending, params, exact=exact)
        then(pending, params, is_whole)

    return add


def _adds_mix(operation: Any) -> Add:
    return lambda pending, params, exact: mix(operation, pending, params, exact)


def _carries_out(apply: Apply) -> Add:
    def add(pending: Pending, params: Params, exact: bool) -> None:
        rows = params["apply"]
        if not rows.any():
            return
        pending.write(rows, torch.uint8 if exact else torch.float32)
        places = np.flatnonzero(rows)
        drawn = {name: values[places] for name, values in params.items()}
        pending.replace(places, apply([pending.images[place] for place in places], drawn))

    return add
