"""Operations that replace values by their entries in a table of 256, one table per image and channel.

Values are rounded to 8 bits, looked up, and divided by 255, so that results are multiples of 1/255.
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
    """Base of operations that replace each 8-bit value by its entry in a table of 256."""

    # Measured 0 on noise and photographs.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """8-bit values stay 8-bit values."""


class Table(LookUp, abstract=True):
    """Base of lookup operations whose tables are computed from the drawn parameters."""

    @abstractmethod
    def tables(self, params: Params) -> NDArray[np.uint8]:
        """Return the tables of n images, uint8 [n, 3, 256], on the host."""


class HistogramTable(LookUp, abstract=True):
    """Base of lookup operations whose tables are computed from the histogram of each channel; only whether they apply is random."""

    @abstractmethod
    def tables(self, histograms: Tensor) -> Tensor:
        """Return the tables, uint8 [n, 3, 256], for histograms, int64 [n, 3, 256].

        Both lie on one device, which is not waited for.
        """


def _bits(operation: str, field: str, value: Any) -> Any:
    """Check the field ``bits``; return (smallest, largest), or three such pairs if each channel has its own."""
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
        """Return ``bits``, int64 [B], or int64 [B, 3] if each channel has its own range."""
        ends: Any = self.bits
        if len(ends) == 3:
            columns = [whole_between(drawn["bits"][:, c], pair) for c, pair in enumerate(ends)]
            bits = np.stack(columns, axis=1)
        else:
            bits = whole_between(drawn["bits"][:, 0], ends)
        return {"bits": bits}

    def tables(self, params: Params) -> NDArray[np.uint8]:
        """Return tables, uint8 [n, 3, 256], that set the trailing bits to 0."""
        bits = params["bits"].reshape(len(params["bits"]), -1, 1)
        table = (_LEVELS >> (8 - bits)) << (8 - bits)
        return np.repeat(table.astype(np.uint8), 3 // table.shape[1], axis=1)


@dataclass(frozen=True)
class Equalize(HistogramTable, WithProbability):
    """Equalize the histogram of each channel, with probability ``p``.

    Args:
        p: Share of the images that are changed.
        method: Formula of the table: "pil" is Pillow's; "opencv" is that of cv2.equalizeHist; "inclusive" is Pillow's, but
            also counts the pixels of the value itself, not only those below it.

    Source: torchvision v2 RandomEqualize and Pillow ImageOps.equalize; the methods "opencv" and
    "inclusive" are Albumentations Equalize with mode "cv" and "pil".
    """

    method: Literal["pil", "opencv", "inclusive"] = "pil"

    def tables(self, histograms: Tensor) -> Tensor:
        """Return tables that spread the cumulative histogram, uint8 [n, 3, 256]; a channel with one value is unchanged."""
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
    """Stretch the range of values of each channel to 0 to 255, with probability ``p``.

    Source: Pillow ImageOps.autocontrast; torchvision v2 RandomAutocontrast.
    """

    def tables(self, histograms: Tensor) -> Tensor:
        """Return tables that stretch values and round down, uint8 [n, 3, 256]; a channel with one value is unchanged."""
        used = histograms > 0
        low, high = used.byte().argmax(dim=2, keepdim=True), last_used(used)
        scale = per_level((high - low).clamp(min=1).double())
        levels = levels_of(histograms)
        table = (levels * scale + -low * scale).clamp(0, 255)
        return torch.where(high <= low, levels, table.trunc()).to(torch.uint8)


def per_level(spread: Tensor) -> Tensor:
    """Return 255 / ``spread``, rounded once; torch would round twice if 255 were a Python number."""
    return torch.full_like(spread, 255) / spread


def levels_of(histograms: Tensor) -> Tensor:
    """Return the values 0 to 255 for each histogram, int64 [n, 3, 256]."""
    return torch.arange(256, device=histograms.device).expand_as(histograms)


def last_used(used: Tensor) -> Tensor:
    """Return the index of the last True of ``used``, bool [n, 3, 256], as int64 [n, 3, 1]."""
    return 255 - used.flip(2).byte().argmax(dim=2, keepdim=True)
