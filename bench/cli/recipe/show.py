"""``gpu-aug recipe show``."""

from typing import Annotated

import typer


def show(
    recipe: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A preset, or a YAML or JSON file.")
    ],
) -> None:
    """Print a recipe as a table: operations, arguments, and what each costs on every engine."""
    from bench.cli.recipe.tables import print_recipe

    print_recipe(recipe)
