"""An Albumentations pipeline from a file, made into a recipe, with an account of every step."""

import warnings
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.arguments import check_writable
from bench.errors import BenchError
from gpu_aug.convert import Line, convert
from gpu_aug.files.document import SUFFIXES

_STYLES = {
    "kept": "green",
    "changed": "yellow",
    "nothing to do": "dim",
    "foreign": "yellow",
    "refused": "red",
}


def convert_and_show(pipeline: Path, out: Path, *, keep_foreign: bool) -> None:
    """Print what became of each step, and write the recipe.

    Raises:
        BenchError: A step has no equal here, so that no recipe was written, or it cannot be written.
        gpu_aug.RecipeError: The file holds no pipeline.
    """
    check_writable(out)
    if out.suffix.lower() not in SUFFIXES:
        raise BenchError(f"a recipe's name must end in {' or '.join(SUFFIXES)}, got {out}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table says it
        recipe, lines = convert(pipeline, strict=not keep_foreign)
    console = Console()
    console.print(_table(lines, str(pipeline)))
    counts = Counter(line.outcome for line in lines)
    console.print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if recipe is None:
        raise BenchError(
            f"{counts['refused']} of {len(lines)} steps have no equal here and no recipe was written: "
            "replace them by what comes nearest, or keep them on the CPU with --keep-foreign"
        )
    recipe.save(out)
    console.print(f"written: {out}", soft_wrap=True)


def _table(lines: list[Line], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("step", "outcome", "became, or why not"):
        table.add_column(name, overflow="fold")
    for line in lines:
        table.add_row(
            line.path.removeprefix("Compose > "),
            Text(line.outcome, _STYLES[line.outcome]),
            Text(line.note),
        )
    return table
