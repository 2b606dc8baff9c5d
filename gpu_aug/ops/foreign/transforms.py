"""Operations that call transforms of Albumentations and torchvision and modules of Kornia unchanged."""

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
    """Base of wrapped transforms with a field ``takes``, the kind of image that the transform is called with."""

    takes: str

    @property
    def rounds_to_8_bits(self) -> bool:  # type: ignore[override]
        """Whether the transform gets 8-bit images."""
        return self.takes != "float32"

    needs_unit_range = rounds_to_8_bits


def _albumentations(operation: str, field: str, value: Any) -> Any:
    """Check that a value is a transform of Albumentations, or a description of one; return the transform."""
    transform = build_transform(value) if isinstance(value, dict) else value
    if not comes_from("albumentations", transform):
        allowed = "a transform of Albumentations such as A.Blur()"
        raise validation.fault(operation, field, transform, allowed)
    return transform


@dataclass(frozen=True, eq=False)
class AlbumentationsTransform(_Taking):
    """A transform or a Compose of Albumentations, called unchanged on the CPU.

    Its randomness is seeded per sample; if it holds code of yours, the global generators of torch, Python and NumPy are
    seeded too. The transform's own ``p`` decides how often it is applied. Boxes, keypoints and masks do not follow it.

    Args:
        transform: The transform, which must keep the image's size.
        takes: Image that the transform gets: "uint8", [H, W, 3] in 0 to 255 (values are rounded), or "float32", [H, W, 3]
            without rounding.
    """

    transform: Annotated[Any, _albumentations]
    _: KW_ONLY
    takes: Takes = "uint8"

    @property
    def title(self) -> str:
        """The class of the transform, for error messages."""
        return f"Albumentations' {type(self.transform).__name__}"

    @property
    def spatial(self) -> bool:
        """Whether a transform in it may move pixels."""
        return not all(changes_values_only(leaf) for leaf in leaves_of(self.transform))

    @property
    def holds_code(self) -> bool:
        """Whether it contains a function of the user or a class outside Albumentations."""
        return any(map(is_code, leaves_of(self.transform)))

    def identity(self) -> dict[str, Any]:
        """Return the description that Albumentations gives of the transform, with digests of user code in it."""
        described = json.loads(json.dumps(self._described(), default=describe_code))
        return {"transform": with_code(self.transform, described), "takes": self.takes}

    def to_dict(self) -> dict[str, Any]:
        """Return the description that Albumentations gives of the transform.

        Raises:
            RecipeError: The transform holds a function, which cannot be written to a file.
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

    It is called with one image at a time, float32 [1, 3, H, W], after torch's generators were seeded for the sample, so
    that a sample does not depend on its batch. The module's own ``p`` decides how often it is applied.

    Args:
        module: The module, which must keep the image's size.
        name: Name in a recipe file; without it the recipe cannot be saved.
        spatial: Whether the module moves pixels, which boxes, keypoints and masks would not follow. None means that the class
            tells for modules of Kornia, and that it is unknown for others.
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
        """The class of the module, for error messages."""
        return f"the module {type(self.module).__name__}"

    def identity(self) -> dict[str, Any]:
        """Return the class of the module, its settings as it prints them, and a hash of its tensors."""
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

    It is called with one image at a time, after the generators of torch, Python and NumPy were seeded for the sample.

    Args:
        transform: The transform, which must keep the image's size.
        takes: Image that the transform gets: "pil", a PIL image; "uint8" or "float32", a tensor [3, H, W]. For "pil" and
            "uint8" values are rounded to 8 bits.
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
        """The class of the transform, for error messages."""
        return f"torchvision's {type(self.transform).__name__}"

    def identity(self) -> dict[str, Any]:
        """Return a description of the transform's class and attributes."""
        return {"transform": describe_code(self.transform), "takes": self.takes}
