"""``python -m bench.gpu_report bench/results/gpu-*.json --out docs/gpu.md``."""

from pathlib import Path
from typing import Annotated

import typer

from bench import errors
from bench.gpu_report.page import write_page
from bench.gpu_report.read import Visit, devices, read_visits

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="What `make gpu` wrote: result.json.")],
    out: Annotated[Path, typer.Option(help="The document; its pictures are put beside it.")],
    rehearsal: Annotated[bool, typer.Option(help="Take results of rehearsals, too.")] = False,
) -> None:
    """Write a document and pictures about what visits to GPUs found."""
    if out.suffix != ".md":
        raise errors.BenchError(f"--out must end in .md, got {out}: name a document")
    visits = read_visits(results)
    if not rehearsal:
        _refuse_rehearsals(visits)
    for path in write_page(devices(visits), out):
        typer.echo(f"written: {path}")


def _refuse_rehearsals(visits: list[Visit]) -> None:
    """So that no CPU's number is taken for a GPU's."""
    if found := [visit.file for visit in visits if visit.is_rehearsal]:
        raise errors.BenchError(
            f"{', '.join(found)} was measured on a CPU: give results of a visit to a GPU, or --rehearsal "
            "to see what the document will look like"
        )


if __name__ == "__main__":
    errors.call(app)
