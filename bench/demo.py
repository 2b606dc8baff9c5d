"""``make demo``: run real photographs through every engine of this machine, and write a table and a picture."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from bench.output import errors

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_RECIPE = "imagenet_train_jitter"  # the recipe of the README's table


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for all results.")] = Path("demo"),
    data: Annotated[
        str | None, typer.Option(help="Photographs to use instead of scikit-image's.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Total measured time per pipeline.")] = 3.0,
    rounds: Annotated[
        int, typer.Option(help="Number of turns, which share the measured time.")
    ] = 3,
) -> None:
    """Make photographs, draw the preview, compare every pipeline and write everything down."""
    from bench.compare.compare import Settings
    from bench.compare.photographs import make_photographs
    from bench.compare.report import compare_and_show
    from bench.output.arguments import check_writable, schedule_from
    from bench.output.text import print_line
    from bench.preview import Shown, write_images

    check_writable(out / "preview.png")
    if data is None:
        photographs = out / "photographs"
        shutil.rmtree(photographs, ignore_errors=True)
        number = make_photographs(photographs)
        print_line(f"{number} photographs: {photographs}")
        data = str(photographs)
    write_images(data, schedule_from(_RECIPE), out / "preview.png", Shown(engines=True))
    compare_and_show(
        data,
        _RECIPE,
        Settings(seconds=seconds, rounds=rounds, batch_size=32),
        json_path=out / "comparison.json",
    )


if __name__ == "__main__":
    errors.call(app)
