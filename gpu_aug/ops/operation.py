"""Operation: what one step of a recipe means, and how its parameters are drawn."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpu_aug.argument_errors import FriendlyArgumentErrors
from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops.distributions.columns import Drawn, Random
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms
from gpu_aug.ops.validation import Checks, probability, take_checks

# Integers in brackets, in a repr.
_NUMBERS = re.compile(r"\((\d+(?:, \d+)+)\)")
_most_pixels: ContextVar[float] = ContextVar("most pixels", default=np.inf)
"""Set while a recipe file is read: files come from elsewhere, and one line must not allocate all memory. Code is not limited."""
_MANY = 5  # pairs of sides and triples of colours are printed in full


def describe(value: Any) -> str:
    """Return the call that would make a dataclass instance, without fields that have their default value."""
    given = [
        f"{field.name}={in_brief(repr(_rounded(getattr(value, field.name))))}"
        for field in fields(value)
        if field.default is MISSING or getattr(value, field.name) != field.default
    ]
    return f"{type(value).__name__}({', '.join(given)})"


def _rounded(value: Any) -> Any:
    """Return a value without rounding errors, for printing: 0.19999999999999996, which is 1 - 0.8, becomes 0.2."""
    if isinstance(value, float):
        short = float(f"{value:.15g}")
        return short if len(repr(short)) < len(repr(value)) - 4 else value
    if type(value) in (list, tuple):
        return type(value)(map(_rounded, value))
    return value


def in_brief(text: str) -> str:
    """Return a text in which lists of consecutive integers are shortened to the first and the last: ``256..320``."""
    return _NUMBERS.sub(_as_range, text)


def _as_range(found: re.Match[str]) -> str:
    numbers = [int(number) for number in found[1].split(", ")]
    first, last = numbers[0], numbers[-1]
    is_range = len(numbers) >= _MANY and numbers == list(range(first, last + 1))
    return f"{first}..{last}" if is_range else found[0]


@dataclass(frozen=True)
class Operation(metaclass=FriendlyArgumentErrors):
    """One step of a recipe. Subclasses are frozen dataclasses with plain values as fields.

    An operation only draws its parameters; the engines carry it out. Parameters are in pixels: sizes and corners are
    (height, width) and (top, left), and pixel centres lie at +0.5. Image values are float32 in [0, 1] until Normalize.

    The type of a field declares its allowed values, as in
    ``sigma: Annotated[Range, validation.Interval(low=0, example="(0.1, 2.0)")]``; a field of type ``Literal`` must be one of
    its choices, and one of type ``bool`` becomes True or False. ``random`` lists the drawn parameters.

    Example:
        >>> HorizontalFlip(p=0.3).to_dict()
        {'name': 'HorizontalFlip', 'p': 0.3}
    """

    tolerance: ClassVar[float] = 0.0
    """Largest difference between engines on the same draws, in units of 1/255, in float32."""

    needs_unit_range: ClassVar[bool] = False
    """Whether values must lie in [0, 1], so that it cannot follow Normalize."""

    leaves_unit_range: ClassVar[bool] = False
    """Whether values after it may lie outside [0, 1], as after Normalize."""

    any_channels: ClassVar[bool] = False
    """Whether it treats all channels alike, so that images may have any number of them; else they are RGB."""

    rounds_to_8_bits: ClassVar[bool] = False
    """Whether it rounds to multiples of 1/255, so that images of more bits would lose precision."""

    needs_boxes: ClassVar[bool] = False
    """Whether its draw depends on the boxes of the sample; see gpu_aug.ops.geometric.box_crops."""

    group: ClassVar[int] = 1
    """How many neighbouring positions of an epoch's order it mixes: 1, 2 or 4."""

    random: ClassVar[Random] = {}
    """The drawn parameters and their columns of uniform numbers. With a field ``p``, one number before them draws the gate."""

    is_gated: ClassVar[bool] = True
    """Whether ``p``, if there is such a field, is the share of the images that are changed."""

    _classes: ClassVar[dict[str, type["Operation"]]] = {}
    _own_checks: ClassVar[Checks] = {"p": probability}
    _checks: ClassVar[Checks] = {}

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        cls._own_checks = take_checks(cls)
        for base in reversed(cls.__mro__):
            cls._checks = {**cls._checks, **vars(base).get("_own_checks", {})}
        cls.__repr__ = describe  # type: ignore[method-assign] # dataclass leaves it alone
        if not abstract:
            known = Operation._classes.get(cls.__name__)
            if (
                known
                and known.__module__.startswith("gpu_aug.")
                and cls.__module__ != known.__module__
            ):
                # Recipe files and fingerprints know operations by their names.
                raise TypeError(
                    f"{cls.__name__} is an operation of gpu_aug: give yours another name"
                )
            Operation._classes[cls.__name__] = cls

    def __post_init__(self) -> None:
        name = type(self).__name__
        for field in fields(self):
            if check := self._checks.get(field.name):
                self._set(**{field.name: check(name, field.name, getattr(self, field.name))})

    @property
    def moves_pixels_only(self) -> bool:
        """Whether every output value is an input value or a multiple of 1/255, so that uint8 images stay exact."""
        return False

    @property
    def num_uniforms(self) -> int:
        """Number of uniform numbers that the draw for one sample needs: those for the gate and for ``random``."""
        return self._has_gate + sum(column.count(self) for column in self.random.values())

    @property
    def _has_gate(self) -> bool:
        return self.is_gated and hasattr(self, "p")

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Return the parameters for a batch of images, made from uniform numbers.

        Args:
            u: Uniform numbers in [0, 1), float64 [B, num_uniforms].
            sizes: Height and width of each image before this operation, int64 [B, 2].

        Returns:
            Arrays with first axis B, by name. ``apply``, bool [B], is the gate: only these images are changed.
        """
        gate, drawn = self.draw_columns(u)
        params = {"apply": gate} | self.parameters(drawn, sizes)
        params["apply"] = params["apply"] & gate
        return params

    def draw_columns(self, u: Uniforms) -> tuple[NDArray[np.bool_], Drawn]:
        """Return the gate and the values of the columns of ``random``, made from uniform numbers.

        The gate is bool [B]; without a field ``p`` it is open for all images.
        """
        gate = np.ones(len(u), bool)
        if self._has_gate:
            gate = u[:, 0] < self.p  # type: ignore[attr-defined]
        drawn: Drawn = {}
        start = int(self._has_gate)
        for name, column in self.random.items():
            stop = start + column.count(self)
            drawn[name] = column.take(self, name, u[:, start:stop])
            start = stop
        return gate, drawn

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return the parameters of a draw, by default the values of the columns of ``random``.

        An entry ``apply``, bool [B], closes the gate of further images.

        Args:
            drawn: Values of the columns of ``random``.
            sizes: Height and width of each image before this operation, int64 [B, 2].
        """
        return drawn

    def result_size(self, params: Params, sizes: Sizes) -> Sizes:
        """Return the sizes, int64 [B, 2], that images of ``sizes`` have after the operation with these parameters."""
        return sizes

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return every size, int64 [n, 2], that images of ``sizes`` can have after the operation.

        For a range of sizes it is enough to return the smallest and the largest.

        Raises:
            RecipeError: The operation cannot be carried out on an image of such a size.
        """
        return sizes

    @property
    def leaves(self) -> tuple["Operation", ...]:
        """The operations that engines carry out, in order: this one, or those that it combines."""
        return (self,)

    @property
    def slots(self) -> tuple[int, ...]:
        """Number of uniform numbers of each slot. A plain operation has one slot, a combinator several."""
        return (self.num_uniforms,)

    @property
    def slots_by_group(self) -> tuple[bool, ...]:
        """Which of ``slots`` are drawn once for all images that are mixed with each other."""
        return (False,) * len(self.slots)

    def draw_leaves(self, numbers: Iterator[Uniforms], sizes: Sizes) -> tuple[list[Params], Sizes]:
        """Return the parameters of every leaf, and the sizes of the images after the operation.

        Args:
            numbers: Iterator over uniform numbers, float64 [B, n], one array for each of ``slots``.
            sizes: Height and width of each image before this operation, int64 [B, 2].

        Returns:
            Parameters of each leaf, and the sizes after the operation, int64 [B, 2].
        """
        params = self.draw(next(numbers), sizes)
        return [params], self.result_size(params, sizes)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and, under ``"name"``, the class name, ready for JSON."""
        values = {field.name: plain(getattr(self, field.name)) for field in fields(self)}
        return {"name": type(self).__name__} | values

    @staticmethod
    def from_dict(saved: Any) -> "Operation":
        """Return the operation that a dictionary from ``to_dict`` describes.

        Raises:
            RecipeError: The name is not that of an operation, or a field is unknown or has an invalid value.
        """
        from gpu_aug.files.schema import operation_from_dict  # which knows all operations

        return operation_from_dict(saved)

    def differences(self) -> dict[str, Any]:
        """Return ``to_dict`` without the fields that have their default value, for the fingerprint of a recipe.

        So a later version may add a field, with a default that changes nothing, without changing fingerprints.
        """
        changed = {
            field.name: plain(getattr(self, field.name), lambda inner: inner.differences())
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }
        return {"name": type(self).__name__} | changed

    def _set(self, **values: Any) -> None:
        """Replace fields by their canonical form; only ``__post_init__`` may call it."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def sizes_after(operation: Operation, sizes: Sizes) -> Sizes:
    """Return every size that images of ``sizes`` can have after an operation; see `Operation.possible_sizes`.

    Raises:
        RecipeError: The operation cannot be carried out on such images, or makes larger ones than `limit_pixels` allows.
    """
    most = _most_pixels.get()
    try:
        with np.errstate(
            invalid="ignore"
        ):  # a float that int64 cannot hold becomes its smallest number
            after = operation.possible_sizes(sizes)
    except OverflowError:  # a side that int64 cannot hold
        after = np.full((1, 2), np.iinfo(np.int64).max)
    too_large = (after.prod(axis=1, dtype=np.float64) > most) | (after < 1).any(axis=1)
    if most != np.inf and too_large.any():  # below 1: the product of a side ran over
        height, width = after[too_large.argmax()].tolist()
        raise RecipeError(
            f"{type(operation).__name__} makes images of {height}x{width} pixels, more than max_pixels={most}: correct "
            "its size, or load the recipe with max_pixels=..."
        )
    return after


@contextmanager
def limit_pixels(most: float) -> Iterator[None]:
    """Refuse recipes that are made in a with block if an image, also between two operations, has more pixels than ``most``."""
    token = _most_pixels.set(most)
    try:
        yield
    finally:
        _most_pixels.reset(token)


@dataclass(frozen=True)
class WithProbability(Operation, abstract=True):
    """Base of operations whose first field is the probability ``p``."""

    p: float = 0.5


def plain(
    value: Any, describe: Callable[[Operation], dict[str, Any]] = lambda inner: inner.to_dict()
) -> Any:
    """Return the value of a field as lists, dictionaries and numbers, ready for JSON; ``describe`` converts operations."""
    if isinstance(value, Operation):
        return describe(value)
    if isinstance(value, tuple | list):
        return [plain(item, describe) for item in value]
    return value
