"""All commands put together. Heavy imports happen inside the commands, so that --help is quick."""

from collections.abc import Callable
from importlib import metadata
from typing import Annotated

import typer

from bench.cli.audit import audit
from bench.cli.bench.compare import compare
from bench.cli.bench.make_videos import make_videos
from bench.cli.bench.micro import micro
from bench.cli.bench.read import read
from bench.cli.cache import cache
from bench.cli.doctor import doctor
from bench.cli.groups import spread_groups
from bench.cli.index import index
from bench.cli.inspect import inspect
from bench.cli.pack import pack
from bench.cli.preview import preview
from bench.cli.recipe.convert import convert
from bench.cli.recipe.show import show
from bench.cli.report import report
from bench.cli.run import run
from bench.cli.tile import tile
from bench.cli.tune import tune
from bench.cli.warm import warm
from bench.output.errors import DEBUG_FLAG

app = typer.Typer(
    name="gpu-aug",
    help="Encoded images in, augmented batches out: run it, look at it, compare it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_bench = typer.Typer(help="Measure this machine.", no_args_is_help=True)
_recipe = typer.Typer(
    help="Look at a recipe, or convert another library's pipeline to one.", no_args_is_help=True
)
app.add_typer(_bench, name="bench")
app.add_typer(_recipe, name="recipe")

_COMMANDS: dict[typer.Typer, tuple[Callable[..., None], ...]] = {
    app: (run, tune, report, warm, preview, pack, audit, inspect, index, cache, doctor),
    _bench: (compare, read, micro, make_videos),
    _recipe: (show, convert),
}
for _group, _commands in _COMMANDS.items():
    for _command in _commands:
        _group.command()(spread_groups(_command))
_ANY = {"ignore_unknown_options": True, "allow_extra_args": True}
app.command(hidden=True, add_help_option=False, context_settings=_ANY)(tile)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"gpu-aug {metadata.version('gpu-aug')}")  # noqa: T201 - what was asked for
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option(DEBUG_FLAG, help="Show tracebacks; allowed anywhere.")
    ] = False,  # taken out of the arguments before they get here
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    del debug, version
