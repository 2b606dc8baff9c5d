"""Let a command take a group of options as a single argument."""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any


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
