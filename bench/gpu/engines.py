"""Step: does the fused engine on the device give the pixels of the CPU and of Kornia?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu.rows import Rows
from bench.gpu.scale import Scale
from bench.micro.batch import RECIPE
from bench.micro.pictures import load_pictures
from gpu_aug import (
    ColorJitter,
    Draws,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Normalize,
    RandomAffine,
    RandomErasing,
    RandomPerspective,
    RandomResizedCrop,
    Recipe,
    Resize,
    compile_engine,
)

_BFLOAT16_STEP = 2.0**-7
"""Between neighbouring numbers of bfloat16, as a share of them: at most so much."""

# By how much one parameter is changed for the negative control: as little as the tests of the engines change.
_NUDGES = {"matrix": 0.02, "brightness": 0.0005, "sigma": 0.0005, "holes": 1}


@dataclass(frozen=True)
class Case:
    """A recipe, and what it is written as.

    Attributes:
        recipe: Its batch stage is carried out.
        nudge: The parameter that the negative control changes.
        dtype: The type of the results.
    """

    recipe: Recipe
    nudge: str
    dtype: torch.dtype = torch.float32


def cases(side: int) -> Mapping[str, Case]:
    """The cases to compare, on square images of a side in pixels."""
    resize = Resize((side, side))
    jitter = ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8)
    moves = (RandomResizedCrop(side), HorizontalFlip(), RandomAffine(10, (0.1, 0.1), p=0.5))
    others = (jitter, Grayscale(), GaussianBlur(5, p=0.5), Normalize(), RandomErasing(0.5))
    plain = Recipe([resize, HorizontalFlip(), RandomPerspective(p=1.0), jitter])
    return {
        "batch stage": Case(RECIPE, "matrix"),
        "imagenet_train_jitter": Case(Recipe.imagenet_train_jitter(size=side), "brightness"),
        "perspective": Case(Recipe([resize, RandomPerspective(p=1.0), Normalize()]), "matrix"),
        "blur": Case(Recipe([resize, HorizontalFlip(0.0), GaussianBlur(9, p=1.0)]), "sigma"),
        "erasing": Case(Recipe([resize, RandomErasing(1.0), Normalize()]), "holes"),
        "all kinds of operations": Case(Recipe([*moves, *others]), "matrix"),
        "uint8": Case(plain, "matrix", torch.uint8),
        "bfloat16": Case(plain, "matrix", torch.bfloat16),
        "bfloat16, normalised": Case(Recipe([*plain.operations, Normalize()]), "matrix", torch.bfloat16),
    }  # fmt: skip


def engines(scale: Scale, data: Path, rows: Rows) -> None:
    """The fused engine on the device against itself on the CPU and against Kornia, in units of 1/255."""
    compare(scale, data, rows, tuple(cases(scale.side)), ("fused", "kornia"))


def compare(
    scale: Scale, data: Path, rows: Rows, names: Sequence[str], others: Sequence[str]
) -> None:
    """The fused engine on the device in some of the cases, beside "fused" on the CPU or "kornia" on the device."""
    pictures = torch.from_numpy(load_pictures(str(data), min(scale.batch_size, 32), scale.side))
    for name, engine in product(names, others):
        case, device = cases(scale.side)[name], scale.device
        there = torch.device("cpu") if engine == "fused" else device
        with rows.check(f"{name}, beside {engine} on {there.type}") as row:
            draws = drawn(case.recipe, pictures)
            ours = carried_out("fused", case, pictures, draws, device)
            nudged = carried_out("fused", case, pictures, nudge(draws, case), device)
            other = carried_out(engine, case, pictures, draws, there)
            found, control = (difference(one, other, case) for one in (ours, nudged))
            row.judge(found, tolerance(case), control)


def drawn(recipe: Recipe, pictures: torch.Tensor) -> Draws:
    """The draws of a recipe for pictures, uint8 [B, H, W, 3]."""
    num, height, width = pictures.shape[:3]
    return recipe.draw(0, 0, np.arange(num), np.tile(np.array([height, width], np.int64), (num, 1)))


def carried_out(
    engine: Any, case: Case, pictures: torch.Tensor, draws: Draws, device: torch.device
) -> torch.Tensor:
    """Run an engine on uint8 [B, H, W, 3]: [B, 3, H, W] on the CPU; values that it does not write are NaN."""
    num, height, width = pictures.shape[:3]
    unwritten = math.nan if case.dtype.is_floating_point else 7
    out = torch.full((num, 3, height, width), unwritten, dtype=case.dtype, device=device)
    compile_engine(engine, case.recipe, device=device).run(pictures.to(device), draws, out)
    return out.cpu()


def difference(ours: torch.Tensor, other: torch.Tensor, case: Case) -> float:
    """The largest difference of [B, 3, H, W] in units of 1/255 of values in [0, 1]; infinite where one is no number.

    A step between neighbouring numbers of bfloat16 is rounding and does not count.
    """
    unit = torch.full((1, 3, 1, 1), 1.0 if case.dtype == torch.uint8 else 255.0).double()
    for operation in case.recipe.batch_leaves:
        if isinstance(operation, Normalize) and case.dtype != torch.uint8:
            unit *= torch.tensor(operation.std, dtype=torch.float64).view(1, 3, 1, 1)
    one, two = ours.double(), other.double()
    gap = (one - two).abs()
    if case.dtype == torch.bfloat16:
        gap = (gap - _BFLOAT16_STEP * torch.maximum(one.abs(), two.abs())).clamp(min=0)
    return float((gap * unit).nan_to_num(math.inf).max())


def tolerance(case: Case) -> float:
    """The allowed difference in units of 1/255, for values in [0, 1]: the sum over the operations; of uint8 whole steps."""
    found = round(sum(leaf.tolerance for leaf in case.recipe.batch_leaves), 6)
    return math.ceil(found) if case.dtype == torch.uint8 else found


def nudge(draws: Draws, case: Case) -> Draws:
    """The draws with the case's parameter changed a little."""
    changed = []
    for drawn in draws.params:
        params = dict(drawn)
        if case.nudge in params:
            moved = params[case.nudge].copy()
            columns = (slice(None), slice(2), 2) if case.nudge == "matrix" else ...
            moved[columns] += moved.dtype.type(_NUDGES[case.nudge])
            params[case.nudge] = moved
        changed.append(params)
    return replace(draws, params=tuple(changed))
