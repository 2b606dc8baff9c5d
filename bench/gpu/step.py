"""One step of a visit: ``python -m bench.gpu.step NAME --data=folder --out=file [--rehearse]``."""

import importlib
from pathlib import Path
from typing import Annotated

import typer

from bench.gpu.rows import Rows
from bench.gpu.scale import scale_for
from bench.gpu.steps import STEPS

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def step(
    name: Annotated[str, typer.Argument(help="Which step.")],
    data: Annotated[Path, typer.Option(help="A folder of photographs.")],
    out: Annotated[Path, typer.Option(help="The JSON file to write.")],
    rehearse: Annotated[bool, typer.Option(help="On the CPU, with tiny inputs.")] = False,
) -> None:
    """Run one step and leave its rows; what went wrong is printed, and ends it with an error."""
    module, _, function = STEPS[name].function.partition(".")
    rows = Rows(out)
    run = getattr(importlib.import_module(f"bench.gpu.{module}"), function)
    run(scale_for(rehearse=rehearse), data, rows)
    for fault in rows.faults:
        typer.echo(fault)
    if rows.faults:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
