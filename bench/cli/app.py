"""Define the tree of commands. Each imports its modules when it is called, so that help does not load torch."""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from importlib import metadata
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer
import typer.core

from bench.cli import bench, machine, prepare, recipe, runs
from bench.output.errors import DEBUG_FLAG, BenchError

# Removed commands of earlier versions, and what to do instead.
_REMOVED = {
    "gpu-aug": {
        "tile": "train from the originals, after gpu-aug index DATA --seek-points; tiled copies are still read"
    },
    "bench": {
        "ops": "call gpu-aug bench published kornia-ops for batches, albumentations-images for single images",
        **{name: f"call gpu-aug bench micro {name}" for name in ("decode", "overhead", "scale")},
        **dict.fromkeys(
            ("batch", "crops", "busy", "remote", "host"),
            'DECISIONS.md, "Size of bench", says where its findings are',
        ),
        "install-peers": "gpu-aug bench compare DATA --peers all installs and compares them",
    },
}


def spread_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has each field of its dataclass arguments as a separate argument.

    Typer makes an option of each argument of a function. A dataclass whose fields are annotated like such arguments
    then stands for a group of options, which several commands can share.
    """
    parameters: list[Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in signature(command).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            own = signature(groups[parameter.name]).parameters.values()
            parameters += [field.replace(kind=parameter.kind) for field in own]
        else:
            parameters.append(parameter)

    @wraps(command)
    def spread(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(
                **{field: given.pop(field) for field in signature(group).parameters}
            )
        command(**given)

    spread.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    spread.__annotations__ = {one.name: one.annotation for one in parameters}
    return spread


class _Group(typer.core.TyperGroup):
    """A group of commands whose error for a removed command says what to do instead."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with a name; None if no command has it.

        Raises:
            BenchError: The command was removed.
        """
        if instead := _REMOVED.get(self.name or "", {}).get(cmd_name):
            raise BenchError(f"{cmd_name} was removed: {instead}")
        return super().get_command(ctx, cmd_name)


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
_COMMANDS = {
    app: (
        runs.run,
        runs.tune,
        runs.report,
        machine.warm,
        runs.preview,
        prepare.pack,
        runs.audit,
        prepare.inspect,
        prepare.index,
        machine.cache,
        machine.doctor,
    ),
    _bench: (bench.compare, bench.read, bench.micro, bench.published, bench.make_videos),
    _recipe: (recipe.show, recipe.convert),
}
for _group, _commands in _COMMANDS.items():
    for _command in _commands:
        _group.command()(spread_groups(_command))
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
    ] = False,  # removed from the arguments before they are parsed
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    del debug, version
