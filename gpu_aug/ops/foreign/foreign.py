"""The base of foreign steps: user functions and transforms of other libraries."""

import json
from abc import abstractmethod
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.validation import fault

__all__ = ["Foreign"]

_SEED_PARTS = (2.0**30, 2.0**32)


class Foreign(Operation, abstract=True):
    """A step that is not ours. It must keep the images' size, and is carried out as it is.

    Its draw is ``seed``, int64 [B], from which the step's own randomness is seeded for each sample.
    """

    # Engines reach it with values that differ by their own tolerances; where they fall on two sides
    # of a rounding to 8 bits, they leave it with whole 1/255 between them.
    tolerance: ClassVar[float] = 1.0

    random: ClassVar[Random] = {"seed": Numbers(2)}

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``seed``, from [0, 2**62)."""
        high, low = (drawn["seed"][:, part] * most for part, most in enumerate(_SEED_PARTS))
        seed = (high.astype(np.int64) << 32) | low.astype(np.int64)
        return {"seed": seed}

    @property
    @abstractmethod
    def title(self) -> str:
        """A description for error messages."""

    @property
    def spatial(self) -> bool | None:
        """Whether it moves pixels; None where that is not known."""
        return None

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return all that its results depend on, as JSON values, for the fingerprint."""

    def check_targets(self) -> None:
        """Raise where boxes, keypoints or masks would not follow the image.

        Raises:
            TargetsError: It moves pixels, or may do so.
        """
        if self.spatial is False:
            return
        unsure = "" if self.spatial else "may "
        raise TargetsError(
            f"{self.title} {unsure or 'does '}move pixels, and boxes, keypoints and masks cannot "
            "follow a step that is not ours: "
            + (
                "use an operation of gpu_aug in its place, or leave the targets out"
                if self.spatial
                else "say spatial=False if it moves none"
            )
        )

    def differences(self) -> dict[str, Any]:
        """Return ``identity``, for the fingerprint."""
        return {"name": type(self).__name__} | self.identity()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.differences() == other.differences()

    def __hash__(self) -> int:
        return hash(json.dumps(self.differences(), sort_keys=True, default=str))


class Named(Foreign, abstract=True):
    """A step that is not ours of which a file holds a name, and no code."""

    given_by_name: ClassVar[str]
    """The field that a file names only, and that ``Recipe.load(path, functions=...)`` fills."""

    name: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return its name in place of the code.

        Raises:
            RecipeError: It has none.
        """
        kind, field = type(self).__name__, self.given_by_name
        if self.name is None:
            raise RecipeError(
                f"{self.title} cannot be written to a file, which holds no code: give it a name, "
                f'{kind}({field}, name="mine"), and load with functions={{"mine": {field}}}'
            )
        described = {"name": kind, field: self.name}
        others = {one.name: getattr(self, one.name) for one in fields(self)}
        return described | {
            name: value
            for name, value in others.items()
            if name not in described and value is not None
        }

    @classmethod
    def refusal(cls, given: object) -> RecipeError:
        """Return the error for a field that does not hold code."""
        field = cls.given_by_name
        allowed = f"a {field} (a file has its name only: load it with functions={{name: {field}}})"
        return fault(cls.__name__, field, given, allowed)


def comes_from(package: str, value: object) -> bool:
    """Whether a class of this package is among those of ``value``, which need not be importable."""
    return any(base.__module__.partition(".")[0] == package for base in type(value).__mro__)
