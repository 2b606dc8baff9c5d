"""Error messages for constructor calls with unknown arguments."""

from abc import ABCMeta
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from numbers import Integral
from typing import TYPE_CHECKING, Any

from gpu_aug.errors import RecipeError
from gpu_aug.names import closest

_LISTS = ("operations", "recipes")


class FriendlyArgumentErrors(ABCMeta):
    """The type of classes whose users get a RecipeError where Python has a TypeError.

    It is an ABCMeta, so that such a class may have abstract classes beside it as bases.
    """

    if (
        not TYPE_CHECKING
    ):  # type checkers look at __init__, and so does ``inspect`` by this property

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Make an instance, or raise a RecipeError."""
            if beside := _sides_beside_each_other(cls, args):
                raise RecipeError(beside)
            try:
                return super().__call__(*args, **kwargs)
            except TypeError as error:
                wrong = wrong_call(cls, args, kwargs)
                if wrong is None:
                    raise
                raise RecipeError(wrong) from error

        @property
        def __signature__(cls) -> Signature:
            parameters = signature(cls.__init__).parameters.values()
            return Signature(list(parameters)[1:])


def _sides_beside_each_other(cls: Any, args: tuple[Any, ...]) -> str:
    """Return what is wrong with a call such as Resize(224, 224), whose second value would mean something else."""
    if len(args) < 2 or not all(isinstance(one, Integral) for one in args[:2]):
        return ""
    parameters = [*signature(cls).parameters.values()][:2]
    first, second = (one.name for one in parameters)
    if first != "size" or (second == "padding" and 2 * args[1] < args[0]):
        return ""
    name, (height, width) = cls.__name__, args[:2]
    by_name = parameters[1].kind is not Parameter.KEYWORD_ONLY
    return (
        f"{name} takes its size as one value, got {height} and {width} beside each other: write "
        f"{name}(size=({height}, {width}))" + (f", or give {second} by name" if by_name else "")
    )


def wrong_call(
    cls: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    """Return what is wrong with the arguments; None where they fit."""
    name, parameters = cls.__name__, signature(cls).parameters
    unknown = next((key for key in kwargs if key not in parameters), None)
    if unknown is not None:
        near = closest(unknown, parameters)
        more = f" (did you mean {near}?)" if near else ""
        return (
            f"{name} has no argument {unknown!r}; it has: {', '.join(parameters) or 'none'}{more}"
        )
    first = [key for key, one in parameters.items() if one.kind is not Parameter.KEYWORD_ONLY]
    if len(args) > len(first):
        return f"{name} {_too_many(name, first, list(parameters)[len(first) :], len(args))}"
    given = [*first[: len(args)], *kwargs]
    twice = next((key for key in first[: len(args)] if key in kwargs), None)
    if twice is not None:
        return f"{name} {twice} is given twice, by place and by name: leave one of them out"
    missing = [
        key
        for key, one in parameters.items()
        if one.default is Parameter.empty and key not in given
    ]
    if missing:
        return f"{name} must have {', '.join(missing)}: write {name}({', '.join(missing)})"
    return None


def _too_many(name: str, first: list[str], named: list[str], count: int) -> str:
    if first and first[0] in _LISTS:
        return (
            f"takes its {first[0]} as one list, got {count} values beside each other: write "
            f"{name}([first, second])"
        )
    way = f"give {' and '.join(named)} by name" if named else "leave the others out"
    listed = f" ({', '.join(first)})" if first else ""
    return f"takes {len(first)} values without a name{listed}, got {count}: {way}"
