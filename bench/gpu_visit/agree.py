"""Step: do engines and devices give the same pixels, and those of float64?"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from bench.gpu_visit.scale import Notes, Scale
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

_CPU = torch.device("cpu")
_BFLOAT16_STEP = 2.0**-7
"""Between neighbouring numbers of bfloat16, as a share of them: at most so much."""

# By how much one parameter is changed for the negative control: as little as the tests of the engines change.
_NUDGES = {"matrix": 0.02, "brightness": 0.0005, "sigma": 0.0005, "holes": 1}


OTHERS = ("fused on the CPU", "kornia", "float64")
"""What the fused engine on the device is compared with."""


@dataclass(frozen=True)
class Case:
    """A recipe, and what it is written as.

    Attributes:
        recipe: Its batch stage is carried out.
        dtype: Of the results.
        nudge: The parameter that the negative control changes.
    """

    recipe: Recipe
    nudge: str
    dtype: torch.dtype = torch.float32


def cases(side: int) -> dict[str, Case]:
    """What is compared, on images of a side in pixels."""
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


def agreement(scale: Scale, data: Path, notes: Notes) -> None:
    """The fused engine on the device against the CPU, Kornia and float64, in units of 1/255."""
    num = min(scale.batch_size, 32)
    pictures = torch.from_numpy(load_pictures(str(data), num, scale.side))
    for name, case in cases(scale.side).items():
        with notes.attempt(name) as row:
            _compare(case, pictures, scale.device, row)
    exact = [name for name, case in cases(scale.side).items() if case.dtype == torch.float32]
    worst = {
        other: max(notes.found[name].get(other, {}).get("max", math.nan) for name in exact)
        for other in OTHERS
    }
    said = ", ".join(f"{other} {gap:.2g}" for other, gap in worst.items())
    bad = [name for name in cases(scale.side) if "error" in notes.found[name]]
    notes.put(
        headline=f"fused in float32 differs by at most (of 255): {said}; "
        f"beyond the tolerance: {', '.join(bad) or 'none'}"
    )


def _compare(case: Case, pictures: torch.Tensor, device: torch.device, row: dict[str, Any]) -> None:
    """Fill in a row.

    Raises:
        AssertionError: Results are further apart than the tolerances, or the control is not noticed.
    """
    num, height, width = pictures.shape[:3]
    sizes = np.tile(np.array([height, width], np.int64), (num, 1))
    draws = case.recipe.draw(0, 0, np.arange(num), sizes)
    ours = carried_out("fused", case, pictures, draws, device)
    row["tolerance"] = allowed = tolerance_of(case.recipe)
    others: dict[str, Callable[[], torch.Tensor]] = {
        "fused on the CPU": lambda: carried_out("fused", case, pictures, draws, _CPU),
        "kornia": lambda: carried_out("kornia", case, pictures, draws, device),
        "float64": lambda: in_float64(case.recipe, pictures, draws),
    }
    faults = []
    for name, other in others.items():
        try:
            gap, excess = gaps(ours, other(), case, allowed)
        except Exception as error:  # noqa: BLE001 - one engine that is missing does not hide the others
            faults.append(f"{name}: {type(error).__name__}: {error}")
            continue
        row[name] = {"max": float(gap.max()), "mean": float(gap.mean())}
        if not bool((excess <= 0).all()):  # NaN is no agreement
            places = f"{int((excess > 0).sum())} of {excess.numel()} values"
            faults.append(f"{name}: {float(gap.max()):.4g}/255 apart, {places} beyond {allowed}")
    nudged = carried_out("fused", case, pictures, nudge(draws, case.nudge), device)
    control, excess = gaps(nudged, in_float64(case.recipe, pictures, draws), case, allowed)
    row["control"] = float(control.max())
    if not bool((excess > 0).any()):
        faults.append(f"control: {case.nudge} changed by {_NUDGES[case.nudge]} is not noticed")
    assert not faults, "; ".join(faults)


def carried_out(
    engine: Any, case: Case, pictures: torch.Tensor, draws: Draws, device: torch.device
) -> torch.Tensor:
    """What an engine makes of uint8 [B, H, W, 3], on the CPU; memory that is not written stays 7."""
    num, height, width = pictures.shape[:3]
    out = torch.full((num, 3, height, width), 7.0, device=device).to(case.dtype)
    compile_engine(engine, case.recipe, device=device).run(pictures.to(device), draws, out)
    return out.cpu()


def in_float64(recipe: Recipe, pictures: torch.Tensor, draws: Draws) -> torch.Tensor:
    """What the Kornia engine makes of uint8 [B, H, W, 3] on the CPU when all that it calculates is float64."""
    num, height, width = pictures.shape[:3]
    out = torch.full((num, 3, height, width), 7.0, dtype=torch.float64)
    engine = compile_engine("kornia", recipe, device=_CPU)
    with InFloat64():
        engine.run(pictures, draws, out)
    return out


class InFloat64(TorchFunctionMode):
    """Within it torch calculates in float64 where it was asked for float32."""

    def __torch_function__(
        self,
        function: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        widened = {name: _wide(value) for name, value in (kwargs or {}).items()}
        return _wide(function(*_wide(tuple(args)), **widened))


def _wide(value: Any) -> Any:
    """The same with float64 in place of float32, in tuples and lists, too."""
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype == torch.float32 else value
    if value is torch.float32:
        return torch.float64
    if type(value) in (tuple, list):
        return type(value)(_wide(one) for one in value)
    return value


def gaps(
    ours: torch.Tensor, other: torch.Tensor, case: Case, allowed: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Differences in units of 1/255 of values in [0, 1], and by how much each exceeds what is allowed.

    Args:
        ours: [B, 3, H, W] of the case's dtype.
        other: The same, or exact results in float64.
        case: Says what was written.
        allowed: The tolerance of the recipe in units of 1/255.
    """
    unit = torch.full((1, 3, 1, 1), 255.0, dtype=torch.float64)
    for operation in case.recipe.batch_leaves:
        if isinstance(operation, Normalize):
            unit *= torch.tensor(operation.std, dtype=torch.float64).view(1, 3, 1, 1)
    if case.dtype == torch.uint8:
        unit = torch.ones(1, 1, 1, 1, dtype=torch.float64)
        other = other if other.dtype == torch.uint8 else other.mul(255).round().clamp(0, 255)
        allowed = math.ceil(allowed)
    elif case.dtype == torch.bfloat16:
        other = other.to(torch.bfloat16)
    gap = (ours.double() - other.double()).abs() * unit
    limit = torch.full_like(gap, allowed)
    if case.dtype == torch.bfloat16:
        limit += _BFLOAT16_STEP * torch.maximum(ours.double().abs(), other.double().abs()) * unit
    return gap, (gap - limit).nan_to_num(math.inf)


def tolerance_of(recipe: Recipe) -> float:
    """What is allowed in units of 1/255 of values in [0, 1]: the operations' tolerances, as they follow each other."""
    return round(sum(leaf.tolerance for leaf in recipe.batch_leaves), 6)


def nudge(draws: Draws, name: str) -> Draws:
    """The draws with a parameter of that name changed a little."""
    changed = []
    for drawn in draws.params:
        params = dict(drawn)
        if name in params:
            params[name] = params[name].copy()
            if name == "matrix":
                params[name][:, :2, 2] += _NUDGES[name]
            else:
                params[name] += params[name].dtype.type(_NUDGES[name])
        changed.append(params)
    return replace(draws, params=tuple(changed))
