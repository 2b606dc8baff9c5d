"""Define the commands ``gpu-aug recipe ...``."""

from pathlib import Path
from typing import Annotated

import typer

_STYLES = {
    "kept": "green",
    "changed": "yellow",
    "nothing to do": "dim",
    "foreign": "yellow",
    "refused": "red",
}


def show(
    recipe: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A preset, or a YAML or JSON file.")
    ],
) -> None:
    """Print a recipe as a table: operations, arguments, and the cost of each on every engine."""
    from bench.cli.recipe_tables import print_recipe

    print_recipe(recipe)


def convert(
    pipeline: Annotated[
        Path, typer.Argument(help="A YAML or JSON file that albumentations.save wrote.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The recipe to write, .yaml or .json.")],
    keep_foreign: Annotated[
        bool,
        typer.Option(help="Keep operations without an equivalent as steps that run on the CPU."),
    ] = False,
) -> None:
    """Convert an Albumentations pipeline to a recipe, and show what was kept, changed and refused."""
    import warnings
    from collections import Counter

    from rich.console import Console
    from rich.text import Text

    from bench.output.arguments import check_output
    from bench.output.errors import BenchError
    from bench.output.text import print_line, print_table, print_written
    from gpu_aug import convert as converting
    from gpu_aug.files.document import SUFFIXES

    check_output(out, SUFFIXES, "recipe")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table shows them
        recipe, lines = converting.convert(pipeline, strict=not keep_foreign)
    rows = [
        (line.path.removeprefix("Compose > "), Text(line.outcome, _STYLES[line.outcome]), line.note)
        for line in lines
    ]
    print_table(("step", "outcome", "became, or why not"), rows, title=str(pipeline))
    counts = Counter(line.outcome for line in lines)
    print_line(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if recipe is None:
        raise BenchError(
            f"{counts['refused']} of {len(lines)} steps have no equal here and no recipe was written: "
            "replace them by what comes nearest, or keep them on the CPU with --keep-foreign"
        )
    recipe.save(out)
    print_written(Console(), out)
