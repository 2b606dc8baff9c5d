"""Options that belong together, as one argument of a command."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def spread_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes each field of its dataclass arguments as an argument of its own.

    Typer makes an option of each argument of a function; a dataclass whose fields are annotated as such arguments
    then stands for a group of options, which several commands can share.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if not is_dataclass(kind):
            parameters.append(parameter.replace(annotation=kind))
            continue
        assert isinstance(kind, type)
        groups[parameter.name] = kind
        own = get_type_hints(kind, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, parameter.kind, default=field.default, annotation=own[field.name]
            )
            for field in fields(kind)
        ]

    @wraps(command)
    def spread(**given: Any) -> None:
        for name, kind in groups.items():
            own = {field.name: given.pop(field.name) for field in fields(kind)}
            given[name] = kind(**own)
        command(**given)

    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread.__annotations__ = {one.name: one.annotation for one in parameters}
    return spread
