"""Operations that are one table of 256 values per image and channel.

Values are rounded to 8 bits, looked up, and divided by 255: 8-bit values stay 8-bit values.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes, whole_between
from gpu_aug.ops.operation import Operation, WithProbability

__all__ = ["AutoContrast", "Equalize", "Posterize"]

# Values of 8 bits.
_LEVELS = np.arange(256)


class LookUp(Operation, abstract=True):
    """A look-up of 8-bit values."""

    # Measured 0 on noise and photographs.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """8-bit values stay 8-bit values."""


class Table(LookUp, abstract=True):
    """A table that follows from the drawn parameters."""

    @abstractmethod
    def tables(self, params: Params) -> NDArray[np.uint8]:
        """Return uint8 [n, 3, 256] for n images, on the host."""


class HistogramTable(LookUp, abstract=True):
    """A table that follows from each channel's histogram; nothing but the gate is drawn."""

    @abstractmethod
    def tables(self, histograms: Tensor) -> Tensor:
        """Return uint8 [n, 3, 256] for int64 [n, 3, 256], on one device and without waiting for it."""


def _bits(operation: str, field: str, value: Any) -> Any:
    """Return (smallest, largest) of bits, or three such pairs for the channels."""
    if validation.is_sequence(value, 3):
        return tuple(_bits(operation, field, channel) for channel in value)
    return validation.whole_interval(operation, field, value, low=0, high=8, example="4")


@dataclass(frozen=True)
class Posterize(Table):
    """Keep the leading bits of each 8-bit value.

    Args:
        bits: Number of bits to keep: one number from 0 to 8, or (smallest, largest), both included;
            or three such pairs, one per channel.
        p: Share of the images that are changed.

    Source: torchvision v2 RandomPosterize on uint8; Pillow ImageOps.posterize. Ranges are those of
    Albumentations Posterize.
    """

    random: ClassVar[Random] = {
        "bits": Numbers(lambda self: len(self.bits) if len(self.bits) == 3 else 1)
    }

    bits: Annotated[int | tuple[int, int] | tuple[tuple[int, int], ...], _bits] = 4
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``bits``, int64 [B], or [B, 3] where channels have their own."""
        ends: Any = self.bits
        if len(ends) == 3:
            columns = [whole_between(drawn["bits"][:, c], pair) for c, pair in enumerate(ends)]
            bits = np.stack(columns, axis=1)
        else:
            bits = whole_between(drawn["bits"][:, 0], ends)
        return {"bits": bits}

    def tables(self, params: Params) -> NDArray[np.uint8]:
        """Clear the trailing bits."""
        bits = params["bits"].reshape(len(params["bits"]), -1, 1)
        table = (_LEVELS >> (8 - bits)) << (8 - bits)
        return np.repeat(table.astype(np.uint8), 3 // table.shape[1], axis=1)


@dataclass(frozen=True)
class Equalize(HistogramTable, WithProbability):
    """Make the tones of each channel equally frequent, with probability ``p``.

    Args:
        p: Share of the images that are changed.
        method: "pil" is Pillow's table; "opencv" is that of cv2.equalizeHist; "inclusive" is
            Pillow's, but counts the pixels of a tone itself as well.

    Source: torchvision v2 RandomEqualize and Pillow ImageOps.equalize; the methods "opencv" and
    "inclusive" are Albumentations Equalize with mode "cv" and "pil".
    """

    method: Literal["pil", "opencv", "inclusive"] = "pil"

    def tables(self, histograms: Tensor) -> Tensor:
        """Spread the cumulated histogram; a channel of one tone is unchanged."""
        total = histograms.sum(dim=2, keepdim=True)
        below = histograms.cumsum(dim=2)
        used = histograms > 0
        if self.method == "opencv":
            first = histograms.gather(2, used.byte().argmax(dim=2, keepdim=True))
            same = first == total
            scale = per_level((total - first).clamp(min=1).float())
            table = ((below - first).clamp(min=0).float() * scale).round()
        else:
            last = histograms.gather(2, last_used(used))
            step = (total - last) // 255
            same = (step == 0) | (used.sum(dim=2, keepdim=True) <= 1)
            counted = below if self.method == "inclusive" else below - histograms
            table = (counted + step // 2) // step.clamp(min=1)
        return torch.where(same, levels_of(histograms), table.clamp(0, 255)).to(torch.uint8)


@dataclass(frozen=True)
class AutoContrast(HistogramTable, WithProbability):
    """Stretch each channel from its smallest and largest value to 0 and 255, with probability ``p``.

    Source: Pillow ImageOps.autocontrast; torchvision v2 RandomAutocontrast.
    """

    def tables(self, histograms: Tensor) -> Tensor:
        """Stretch and cut fractions off; a channel of one tone is unchanged."""
        used = histograms > 0
        low, high = used.byte().argmax(dim=2, keepdim=True), last_used(used)
        scale = per_level((high - low).clamp(min=1).double())
        levels = levels_of(histograms)
        table = (levels * scale + -low * scale).clamp(0, 255)
        return torch.where(high <= low, levels, table.trunc()).to(torch.uint8)


def per_level(spread: Tensor) -> Tensor:
    """Return 255 / spread, rounded once; torch rounds twice if a plain number is divided."""
    return torch.full_like(spread, 255) / spread


def levels_of(histograms: Tensor) -> Tensor:
    """Return 0 to 255 for each histogram, int64 [n, 3, 256]."""
    return torch.arange(256, device=histograms.device).expand_as(histograms)


def last_used(used: Tensor) -> Tensor:
    """Return the last place that is used, int64 [n, 3, 1]."""
    return 255 - used.flip(2).byte().argmax(dim=2, keepdim=True)
