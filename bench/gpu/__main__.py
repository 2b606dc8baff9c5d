"""``make gpu``, or ``python -m bench.gpu --out folder --part a``: see docs/gpu.md."""

import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bench.compare.photographs import make_photographs
from bench.gpu.steps import PARTS, PROBE, RUNNING, SECONDS, commands, visit
from bench.output import errors
from bench.output.results import document, write_json

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def gpu(
    out: Annotated[Path, typer.Option(help="The folder for the results.")],
    part: Annotated[
        list[str] | None, typer.Option(help="a, b or c; repeatable; default all.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Run only this step; repeatable.")] = None,
    photos: Annotated[
        Path | None, typer.Option(help="A folder of JPEGs; default: those of scikit-image.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time limit of each part.")] = SECONDS,
    rehearse: Annotated[bool, typer.Option(help="On the CPU, with small inputs.")] = False,
) -> None:
    """Run the steps of a GPU visit one by one, continue after failures, and write the results after each step."""
    # A signal that ends the visit must end its step, too: the step runs in its own process group.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    parts = part or ([] if only else list(PARTS))
    with tempfile.TemporaryDirectory(prefix="gpu-aug-") as folder:
        data = photos.absolute() if photos else Path(folder)
        if not photos:
            make_photographs(data)
        runs = [_run(out, data, one, [], seconds, rehearse=rehearse) for one in parts]
        if only:
            runs.append(_run(out, data, "", only, seconds, rehearse=rehearse))
    if not all(runs):
        raise typer.Exit(1)


def _run(
    out: Path, data: Path, part: str, names: Sequence[str], seconds: float, *, rehearse: bool
) -> bool:
    """Run one part, or single steps; return whether all of them succeeded.

    Few files are written, because borrowed machines return only a few (the smallest limit so far was 8).
    """
    result = out / f"result-{part or 'steps'}.json"
    log = result.with_suffix(".log")
    if result.exists():
        raise errors.BenchError(f"{result} holds the results of another visit: give another folder")
    chosen = commands(out / RUNNING, data, part=part, names=names, rehearse=rehearse)
    settings = {"rehearse": rehearse, "part": part, "seconds": seconds}
    outcomes = []
    for outcome in visit(chosen, out, probe=None if rehearse else PROBE, seconds_max=seconds):
        outcomes.append(outcome)
        steps = [one.to_dict() for one in outcomes]
        write_json(result, document("gpu", settings, [], steps=steps))
        with log.open("a", encoding="utf-8") as file:
            file.write(f"==== {outcome.name}: {outcome.end}\n{outcome.log}\n")
    typer.echo(f"written: {result} and {log}")
    return all(outcome.good for outcome in outcomes)


if __name__ == "__main__":
    errors.call(app)
