"""Transforms of Albumentations and torchvision and modules of Kornia in a recipe, called unchanged."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.foreign.albumentations_steps import (
    build_transform,
    changes_values_only,
    is_code,
    leaves_of,
    with_code,
)
from gpu_aug.ops.foreign.code import describe_class, describe_code
from gpu_aug.ops.foreign.foreign import Foreign, Named, check_single, comes_from
from gpu_aug.ops.foreign.source import without_address

__all__ = ["AlbumentationsTransform", "KorniaModule", "TorchvisionTransform"]

Takes = Literal["uint8", "float32"]


class _Taking(Foreign, abstract=True):
    """A transform whose input has the type ``takes``."""

    takes: str

    @property
    def rounds_to_8_bits(self) -> bool:  # type: ignore[override]
        """Whether it gets 8 bits."""
        return self.takes != "float32"

    needs_unit_range = rounds_to_8_bits


def _albumentations(operation: str, field: str, value: Any) -> Any:
    """Return a transform of Albumentations, built if its description is given."""
    transform = build_transform(value) if isinstance(value, dict) else value
    if not comes_from("albumentations", transform):
        allowed = "a transform of Albumentations such as A.Blur()"
        raise validation.fault(operation, field, transform, allowed)
    return transform


@dataclass(frozen=True, eq=False)
class AlbumentationsTransform(_Taking):
    """A transform or a Compose of Albumentations, called unchanged on the CPU.

    Its randomness is seeded per sample; if it holds code of yours, so are the generators of torch, Python and NumPy. Its own
    ``p`` decides how often it is applied. Boxes, keypoints and masks do not follow it.

    Args:
        transform: Any transform that keeps the image's size.
        takes: Its input: "uint8", [H, W, 3] in 0..255 (values are rounded), or "float32", as
            they are.
    """

    transform: Annotated[Any, _albumentations]
    _: KW_ONLY
    takes: Takes = "uint8"

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
class KorniaModule(Named):
    """A Kornia augmentation, or another torch module on images, called unchanged.

    It gets one image at a time, float32 [1, 3, H, W], after torch's generators were seeded for the
    sample, so a sample does not depend on its batch. Its own ``p`` says how often it is done.

    Args:
        module: Keeps the image's size.
        name: Name in a recipe file; without it the recipe cannot be saved.
        spatial: Whether it moves pixels, which boxes, keypoints and masks would not follow. None:
            Known from the class for modules of Kornia.
    """

    given_by_name: ClassVar[str] = "module"

    module: Any
    _: KW_ONLY
    name: str | None = None
    spatial: bool | None = None

    def __post_init__(self) -> None:
        import torch

        if not isinstance(self.module, torch.nn.Module):
            raise self.refusal(self.module)
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


@dataclass(frozen=True, eq=False)
class TorchvisionTransform(_Taking, Named):
    """A transform of torchvision, called unchanged on the CPU.

    It gets one image at a time after torch's, Python's and numpy's generators were seeded for the
    sample.

    Args:
        transform: Keeps the image's size.
        takes: Its input: a "pil" image or a tensor [3, H, W], "uint8" (both rounded to 8 bits) or
            "float32".
        name: Name in a recipe file; without it the recipe cannot be saved.
    """

    given_by_name: ClassVar[str] = "transform"

    transform: Callable[[Any], Any]
    _: KW_ONLY
    takes: Literal["pil", "uint8", "float32"] = "float32"
    name: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.transform):
            raise self.refusal(self.transform)
        check_single([self.transform])

    @property
    def title(self) -> str:
        """The class of the transform."""
        return f"torchvision's {type(self.transform).__name__}"

    def identity(self) -> dict[str, Any]:
        """Return its class and attributes."""
        return {"transform": describe_code(self.transform), "takes": self.takes}
