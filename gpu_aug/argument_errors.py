"""Errors for calls with wrong arguments that name the right ones: RecipeError instead of Python's TypeError."""

from abc import ABCMeta
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from numbers import Integral
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from gpu_aug.errors import RecipeError
from gpu_aug.names import closest

P = ParamSpec("P")
R = TypeVar("R")

# Parameters that are lists: Recipe(flip, normalize) is the usual mistake.
_LISTS = {"operations", "recipes"}


class FriendlyArgumentErrors(ABCMeta):
    """Metaclass of classes whose constructors raise a RecipeError for wrong arguments.

    HorizontalFlip(prob=0.5) raises "HorizontalFlip: got an unexpected keyword argument 'prob'; it takes p: did you mean
    p instead of prob?".

    It has to be a metaclass, because operations of users are dataclasses too, and `dataclass` writes `__init__` after
    `__init_subclass__` has run; only the call of the class sees every constructor. It is an ABCMeta because operations
    have abstract methods, and users add abstract bases of their own.
    """

    if not TYPE_CHECKING:  # type checkers look at __init__

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Return an instance, or raise a RecipeError."""
            if problem := _side_given_twice(cls, args):
                raise RecipeError(problem)
            try:
                return super().__call__(*args, **kwargs)
            except TypeError as error:
                if problem := _wrong_arguments(cls, args, kwargs):
                    raise RecipeError(problem) from error
                raise  # of the constructor's body

        @property
        def __signature__(cls) -> Signature:
            """The constructor's parameters; `inspect.signature` would show those of `__call__` above."""
            parameters = signature(cls.__init__).parameters.values()
            return Signature(list(parameters)[1:])


def friendly_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function wrapped such that wrong arguments raise a RecipeError."""

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if problem := _wrong_arguments(function, args, kwargs):
            raise RecipeError(problem)
        return function(*args, **kwargs)

    return checked


def _side_given_twice(cls: Any, args: tuple[Any, ...]) -> str:
    """Return the error for a call like Resize(224, 224), whose second value is for another argument; "" for other calls."""
    if len(args) < 2 or not all(isinstance(value, Integral) for value in args[:2]):
        return ""
    parameters = [*signature(cls).parameters.values()]
    if len(parameters) < 2 or parameters[0].name != "size":
        return ""
    second = parameters[1]
    is_small_padding = second.name == "padding" and 2 * args[1] < args[0]  # RandomCrop(32, 4)
    if is_small_padding:
        return ""
    name, (height, width) = cls.__name__, args[:2]
    by_name = f", or give {second.name} by name" * (second.kind is not Parameter.KEYWORD_ONLY)
    return (
        f"{name} takes its size as one value, got {height} and {width}: write "
        f"{name}(size=({height}, {width})){by_name}"
    )


def _wrong_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str:
    """Return the error for the arguments of a call, with what it takes; "" if they fit."""
    name, call = function.__name__, signature(function)
    try:
        call.bind(*args, **kwargs)
    except TypeError as error:
        reason = error
    else:
        return ""
    by_name = [key for key, one in call.parameters.items() if one.kind is Parameter.KEYWORD_ONLY]
    by_place = [key for key in call.parameters if key not in by_name]
    takes = [*by_place, f"and by name {', '.join(by_name)}"] if by_name else by_place
    unknown = next((key for key in kwargs if key not in call.parameters), "")
    way = ""
    if near := closest(unknown, call.parameters):
        way = f": did you mean {near} instead of {unknown}?"
    elif len(args) > len(by_place) and _LISTS.intersection(by_place):
        way = f": write {name}([first, second])"
    return f"{name}: {reason}; it takes {', '.join(takes) or 'none'}{way}"
