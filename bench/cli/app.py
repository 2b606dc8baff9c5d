"""All commands put together; the module of each is imported when the command, or a list of commands, is shown or run."""

from collections.abc import Iterable
from importlib import import_module, metadata
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from bench.cli.groups import spread_groups
from bench.output.errors import DEBUG_FLAG, BenchError

_COMMANDS = {
    "gpu-aug": {
        "run": "bench.cli.run:run",
        "tune": "bench.cli.tune:tune",
        "report": "bench.cli.report:report",
        "warm": "bench.cli.warm:warm",
        "preview": "bench.cli.preview:preview",
        "pack": "bench.cli.pack:pack",
        "audit": "bench.cli.audit:audit",
        "inspect": "bench.cli.inspect:inspect",
        "index": "bench.cli.index:index",
        "cache": "bench.cli.cache:cache",
        "doctor": "bench.cli.doctor:doctor",
    },
    "bench": {
        "compare": "bench.cli.bench.compare:compare",
        "read": "bench.cli.bench.read:read",
        "micro": "bench.cli.bench.micro:micro",
        "make-videos": "bench.cli.bench.make_videos:make_videos",
    },
    "recipe": {
        "show": "bench.cli.recipe.show:show",
        "convert": "bench.cli.recipe.convert:convert",
    },
}

# Commands of earlier versions, and what to do instead.
_FINDINGS = 'DECISIONS.md, "Size of bench", says where its findings are'
_REMOVED = {
    "gpu-aug": {
        "tile": "train from the originals, after gpu-aug index DATA --checkpoints; tiled copies are still read"
    },
    "bench": {
        **{
            name: f"call gpu-aug bench micro {name}"
            for name in ("ops", "decode", "overhead", "scale")
        },
        **dict.fromkeys(("batch", "crops", "busy", "remote", "host"), _FINDINGS),
        "install-peers": "gpu-aug bench compare DATA --peers all installs and compares them",
    },
}


class _Group(typer.core.TyperGroup):
    """A group that imports a command of the table when it is asked for it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, those of the table first and the groups behind them."""
        table = _COMMANDS[self.name or ""]
        return [*table, *(name for name in super().list_commands(ctx) if name not in table)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, or None if no command has it.

        Raises:
            BenchError: It was removed.
        """
        if instead := _REMOVED.get(self.name or "", {}).get(cmd_name):
            raise BenchError(f"{cmd_name} was removed: {instead}")
        table = _COMMANDS[self.name or ""]
        # For an unknown name, all of them: typer looks for the nearest among those it has.
        self._import([cmd_name] if cmd_name in {*table, *self.commands} else table)
        return super().get_command(ctx, cmd_name)

    def _import(self, names: Iterable[str]) -> None:
        table = _COMMANDS[self.name or ""]
        for name in names:
            if name in table and name not in self.commands:
                module, _, function = table[name].partition(":")
                single = typer.Typer(add_completion=False)
                single.command(name)(spread_groups(getattr(import_module(module), function)))
                self.add_command(typer.main.get_command(single), name)


app = typer.Typer(
    name="gpu-aug",
    cls=_Group,
    help="Encoded images in, augmented batches out: run it, look at it, compare it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_bench = typer.Typer(cls=_Group, help="Measure this machine.", no_args_is_help=True)
_recipe = typer.Typer(
    cls=_Group,
    help="Look at a recipe, or convert another library's pipeline to one.",
    no_args_is_help=True,
)
app.add_typer(_bench, name="bench")
app.add_typer(_recipe, name="recipe")


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
