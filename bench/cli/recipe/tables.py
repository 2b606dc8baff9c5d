"""A recipe as a table: its operations, which engines carry them out, and what they cost."""

from dataclasses import MISSING, fields

from rich.console import Console
from rich.table import Table

from bench.micro.recipe_costs import USUAL_SIZE, cost, lines_of
from bench.output.arguments import recipe_from
from bench.output.text import print_plain
from dali_pipes.preview.pairs import ENGINES
from gpu_aug import Operation, Recipe
from gpu_aug.ops.operation import in_brief
from gpu_aug.views import Views


def print_recipe(source: str) -> None:
    """Print a recipe, or each of several views, as a table."""
    console = Console()
    parsed = recipe_from(source)
    recipes = parsed.recipes if isinstance(parsed, Views) else (parsed,)
    for recipe in dict.fromkeys(recipes):
        numbers = [str(number + 1) for number, other in enumerate(recipes) if other == recipe]
        title = f"view {', '.join(numbers)} of {len(recipes)}" if len(recipes) > 1 else source
        console.print(_table(recipe, title))
        console.print(_summary(recipe), soft_wrap=True)
    print_plain(console, f"fingerprint {parsed.fingerprint}")


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
    size = recipe.decode_size or USUAL_SIZE
    for line in lines_of(recipe):
        name = "  " * line.depth + type(line.operation).__name__
        if line.decodes:
            cells = ["decoding"] * len(ENGINES)
        else:
            cells = [cost(engine, line.operation, size) for engine in ENGINES]
        table.add_row(name, _arguments(line.operation), *cells)
    return table


def _arguments(operation: Operation) -> str:
    """The fields that have no default, or another value than it."""
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
