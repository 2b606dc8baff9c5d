"""Steps that are not ours: a user's own transform, module or function in a recipe."""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.ops import fields
from gpu_aug.ops.foreign.albumentations_steps import (
    changes_values_only,
    is_code,
    leaves_of,
    with_code,
)
from gpu_aug.ops.foreign.batchwise import check_single
from gpu_aug.ops.foreign.code import describe_class, describe_code
from gpu_aug.ops.foreign.description import build_transform
from gpu_aug.ops.foreign.source import without_address
from gpu_aug.ops.laws.uniform import Sizes, Uniforms
from gpu_aug.ops.operation import Operation

__all__ = [
    "AlbumentationsTransform",
    "BatchFunction",
    "Foreign",
    "KorniaModule",
    "TorchvisionTransform",
]

_BY_NAME = "a {0} (a file has its name only: load it with functions={{name: {0}}})"
_SEED_PARTS = (2.0**30, 2.0**32)


class Foreign(Operation, abstract=True):
    """A step that is not ours. It must keep the images' size, and is carried out as it is.

    Its draw is ``seed``, int64 [B], from which the step's own randomness is seeded for each sample.
    """

    # Engines reach it with values that differ by their own tolerances; where they fall on two sides
    # of a rounding to 8 bits, they leave it with whole 1/255 between them.
    tolerance: ClassVar[float] = 1.0

    given_by_name: ClassVar[str | None] = None
    """The field that a file names only, and that ``Recipe.load(path, functions=...)`` fills."""

    num_uniforms: ClassVar[int] = 2
    """Two, which make a seed."""

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``seed``, from [0, 2**62)."""
        high, low = (u[:, part] * most for part, most in enumerate(_SEED_PARTS))
        seed = (high.astype(np.int64) << 32) | low.astype(np.int64)
        return {"apply": np.ones(len(u), bool), "seed": seed}

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is, for errors."""

    @property
    def spatial(self) -> bool | None:
        """Whether it moves pixels; None where that is not known."""
        return None

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return what its results depend on, ready for JSON, for the fingerprint."""

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


Takes = Literal["uint8", "float32"]


@dataclass(frozen=True, eq=False)
class AlbumentationsTransform(Foreign):
    """A transform or a Compose of Albumentations, as it is, on the CPU.

    Its randomness is seeded per sample, and where it holds code of yours torch's, Python's and NumPy's is, too; its
    own ``p`` says how often it is done. Boxes, keypoints and masks do not follow it.

    Args:
        transform: Any transform that keeps the image's size.
        takes: What it gets: "uint8", [H, W, 3] in 0..255 (values are rounded), or "float32", as
            they are.
    """

    transform: Any
    _: KW_ONLY
    takes: Takes = "uint8"

    def __post_init__(self) -> None:
        name = "AlbumentationsTransform"
        if isinstance(self.transform, dict):
            self._set(transform=build_transform(self.transform))
        if not comes_from("albumentations", self.transform):
            raise fields.fault(
                name, "transform", self.transform, "a transform of Albumentations such as A.Blur()"
            )
        _check_takes(name, self.takes, get_args(Takes))

    @property
    def needs_unit_range(self) -> bool:  # type: ignore[override]
        """Whether it gets 8 bits."""
        return self.takes != "float32"

    @property
    def title(self) -> str:
        """The class of the transform."""
        return f"Albumentations' {type(self.transform).__name__}"

    @property
    def spatial(self) -> bool:
        """Whether something in it is not an ImageOnlyTransform."""
        return not all(changes_values_only(leaf) for leaf in leaves_of(self.transform))

    @property
    def holds_code(self) -> bool:
        """Whether a function or class is in it that is not Albumentations'."""
        return any(map(is_code, leaves_of(self.transform)))

    def identity(self) -> dict[str, Any]:
        """Return its own description, and that of code in it which is not Albumentations'."""
        described = json.loads(json.dumps(self._described(), default=describe_code))
        return {"transform": with_code(self.transform, described), "takes": self.takes}

    def to_dict(self) -> dict[str, Any]:
        """Return its own description.

        Raises:
            RecipeError: It holds a function, which cannot be written to a file.
        """
        for leaf in leaves_of(self.transform):
            if is_code(leaf):
                raise RecipeError(
                    f"{self.title} cannot be written to a file: {type(leaf).__name__} holds code. Put "
                    "the function into the recipe as BatchFunction(function), which is written by name"
                )
        return {
            "name": type(self).__name__,
            "transform": json.loads(json.dumps(self._described(), default=repr)),
            "takes": self.takes,
        }

    def _described(self) -> dict[str, Any]:
        try:
            described: dict[str, Any] = self.transform.to_dict()["transform"]
        except (NotImplementedError, ValueError):  # it is no class of a module, or has no name
            return {"repr": without_address(repr(self.transform))}
        return described


@dataclass(frozen=True, eq=False)
class KorniaModule(Foreign):
    """A Kornia augmentation, or another torch module on images, as it is.

    It gets one image at a time, float32 [1, 3, H, W], after torch's generators were seeded for the
    sample, so a sample does not depend on its batch. Its own ``p`` says how often it is done.

    Args:
        module: Keeps the image's size.
        name: Name in a recipe file; without it the recipe cannot be saved.
        spatial: Whether it moves pixels, which boxes, keypoints and masks would not follow. None:
            Kornia's class says it, where there is one.
    """

    given_by_name: ClassVar[str | None] = "module"

    module: Any
    _: KW_ONLY
    name: str | None = None
    spatial: bool | None = None

    def __post_init__(self) -> None:
        import torch

        if not isinstance(self.module, torch.nn.Module):
            raise fields.fault("KorniaModule", "module", self.module, _BY_NAME.format("module"))
        check_single(self.module.modules())
        if self.spatial is None and comes_from("kornia", self.module):
            bases = {base.__name__ for base in type(self.module).__mro__}
            self._set(spatial="IntensityAugmentationBase2D" not in bases)

    @property
    def title(self) -> str:
        """The class of the module."""
        return f"the module {type(self.module).__name__}"

    def identity(self) -> dict[str, Any]:
        """Return its class, its settings as it prints them, and a hash of its tensors."""
        digest = hashlib.sha256()
        for key, tensor in sorted(self.module.state_dict().items()):
            digest.update(key.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return {
            "class": describe_class(type(self.module)),
            "settings": repr(self.module),
            "tensors": digest.hexdigest(),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return its name.

        Raises:
            RecipeError: It has none.
        """
        if self.name is None:
            raise RecipeError(
                f"{self.title} cannot be written to a file, which holds no code: give it a name, "
                'KorniaModule(module, name="mine"), and load with functions={"mine": module}'
            )
        return {"name": "KorniaModule", "module": self.name} | _spatial(self.spatial)


@dataclass(frozen=True, eq=False)
class TorchvisionTransform(Foreign):
    """A transform of torchvision, as it is, on the CPU.

    It gets one image at a time after torch's, Python's and numpy's generators were seeded for the
    sample.

    Args:
        transform: Keeps the image's size.
        takes: What it gets: a "pil" image or a tensor [3, H, W], "uint8" (both rounded to 8 bits) or
            "float32".
        name: Name in a recipe file; without it the recipe cannot be saved.
    """

    given_by_name: ClassVar[str | None] = "transform"

    transform: Callable[[Any], Any]
    _: KW_ONLY
    takes: Literal["pil", "uint8", "float32"] = "float32"
    name: str | None = None

    def __post_init__(self) -> None:
        name = "TorchvisionTransform"
        if not callable(self.transform):
            raise fields.fault(name, "transform", self.transform, _BY_NAME.format("transform"))
        check_single([self.transform])
        _check_takes(name, self.takes, ("pil", "uint8", "float32"))

    @property
    def needs_unit_range(self) -> bool:  # type: ignore[override]
        """Whether it gets 8 bits."""
        return self.takes != "float32"

    @property
    def title(self) -> str:
        """The class of the transform."""
        return f"torchvision's {type(self.transform).__name__}"

    def identity(self) -> dict[str, Any]:
        """Return its class and attributes."""
        return {"transform": describe_code(self.transform), "takes": self.takes}

    def to_dict(self) -> dict[str, Any]:
        """Return its name.

        Raises:
            RecipeError: It has none.
        """
        if self.name is None:
            raise RecipeError(
                f"{self.title} cannot be written to a file, which holds no code: give it a name, "
                'TorchvisionTransform(transform, name="mine"), and load with '
                'functions={"mine": transform}'
            )
        return {"name": "TorchvisionTransform", "transform": self.name, "takes": self.takes}


@dataclass(frozen=True, eq=False)
class BatchFunction(Foreign):
    """A function of your own on a batch of images.

    It gets float32 [b, 3, H, W], in [0, 1] before Normalize, on the engine's device, and returns the
    same shape. All images of the batch that it is applied to come in one call, on every engine: those of
    a Loader's batch that were not lost, frames of clips one after the other, or all of a call of ``apply``. They must have
    one size by then, so a crop or resize comes before. What it computes over the batch makes a sample depend on its
    batch, and with it on the batch size and the number of ranks.

    The recipe's fingerprint holds its source, and that of functions and classes of its module that it names; comments,
    docstrings, blank space and where it lies do not count, nor does the version of Python.

    A parameter called ``seeds`` gets int64 [b] on the CPU, one number per sample that is the same in every
    run; other randomness is not repeatable, and is warned about: where a generator of torch, NumPy or Python went on
    during the first call, further calls on the same images show whether results change.

    Args:
        function: As described.
        name: Name in a recipe file; None is ``module:name`` of a function that has one.
        spatial: Whether it moves pixels, which boxes, keypoints and masks would not follow. None:
            not known, so a recipe with it refuses targets.

    Example:
        >>> def darken(images):                            # float32 [B, 3, H, W]
        ...     return images * 0.5
        >>> Recipe([RandomResizedCrop(224), darken, Normalize()]).size
        (224, 224)
    """

    given_by_name: ClassVar[str | None] = "function"

    function: Callable[..., Any]
    _: KW_ONLY
    name: str | None = None
    spatial: bool | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise fields.fault(
                "BatchFunction", "function", self.function, _BY_NAME.format("function")
            )
        qualified = getattr(self.function, "__qualname__", "<>")
        if self.name is None and "<" not in qualified:
            self._set(name=f"{self.function.__module__}:{qualified}")

    @property
    def title(self) -> str:
        """The name of the function."""
        return f"the function {self.name or getattr(self.function, '__qualname__', self.function)}"

    def identity(self) -> dict[str, Any]:
        """Return a description of its code."""
        return {"function": describe_code(self.function)}

    def to_dict(self) -> dict[str, Any]:
        """Return its name.

        Raises:
            RecipeError: It has none.
        """
        if self.name is None:
            raise RecipeError(
                f"{self.title} cannot be written to a file, which holds no code: give it a name, "
                'BatchFunction(function, name="mine"), and load with functions={"mine": function}'
            )
        return {"name": "BatchFunction", "function": self.name} | _spatial(self.spatial)


def comes_from(package: str, value: object) -> bool:
    """Whether a class of this package is among those of ``value``, which need not be importable."""
    return any(base.__module__.partition(".")[0] == package for base in type(value).__mro__)


def _check_takes(name: str, takes: Any, allowed: tuple[str, ...]) -> None:
    if takes not in allowed:
        raise fields.fault(name, "takes", takes, f"one of {', '.join(allowed)}")


def _spatial(spatial: bool | None) -> dict[str, Any]:
    return {} if spatial is None else {"spatial": spatial}
