"""The tables of converters, and the reasons for refusing transforms without an equivalent."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

from gpu_aug.errors import RecipeError
from gpu_aug.names import REFUSED
from gpu_aug.ops.operation import Operation


@dataclass(frozen=True)
class Changed:
    """The operation that a transform is converted to, or None, with a note about the differences."""

    operation: Operation | None
    note: str
    outcome: Literal["changed", "translated"] = "changed"


THREE_EQUAL = "images keep three channels, which are equal: take images[:, :1] for a model of one"
"""The note of steps that make images of one channel."""

Converter = Callable[[Any], Operation | Changed | None]
"""Takes the description of one transform and returns the operation that means the same, or None if it does nothing.

A converter of Albumentations gets the constructor's arguments as a dictionary, as ``to_dict`` writes them (``p`` among them); one of
torchvision gets the transform itself.
"""

ALBUMENTATIONS: dict[str, Converter] = {}
"""By class name."""

TORCHVISION: dict[str, Converter] = {}
"""By class name."""

C = TypeVar("C", bound=Converter)


class Refused(RecipeError):  # noqa: N818 - a verdict more than an error
    """An error for a transform that has no equivalent operation.

    Attributes:
        reason: The end of the sentence "NAME cannot be imported: ...".
        nearest: The nearest alternative, an expression or a sentence; "" if there is none.
        runs: Whether the transform is called unchanged on the CPU, even if steps without an equivalent are refused.
    """

    def __init__(self, reason: str, nearest: str = "", *, runs: bool = False) -> None:
        super().__init__(reason + (f"; nearest: {nearest}" if nearest else ""))
        self.reason, self.nearest, self.runs = reason, nearest, runs


def converts(table: dict[str, Converter], *names: str) -> Callable[[C], C]:
    """Return a decorator that registers a converter for the classes of these names."""

    def register(converter: C) -> C:
        for name in names:
            table[name] = converter
        return converter

    return register


def alike(make: type[Operation], **theirs: str) -> Converter:
    """Return a converter for a class of Albumentations whose arguments correspond to the fields of an operation.

    Args:
        make: The operation class.
        theirs: Names of Albumentations' arguments by field, for those that differ.
    """
    names = {field.name: theirs.get(field.name, field.name) for field in fields(make)}
    return lambda args: make(**{ours: ascending(args[name]) for ours, name in names.items()})


def ascending(value: Any) -> Any:
    """Return a range with the smaller end first, because Albumentations accepts both orders; other values are unchanged."""
    return tuple(sorted(value)) if isinstance(value, list | tuple) else value


def refuses(
    table: dict[str, Converter], reason: str, *names: str, nearest: str = "", runs: bool = False
) -> None:
    """Register classes that have no equivalent operation, by name, with the reason for refusing them.

    With ``runs`` their transforms are called unchanged on the CPU instead.
    """

    def refuse(_: Any) -> Operation | Changed | None:
        raise Refused(reason, nearest, runs=runs)

    for name in names:
        table[name] = refuse
        REFUSED[name] = str(Refused(reason, nearest))
