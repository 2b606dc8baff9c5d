"""A recipe as people read it: its operations, which engines carry them out, and what they cost."""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.arguments import recipe_from
from bench.compare.ours import ENGINES
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
from gpu_aug.compiled.clock import clock
from gpu_aug.ops.combine import Combinator
from gpu_aug.ops.operation import in_brief
from gpu_aug.ops.temporal import Temporal
from gpu_aug.views import Views

_NUM_IMAGES = 16
_ROUNDS = 5
_USUAL_SIZE = (224, 224)  # where the recipe gives the images no size before an operation


@dataclass(frozen=True)
class Line:
    """One operation: how deep it stands in others, its words, and its cost per engine."""

    depth: int
    operation: Operation
    decodes: bool


def show_recipe(source: str) -> None:
    """Print a recipe, or each of several views, as a table."""
    console = Console()
    parsed = recipe_from(source)
    recipes = parsed.recipes if isinstance(parsed, Views) else (parsed,)
    for recipe in dict.fromkeys(recipes):
        places = [str(place + 1) for place, other in enumerate(recipes) if other == recipe]
        title = f"view {', '.join(places)} of {len(recipes)}" if len(recipes) > 1 else source
        console.print(_table(recipe, title))
        console.print(_summary(recipe), soft_wrap=True)
    console.print(Text(f"fingerprint {parsed.fingerprint}"), soft_wrap=True)


def _table(recipe: Recipe, title: str) -> Table:
    table = Table(
        title=title,
        caption="engines: ms per image; decoding: done while decoding",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("operation", no_wrap=True)
    table.add_column("arguments", overflow="fold")
    for engine in ENGINES:
        table.add_column(engine, justify="right")
    size = recipe.decode_size or _USUAL_SIZE
    for line in _lines(recipe):
        name = "  " * line.depth + type(line.operation).__name__
        if line.decodes:
            cells = ["decoding"] * len(ENGINES)
        else:
            cells = [_cost(engine, line.operation, size) for engine in ENGINES]
        table.add_row(name, _arguments(line.operation), *cells)
    return table


def _lines(recipe: Recipe) -> Iterator[Line]:
    left = len(recipe.decode_operations)  # the first of those that are for images
    for operation in recipe.operations:
        decodes = left > 0 and not isinstance(operation, Temporal)
        left -= decodes
        yield from _nested(operation, 0, decodes=decodes)


def _nested(operation: Operation, depth: int, *, decodes: bool = False) -> Iterator[Line]:
    yield Line(depth, operation, decodes)
    if isinstance(operation, Combinator):
        for child in getattr(operation, "operations", ()):
            yield from _nested(child, depth + 1)


def _arguments(operation: Operation) -> str:
    """The fields that have no default, or another value than it."""
    words = []
    for field in fields(operation):
        value = getattr(operation, field.name)
        if field.name != "operations" and (field.default is MISSING or value != field.default):
            words.append(f"{field.name}={in_brief(str(value))}")
    return ", ".join(words)


def _cost(engine: str, operation: Operation, size: tuple[int, int]) -> str:
    """Milliseconds per image on one CPU core, as often as it is done; or why there are none."""
    try:
        alone = _seconds(engine, Recipe([CenterCrop(size), operation]))
    except EngineError:
        return "no"
    except RecipeError:
        return "needs others before it"
    return f"{max(alone - _seconds(engine, Recipe([CenterCrop(size)])), 0.0) * 1e3:.2f}"


def _seconds(engine: str, recipe: Recipe) -> float:
    """Time per image of the batch stage on noise, the fastest of some rounds."""
    height, width = recipe.decode_size or _USUAL_SIZE
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (_NUM_IMAGES, height, width, 3), np.uint8))
    compiled = compile_engine(engine, recipe, device=torch.device("cpu"))  # type: ignore[arg-type]
    sizes = np.full((_NUM_IMAGES, 2), (height, width))
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    times = []
    try:
        for epoch in range(_ROUNDS + 1):
            draws = recipe.draw(0, epoch, np.arange(_NUM_IMAGES), sizes)
            began = clock()
            _run(compiled, recipe, images, draws)
            times.append(clock() - began)
    finally:
        torch.set_num_threads(usual)
    return min(times[1:]) / _NUM_IMAGES  # the first call warms up


def _run(engine: Engine, recipe: Recipe, images: torch.Tensor, draws: Draws) -> None:
    if recipe.size is not None:
        engine.run(images, draws, torch.empty(len(images), 3, *recipe.size))
        return
    for row, (height, width) in enumerate(recipe.result_sizes(draws).tolist()):
        out = torch.empty(1, 3, height, width)
        engine.run(images[row : row + 1], draws.rows(row, row + 1), out)


def _summary(recipe: Recipe) -> str:
    size = (
        "of different sizes, which make no batch"
        if recipe.size is None
        else f"{recipe.size[0]} x {recipe.size[1]}"
    )
    single = recipe.num_single_leaves
    return (
        f"images: {size}\n"
        + (f"the first {single} steps after decoding take images one by one\n" if single else "")
        + (f"mixes {recipe.group} neighbours of the epoch's order\n" if recipe.group > 1 else "")
    ).rstrip()
