"""Tone curves and histogram operations in 8 bits."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.color.lookup_tables import HistogramTable, Table, last_used, levels_of, per_level
from gpu_aug.ops.color.matrices import normals
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes
from gpu_aug.ops.operation import WithProbability

__all__ = ["EqualizeLuma", "HistogramStretch", "RandomToneCurve"]


@dataclass(frozen=True)
class RandomToneCurve(Table):
    """Change tones along a random cubic curve from (0, 0) to (1, 1).

    Args:
        scale: Standard deviation of the curve's two inner points, whose means are 0.25 and 0.75; they are clipped to [0, 1].
        per_channel: Whether each channel has its own curve.
        p: Share of the images that are changed.

    Source: Albumentations RandomToneCurve.
    """

    random: ClassVar[Random] = {"bends": Numbers(lambda self: 6 if self.per_channel else 2)}

    scale: Annotated[float, validation.Number(low=0, high=1, example="0.1")] = 0.1
    _: KW_ONLY
    per_channel: bool = False
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``low`` and ``high``, float64 [B, 3]: the heights of the inner points for each channel."""
        bends = self.scale * normals(drawn["bends"]).reshape(len(sizes), 2, -1)
        low, high = (
            np.clip(middle + bend, 0, 1) * np.ones(3)
            for middle, bend in zip((0.25, 0.75), bends.swapaxes(0, 1), strict=True)
        )
        return {"low": low, "high": high}

    def tables(self, params: Params) -> NDArray[np.uint8]:
        """Return the rounded Bezier curves, uint8 [n, 3, 256]."""
        t = np.linspace(0, 1, 256)
        low, high = params["low"][:, :, None], params["high"][:, :, None]
        curve = (3 * (1 - t) ** 2 * t * low + 3 * (1 - t) * t**2 * high + t**3) * 255
        return np.clip(np.rint(curve), 0, 255).astype(np.uint8)


@dataclass(frozen=True)
class EqualizeLuma(WithProbability):
    """Equalize the histogram of the luma and keep the chroma, with probability ``p``.

    The image is converted to OpenCV's 8-bit YCrCb on the CPU, even if the images are on a GPU.

    Args:
        p: Share of the images that are changed.
        method: Formula of the table; see Equalize.

    Source: Albumentations Equalize with by_channels=False.
    """

    tolerance: ClassVar[float] = 0.001  # Measured 0.
    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True

    method: Literal["pil", "opencv", "inclusive"] = "pil"


@dataclass(frozen=True)
class HistogramStretch(HistogramTable, WithProbability):
    """Stretch the tones between two ends of each channel's histogram.

    Args:
        cutoff: Percentage of the pixels that lie beyond each end.
        ignore: A tone, 0 to 255, that is neither counted nor changed. The values 0, 1 and 2 also exclude the channel with this
            index, as in Albumentations.
        method: How tones are spread: "cdf" by how frequent they are, "linear" evenly.
        p: Share of the images that are changed.

    Source: Albumentations AutoContrast, whose method "pil" is "linear" here.
    """

    _: KW_ONLY
    cutoff: Annotated[float, validation.Number(low=0, high=100, example="2.0")] = 0.0
    ignore: Annotated[
        int | None, validation.optional(validation.Integer(low=0, high=255, example="0"))
    ] = None
    method: Literal["cdf", "linear"] = "cdf"
    p: float = 0.5

    def tables(self, histograms: Tensor) -> Tensor:
        """Return the tables, uint8 [n, 3, 256]; a channel whose ends meet is unchanged."""
        histograms = histograms.clone()
        histograms[:, :, 255] = 0  # the source leaves it out
        if self.ignore is not None:
            histograms[:, :, self.ignore] = 0
        low, high = self._ends(histograms)
        levels = levels_of(histograms)
        if self.method == "cdf":
            inside = (levels >= low) & (levels <= high)
            below = torch.where(inside, histograms, 0).cumsum(dim=2)
            first, last = below.gather(2, low), below.gather(2, high)
            room = (last - first).float()
            table = (below - first).float() * 255 / room.clamp(min=1)
            # Only the first end holds pixels: the source divides 0 by 0 there, which is tone 0.
            table = torch.where((room == 0) | ~inside, 0, table.round())
            table = torch.where(last == 0, levels, torch.where(levels > high, 255, table))
        else:
            scale = per_level((high - low).clamp(min=1).double())
            table = ((levels - low) * scale).round()
            table = torch.where(levels < low, 0, torch.where(levels > high, 255, table))
        empty = histograms.sum(dim=2, keepdim=True) == 0
        table = torch.where((high <= low) | empty, levels, table.clamp(0, 255)).to(torch.uint8)
        if self.ignore is not None:
            table[:, :, self.ignore] = self.ignore
            if self.ignore < 3:
                table[:, self.ignore] = levels[0, 0].to(torch.uint8)
        return table

    def _ends(self, histograms: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tones at the lower and the upper end, int64 [n, 3, 1] each."""
        used = histograms > 0
        if not self.cutoff:
            return used.byte().argmax(dim=2, keepdim=True), last_used(used)
        cut = histograms.sum(dim=2, keepdim=True).double() * self.cutoff / 100
        from_below = histograms.cumsum(dim=2) >= cut
        from_above = histograms.flip(2).cumsum(dim=2) >= cut
        low = (from_below.byte().argmax(dim=2, keepdim=True) + 1).clamp(max=255)
        high = 255 - from_above.byte().argmax(dim=2, keepdim=True)
        flat = (histograms == histograms[:, :, :1]).all(dim=2, keepdim=True)
        margin = int(256 * self.cutoff / 100)
        low = torch.where(flat, margin, low)
        return low, torch.where(flat, 255 - margin, high)
