"""Operations that change the range and the precision of values."""

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
        mean: Mean of each channel, for values in [0, 1], or one number for all channels, such as (0.5,). RGB images need three
            numbers or one.
        std: Standard deviation of each channel, above 0, or one number for all channels.

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
    """Return ``count`` numbers for the channels, from as many or from one for all; ``field`` is for the error."""
    values = [value] if validation.is_number(value) else value
    each = [values[0]] * count if validation.is_sequence(values, 1) else values
    return validation.numbers("Normalize", field, each, count=count, example="(0.5, 0.5, 0.5)")


@dataclass(frozen=True)
class ToDtype(Operation):
    """Round values to the precision of a dtype.

    Args:
        dtype: "uint8" rounds values to multiples of 1/255. The floating-point dtypes change nothing: values stay in [0, 1],
            and the loader decides about the dtype of a batch.
        rounding: How "uint8" rounds a value v in [0, 1]: "nearest" to rint(255 v) / 255; "scaled_floor" to floor(255.999 v) / 255,
            which gives each level an equal share of [0, 1]; "floor" to floor(255 v + 0.0005) / 255.

    Source: "nearest" is Albumentations' FromFloat; "scaled_floor" torchvision's ToDtype with scale=True and ConvertImageDtype;
    "floor" torchvision's ToPILImage, without the 0.0005, which makes up for the float32 noise of values that were levels before.
    """

    any_channels: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """8-bit values stay 8-bit values."""

    dtype: Literal["uint8", "float32", "float16", "bfloat16"] = "float32"
    rounding: Literal["nearest", "scaled_floor", "floor"] = "nearest"

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        """0.001; 1.001 for the other roundings, whose steps engines may take at neighbouring float32 values."""
        return 0.001 if self.rounding == "nearest" else 1.001  # Measured 0 for "nearest".

    @property
    def floor(self) -> tuple[float, float] | None:
        """Factor of values and summand of levels, value * 255, before they are rounded down; None for "nearest"."""
        return {"nearest": None, "scaled_floor": (255.999 / 255, 0.0), "floor": (1.0, 0.0005)}[
            self.rounding
        ]

    @property
    def rounds_to_8_bits(self) -> bool:  # type: ignore[override]
        """True for "uint8"."""
        return self.dtype == "uint8"

    @property
    def needs_unit_range(self) -> bool:  # type: ignore[override]
        """True for "uint8"."""
        return self.dtype == "uint8"
