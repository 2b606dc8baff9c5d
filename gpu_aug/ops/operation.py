"""Operation: the canonical meaning of one step of a recipe, and how its parameters are drawn."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops.fields import probability

Uniforms = NDArray[np.float64]
Sizes = NDArray[np.int64]


@dataclass(frozen=True)
class Operation:
    """One step of a recipe. Subclasses are frozen dataclasses whose fields are plain values.

    An operation only draws; the engines carry it out. Parameters are in pixel units: sizes and
    corners are (height, width) and (top, left), and pixel centres lie at +0.5.
    """

    tolerance: ClassVar[float] = 0.0
    """Largest difference between engines on the same draws, in units of 1/255, in float32."""

    moves_pixels_only: ClassVar[bool] = False
    """Whether every output value is an input value or 0, so that uint8 stays exact."""

    _classes: ClassVar[dict[str, type["Operation"]]] = {}

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        if not abstract:
            Operation._classes[cls.__name__] = cls

    @property
    def num_uniforms(self) -> int:
        """How many uniform numbers one sample's draw takes."""
        return 0

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - subclasses need it
        """Turn uniform numbers into parameters.

        Args:
            u: float64 [B, num_uniforms] in [0, 1).
            sizes: int64 [B, 2], height and width of each image as it reaches this operation.

        Returns:
            Arrays with first axis B. ``apply``, bool [B], says which images are changed at all.
        """
        return {"apply": np.ones(len(u), bool)}

    def output_size(self, sizes: Sizes) -> Sizes:
        """Return the sizes, int64 [B, 2], of images of ``sizes`` after this operation.

        Raises:
            RecipeError: The operation cannot be done on an image of such a size.
        """
        return sizes

    def to_dict(self) -> dict[str, Any]:
        """Return the class name under ``"name"`` beside the fields, ready for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"name": type(self).__name__} | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }

    @staticmethod
    def from_dict(saved: dict[str, Any]) -> "Operation":
        """Build the operation that ``to_dict`` described.

        Raises:
            RecipeError: The name is not an operation, or a field is unknown or has a bad value.
        """
        known = Operation._classes
        name = saved.get("name") if isinstance(saved, dict) else saved
        if not isinstance(name, str) or name not in known:
            raise RecipeError(
                f"operation must be one of {', '.join(sorted(known))}, got {name!r}: "
                "correct the name in the recipe"
            )
        values = {field: value for field, value in saved.items() if field != "name"}
        try:
            return known[name](**values)
        except TypeError as error:
            raise RecipeError(f"{name} in the recipe has a wrong field: {error}") from error

    def _set(self, **values: Any) -> None:
        """Replace fields by their canonical form; for ``__post_init__`` alone."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Gated(Operation, abstract=True):
    """An operation that is either done or not done, and has nothing else to draw."""

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(type(self).__name__, self.p))

    @property
    def num_uniforms(self) -> int:
        """One: the gate."""
        return 1

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw the gate alone."""
        return {"apply": u[:, 0] < self.p}
