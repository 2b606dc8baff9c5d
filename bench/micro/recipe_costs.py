"""List the operations of a recipe, and measure the cost of each on an engine."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from bench.timing import one_thread, take_turn
from gpu_aug import (
    CenterCrop,
    Draws,
    Engine,
    EngineError,
    Operation,
    Recipe,
    RecipeError,
    compile_engine,
)
from gpu_aug.ops.combine import Combinator
from gpu_aug.ops.temporal import Temporal

_NUM_IMAGES = 16
_ROUNDS = 5
USUAL_SIZE = (224, 224)  # used if the recipe does not determine the image size before an operation


@dataclass(frozen=True)
class Line:
    """One operation: its nesting depth, its text, and its cost per engine."""

    depth: int
    operation: Operation
    decodes: bool


def lines_of(recipe: Recipe) -> Iterator[Line]:
    """Yield every operation of a recipe, nested ones below their parents."""
    # Decode operations still to come; a Temporal is never one.
    left = len(recipe.decode_operations)
    for operation in recipe.operations:
        decodes = left > 0 and not isinstance(operation, Temporal)
        left -= decodes
        yield from _nested(operation, 0, decodes=decodes)


def _nested(operation: Operation, depth: int, *, decodes: bool = False) -> Iterator[Line]:
    yield Line(depth, operation, decodes)
    if isinstance(operation, Combinator):
        for child in getattr(operation, "operations", ()):
            yield from _nested(child, depth + 1)


def cost(engine: str, operation: Operation, size: tuple[int, int]) -> str:
    """Return the cost of an operation as text: milliseconds per image on one CPU core, or why it is unknown.

    The time is multiplied by the operation's probability.
    """
    try:
        alone = seconds_of(engine, Recipe([CenterCrop(size), operation]))
    except EngineError:
        return "no"
    except RecipeError:
        return "needs others before it"
    return f"{max(alone - seconds_of(engine, Recipe([CenterCrop(size)])), 0.0) * 1e3:.2f}"


def seconds_of(engine: str, recipe: Recipe) -> float:
    """Return the seconds per image that a recipe's batch stage takes on noise, the minimum of a few runs on one thread.

    Args:
        engine: Name of the engine.
        recipe: The recipe.
    """
    height, width = recipe.decode_size or USUAL_SIZE
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (_NUM_IMAGES, height, width, 3), np.uint8))
    compiled = compile_engine(engine, recipe, device=torch.device("cpu"))  # type: ignore[arg-type]
    sizes = np.full((_NUM_IMAGES, 2), (height, width))
    # The first call compiles and is not counted.
    draws = [recipe.draw(0, epoch, np.arange(_NUM_IMAGES), sizes) for epoch in range(1 + _ROUNDS)]
    calls = [partial(_run, compiled, recipe, images, drawn) for drawn in draws]
    with one_thread():
        calls[0]()
        turns = [take_turn(call, seconds=0, count=lambda _: _NUM_IMAGES) for call in calls[1:]]
    return 1 / max(turn.rate for turn in turns)


def _run(engine: Engine, recipe: Recipe, images: torch.Tensor, draws: Draws) -> None:
    if recipe.size is not None:
        engine.run(images, draws, torch.empty(len(images), 3, *recipe.size))
        return
    for row, (height, width) in enumerate(recipe.result_sizes(draws).tolist()):
        out = torch.empty(1, 3, height, width)
        engine.run(images[row : row + 1], draws.rows(row, row + 1), out)
