"""Base classes of operations that wrap user functions and transforms of other libraries."""

import json
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import fields
from inspect import signature
from typing import Any, ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.names import ALIASES
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.validation import fault

__all__ = ["Foreign"]

_SEED_PARTS = (2.0**30, 2.0**32)  # int64 holds seeds below 2**62
# Transforms that mix the images of a batch.
_MIXING = ("CutMix", "MixUp", "Mosaic")


class Foreign(Operation, abstract=True):
    """Base of operations that call a user function or a transform of another library unchanged. It must keep the size of images.

    The drawn parameter is ``seed``, int64 [B], which seeds the randomness of the wrapped code for each sample.
    """

    # The engines' inputs differ within their tolerances. If they lie on two sides of a rounding to 8 bits, the results differ
    # by 1/255.
    tolerance: ClassVar[float] = 1.0

    random: ClassVar[Random] = {"seed": Numbers(2)}

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``seed``, int64 [B] in [0, 2**62)."""
        high, low = (drawn["seed"][:, part] * most for part, most in enumerate(_SEED_PARTS))
        seed = (high.astype(np.int64) << 32) | low.astype(np.int64)
        return {"seed": seed}

    @property
    @abstractmethod
    def title(self) -> str:
        """A short description for error messages."""

    @property
    def spatial(self) -> bool | None:
        """Whether the operation moves pixels; None if this is unknown."""
        return None

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return everything that the results depend on, as JSON values, for the fingerprint of the recipe."""

    def check_targets(self) -> None:
        """Check that boxes, keypoints and masks still fit the image after the operation.

        Raises:
            TargetsError: The operation moves pixels, or may move them.
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
        """Return the class name and ``identity``, for the fingerprint of the recipe."""
        return {"name": type(self).__name__} | self.identity()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.differences() == other.differences()

    def __hash__(self) -> int:
        return hash(json.dumps(self.differences(), sort_keys=True, default=str))


class Named(Foreign, abstract=True):
    """Base of wrapped code that recipe files store by a name, without the code itself."""

    given_by_name: ClassVar[str]
    """The field that a file names only, and that ``Recipe.load(path, functions=...)`` fills."""

    name: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return a description with a name in place of the code.

        Raises:
            RecipeError: The operation has no name.
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
        """Return the error for a value of the field that should hold code."""
        field = cls.given_by_name
        allowed = f"a {field} (a file has its name only: load it with functions={{name: {field}}})"
        return fault(cls.__name__, field, given, allowed)


def comes_from(package: str, value: object) -> bool:
    """Return whether ``value`` is an instance of a class of a package, without importing the package."""
    return any(base.__module__.partition(".")[0] == package for base in type(value).__mro__)


def check_single(steps: Iterable[Any]) -> None:
    """Check that steps give each image the result that they would give it in a batch.

    Args:
        steps: Modules or transforms, including all nested modules.

    Raises:
        RecipeError: A step mixes the images of its batch, or draws once per batch.
    """
    for step in steps:
        name = type(step).__name__
        library = type(step).__module__.partition(".")[0]
        ours = ALIASES.get(name, name.removeprefix("Random"))
        if library in ("kornia", "torchvision") and ours in _MIXING:
            raise RecipeError(
                f"{name} must get a batch to mix, got one image at a time as every step that is not ours: "
                f"use gpu_aug.{ours}()"
            )
        if library == "kornia" and getattr(step, "same_on_batch", None) is True and _asks(step):
            raise RecipeError(
                f"{name} same_on_batch must be False in a recipe, which draws for each sample, got True: "
                "leave it out (the frames of a clip get one draw anyway)"
            )


def _asks(step: Any) -> bool:
    """Return whether ``same_on_batch`` is an argument of the module's class; modules without randomness set it themselves."""
    return "same_on_batch" in signature(type(step)).parameters
