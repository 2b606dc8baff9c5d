"""The range and the precision of values."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from gpu_aug.ops import validation
from gpu_aug.ops.operation import Operation

__all__ = ["Normalize", "ToDtype"]

# Of ImageNet's training images, as torchvision's weights use them.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Normalize(Operation):
    """Subtract a mean and divide by a standard deviation, per channel.

    Args:
        mean: A number for each channel, of which RGB images have three, for values in [0, 1]; one, such as (0.5,),
            is that of all channels.
        std: As many numbers above 0, or one.

    Source: torchvision v2 Normalize.
    """

    # Measured 0.00006 on noise and photographs, in units of 1/255 of the normalised value.
    tolerance: ClassVar[float] = 0.001
    leaves_unit_range: ClassVar[bool] = True
    any_channels: ClassVar[bool] = True

    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def __post_init__(self) -> None:
        given = max(_length(self.mean), _length(self.std))
        count = 3 if given == 1 else given
        mean = _for_channels("mean", self.mean, count)
        std = _for_channels("std", self.std, count)
        if min(std) <= 0:
            raise validation.fault(
                "Normalize",
                "std",
                self.std,
                f"{count} numbers above 0, for example (0.5, 0.5, 0.5)",
            )
        self._set(mean=mean, std=std)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | tuple) else 1


def _for_channels(field: str, value: Any, count: int) -> tuple[float, ...]:
    """Return ``count`` numbers, given as many or one for all."""
    values = [value] if validation.is_number(value) else value
    each = [values[0]] * count if validation.is_sequence(values, 1) else values
    return validation.numbers("Normalize", field, each, count=count, example="(0.5, 0.5, 0.5)")


@dataclass(frozen=True)
class ToDtype(Operation):
    """Give values the precision of a type.

    Args:
        dtype: "uint8" rounds values to whole 1/255. The floating types change nothing: values stay
            in [0, 1], and the type of a batch is the loader's.

    Source: torchvision v2 ToDtype with scale=True, which cuts fractions off where this rounds.
    """

    tolerance: ClassVar[float] = 0.001  # Measured 0.
    any_channels: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """8-bit values stay 8-bit values."""

    dtype: Literal["uint8", "float32", "float16", "bfloat16"] = "float32"

    @property
    def rounds_to_8_bits(self) -> bool:  # type: ignore[override]
        """Only to "uint8"."""
        return self.dtype == "uint8"

    @property
    def needs_unit_range(self) -> bool:  # type: ignore[override]
        """Only where it rounds."""
        return self.dtype == "uint8"
