"""Print a recipe as a table: its operations, the engines that support them, and their cost."""

from collections.abc import Iterator
from dataclasses import MISSING, fields

from bench.micro.recipe_costs import USUAL_SIZE, cost, lines_of
from bench.output.arguments import recipe_from
from bench.output.text import print_line, print_table
from dali_pipes.preview.chosen_batches import ENGINES
from gpu_aug import Operation, Recipe
from gpu_aug.ops.operation import in_brief
from gpu_aug.views import CameraRecipes, Views

_CAPTION = "engines: ms per image; decoding: done while decoding"


def print_recipe(source: str) -> None:
    """Print a recipe, or each of several views, as a table."""
    parsed = recipe_from(source)
    recipes = parsed.recipes if isinstance(parsed, Views) else (parsed,)
    for recipe in dict.fromkeys(recipes):
        numbers = [number for number, other in enumerate(recipes) if other == recipe]
        title = source
        if isinstance(parsed, CameraRecipes):
            title = f"cameras {'; '.join(parsed.titles[number] for number in numbers)}"
        elif len(recipes) > 1:
            title = f"view {', '.join(str(number + 1) for number in numbers)} of {len(recipes)}"
        columns = ("operation", "arguments", *(f">{engine}" for engine in ENGINES))
        print_table(columns, _rows(recipe), title=title, caption=_CAPTION)
        print_line(_summary(recipe))
    print_line(f"fingerprint {parsed.fingerprint}")


def _rows(recipe: Recipe) -> Iterator[list[str]]:
    size = recipe.decode_size or USUAL_SIZE
    for line in lines_of(recipe):
        cells = [
            "decoding" if line.decodes else cost(engine, line.operation, size) for engine in ENGINES
        ]
        name = "  " * line.depth + type(line.operation).__name__
        yield [name, _arguments(line.operation), *cells]


def _arguments(operation: Operation) -> str:
    """Return the arguments of an operation as text, without those that have their default value."""
    words = []
    for field in fields(operation):
        value = getattr(operation, field.name)
        if field.name != "operations" and (field.default is MISSING or value != field.default):
            words.append(f"{field.name}={in_brief(str(value))}")
    return ", ".join(words)


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
