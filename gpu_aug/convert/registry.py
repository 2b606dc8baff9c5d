"""The transforms of other libraries that have an equivalent here, and why others have none."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from gpu_aug.errors import RecipeError
from gpu_aug.names import REFUSED
from gpu_aug.ops.operation import Operation


@dataclass(frozen=True)
class Changed:
    """The operation that a transform becomes, where users must know that something is not the same."""

    operation: Operation
    note: str


THREE_EQUAL = "images keep three channels, which are equal: take images[:, :1] for a model of one"
"""The note of steps that make images of one channel."""

Converter = Callable[[Any], Operation | Changed | None]
"""What describes one transform in, the operation that means the same out; None where it does nothing.

For Albumentations it gets the constructor's arguments as a dictionary, as ``to_dict`` writes them
(``p`` among them); for torchvision the transform itself.
"""

ALBUMENTATIONS: dict[str, Converter] = {}
"""By class name."""

TORCHVISION: dict[str, Converter] = {}
"""By class name."""

C = TypeVar("C", bound=Converter)


class Refused(RecipeError):  # noqa: N818 - a verdict more than an error
    """A transform has no equal here.

    Attributes:
        reason: Why, in words that finish "NAME cannot be imported: ...".
        nearest: What comes nearest, an expression or a sentence; empty where nothing does.
    """

    def __init__(self, reason: str, nearest: str = "") -> None:
        super().__init__(reason + (f"; nearest: {nearest}" if nearest else ""))
        self.reason, self.nearest = reason, nearest


def converts(table: dict[str, Converter], *names: str) -> Callable[[C], C]:
    """Register a converter for the classes of these names."""

    def register(converter: C) -> C:
        for name in names:
            table[name] = converter
        return converter

    return register


def alike(make: type[Operation], **theirs: str) -> Converter:
    """Return the converter of a class of Albumentations all of whose arguments mean what an operation's fields mean.

    Args:
        make: The operation.
        theirs: Field -> name of the argument, where it differs.
    """
    names = {field.name: theirs.get(field.name, field.name) for field in fields(make)}
    return lambda args: make(**{ours: _ascending(args[name]) for ours, name in names.items()})


def _ascending(value: Any) -> Any:
    """Return a range with the smaller end first, as Albumentations draws alike from both; other values as they are."""
    return tuple(sorted(value)) if isinstance(value, list | tuple) else value


def refuses(table: dict[str, Converter], reason: str, *names: str, nearest: str = "") -> None:
    """Register that the classes of these names have no equal."""

    def refuse(_: Any) -> Operation | Changed | None:
        raise Refused(reason, nearest)

    for name in names:
        table[name] = refuse
        REFUSED[name] = str(Refused(reason, nearest))
