"""``make gpu``, or ``python -m bench.gpu --out folder``: see docs/gpu.md."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bench.compare.photographs import make_photographs
from bench.gpu.run_steps import PROBE, Outcome, read_log, visit
from bench.gpu.steps import Command, commands
from bench.output import errors
from bench.output.results import document, write_json
from bench.output.text import wide_console

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def gpu(
    out: Annotated[Path, typer.Option(help="The folder that gets everything.")],
    rehearse: Annotated[bool, typer.Option(help="On the CPU, with tiny inputs.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A step, or a call: first (the default), second, last; repeatable."),
    ] = None,
) -> None:
    """Run the steps of a visit to a GPU one by one, go on past failures, and write all of it down."""
    console = wide_console()
    out = out.absolute()
    if (out / "result.json").exists():
        raise errors.BenchError(f"{out} holds the results of another visit: give another folder")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu-aug-") as folder:
        data, parts = Path(folder) / "photographs", Path(folder) / "parts"
        data.mkdir()
        parts.mkdir()
        chosen = commands(parts, data, only or [], rehearse=rehearse)
        try:
            make_photographs(data)
        except errors.BenchError as error:  # the steps that need them will fail and say so
            console.print(str(error), style="red")

        def keep(outcomes: Sequence[Outcome]) -> None:
            _gather(parts, chosen, outcomes, out)
            steps = [outcome.to_dict() for outcome in outcomes]
            write_json(
                out / "result.json", document("gpu", {"rehearse": rehearse}, [], steps=steps)
            )

        outcomes = visit(
            chosen,
            parts,
            lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True),
            probe=None if rehearse else PROBE,
            keep=keep,
        )
    console.print(f"written: {out / 'result.json'} and {out / 'failures.log'}", soft_wrap=True)
    if not all(outcome.good for outcome in outcomes):
        raise typer.Exit(1)


def _gather(parts: Path, chosen: Sequence[Command], outcomes: Sequence[Outcome], out: Path) -> None:
    """Bring the logs home in few files, since machines that are lent may hand back only a few."""
    logs = {command.name: read_log(parts, command.name) for command in chosen}
    texts = [f"==== {name}\n{log}\n" for name, log in logs.items()]
    bad = [one for one in outcomes if not one.good]
    failures = [f"==== {one.name}: {one.end}\n{logs[one.name]}\n" for one in bad]
    (out / "logs.txt").write_text("".join(texts), encoding="utf-8")
    (out / "failures.log").write_text("".join(failures), encoding="utf-8")


if __name__ == "__main__":
    errors.call(app)
