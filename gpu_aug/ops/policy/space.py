"""The operations that policies choose from: their names, their magnitudes, and how a choice becomes parameters."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops.color.adjust import Invert, Solarize
from gpu_aug.ops.color.lookup_tables import AutoContrast, Equalize, Posterize
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms
from gpu_aug.ops.geometric.spatial import Blend, Fill, Interpolation, Matrices, Warp
from gpu_aug.ops.geometric.warps import about, centers, turns
from gpu_aug.ops.operation import Operation

# Operations that blend the image with another one, by a factor.
BLENDS = ("Brightness", "Color", "Contrast", "Sharpness")
ROUND_UP = 0.503
"""Added before rounding down. Halves are common among bilinear values, and engines disagree about
them by float32 noise; values three thousandths below a half are not."""

# Operations that are one matrix on positions.
_WARPS = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")


@dataclass(frozen=True)
class PolicyWarp(Warp, abstract=True):
    """The shear, translation or rotation of a policy; bilinear and bicubic results are rounded to 8 bits.

    Bicubic is the interpolation of Pillow, and not that of Warp.
    """

    rounds_to_8_bits: ClassVar[bool] = True
    may_mirror: ClassVar[bool] = False

    interpolation: Interpolation = "nearest"
    fill: Fill = 0.0
    blend: Blend = "once"

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        """0.001 for nearest pixels; 1.001 for other values, which engines may round to different neighbours."""
        # Measured 0 for nearest pixels. Of bilinear values 1 in 100 000 differs, by 1; what follows in
        # a policy can enlarge that (on 600 images by 2 at most, by 11 after two strong operations).
        return 0.001 if self.interpolation == "nearest" else 1.001


@dataclass(frozen=True)
class PolicyBlend(Operation, abstract=True):
    """Blend the image with a degenerate one, in 8 bits: ``factor * image + (1 - factor) * other``.

    The drawn parameters are ``kind``, int64 [B], an index into BLENDS, and ``factor``, float64 [B]. By kind, the other
    image is black,
    the gray image, the mean gray, or the image blurred by a 3 x 3 kernel of ones with 5 in the middle. Gray values and
    results are rounded down.

    Source: torchvision v2 adjust_brightness, adjust_saturation, adjust_contrast and
    adjust_sharpness on uint8.
    """

    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Every result is a whole 1/255."""


@dataclass(frozen=True)
class Space:
    """The operations that a policy chooses from, and their magnitudes.

    Attributes:
        ends: Largest magnitude of each operation by name; None for operations without a magnitude. Magnitudes are evenly spaced
            from 0; those of translations are shares of a side, or pixels if above 1.
        posterize: Number of bits that magnitude 0 keeps, and how many fewer the largest magnitude keeps.
    """

    ends: dict[str, float | None]
    posterize: tuple[int, int]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all operations, in torchvision's order."""
        return tuple(self.ends)

    def magnitudes(self, name: str, num_bins: int, sizes: Sizes) -> NDArray[np.float64]:
        """Return the magnitudes of one operation for images of ``sizes``, float64 [B, num_bins]."""
        end = self.ends[name]
        if end is None:
            levels = np.zeros(num_bins)
        elif name == "Posterize":
            most, fewer = self.posterize
            levels = np.rint(most - np.arange(num_bins) / (max(num_bins - 1, 1) / fewer))
        elif name == "Solarize":
            levels = _evenly(1.0, 0.0, num_bins)
        elif name.startswith("Translate") and end <= 1:
            sides, which = np.unique(sizes[:, "YX".index(name[-1])], return_inverse=True)
            return np.stack([_evenly(0.0, end * side, num_bins) for side in sides.tolist()])[which]
        else:
            levels = _evenly(0.0, end, num_bins)
        return np.broadcast_to(levels, (len(sizes), num_bins))


# Operations with a magnitude to either side.
_SIGNED = (*_WARPS, *BLENDS)
# Operations without a magnitude.
_PLAIN = dict.fromkeys(("AutoContrast", "Equalize"))


def _space(
    posterize: tuple[int, int], shear: float, shift: float, turn: float, blend: float
) -> dict[str, float | None]:
    return {
        **dict.fromkeys(("ShearX", "ShearY"), shear),
        **dict.fromkeys(("TranslateX", "TranslateY"), shift),
        "Rotate": turn,
        **dict.fromkeys(BLENDS, blend),
        "Posterize": float(posterize[1]),
        "Solarize": 1.0,
        **_PLAIN,
    }


# Largest magnitudes in torchvision. Shifts are shares of a side, or pixels above 1.
_RAND = _space((8, 4), 0.3, 150.0 / 331.0, 30.0, 0.9)
_MIX = _space((4, 4), 0.3, 1.0 / 3.0, 30.0, 0.9)

RAND = Space({"Identity": None, **_RAND}, (8, 4))
WIDE = Space({"Identity": None, **_space((8, 6), 0.99, 32.0, 135.0, 0.99)}, (8, 6))
AUTO = Space({**_RAND, "Invert": None}, (8, 4))
MIX = Space(_MIX, (4, 4))
MIX_PARTIAL = Space({name: end for name, end in _MIX.items() if name not in BLENDS}, (4, 4))


def carriers(space: Space, warp: PolicyWarp) -> tuple[Operation, ...]:
    """Return the operations that can carry out any choice from ``space``; at most one is active in an image."""
    inverts = (Invert(p=1.0),) if "Invert" in space.ends else ()
    return (
        warp,
        PolicyBlend(),
        Posterize(4, p=1.0),
        Solarize(0.5, p=1.0),
        AutoContrast(p=1.0),
        Equalize(p=1.0),
        *inverts,
    )


def choice_params(
    space: Space,
    chosen: NDArray[np.int64],
    bins: NDArray[np.int64],
    signs: Uniforms,
    sizes: Sizes,
    *,
    num_bins: int,
    apply: NDArray[np.bool_] | None = None,
) -> list[Params]:
    """Return the parameters of ``carriers`` for one chosen operation per image.

    Args:
        space: The operations to choose from.
        chosen: Indices into ``space.names``, int64 [B].
        bins: Indices of the magnitudes, int64 [B], below ``num_bins``.
        signs: Uniform numbers, float64 [B]; if one is below one half, the magnitude becomes negative.
        sizes: Heights and widths of the images, int64 [B, 2].
        num_bins: Number of magnitudes.
        apply: Which images get their choice, bool [B]; None means all.
    """
    names = np.array(space.names)[chosen]
    magnitude = np.zeros(len(chosen))
    for name in set(names.tolist()):
        rows = np.flatnonzero(names == name)
        levels = space.magnitudes(name, num_bins, sizes[rows])
        magnitude[rows] = levels[np.arange(len(rows)), bins[rows]]
    magnitude = np.where((signs < 0.5) & np.isin(names, _SIGNED), -magnitude, magnitude)

    def gate(*wanted: str) -> NDArray[np.bool_]:
        active = np.isin(names, wanted)
        return active if apply is None else active & apply

    above = np.ceil(np.float32(255) * magnitude.astype(np.float32)).astype(np.float64)
    kind = np.zeros(len(chosen), np.int64)
    for number, name in enumerate(BLENDS):
        kind[names == name] = number
    drawn: list[Params] = [
        {"apply": gate(*_WARPS), "matrix": _matrices(names, magnitude, sizes)},
        {"apply": gate(*BLENDS), "kind": kind, "factor": 1 + magnitude},
        {
            "apply": gate("Posterize"),
            "bits": np.where(names == "Posterize", magnitude, 8).astype(int),
        },
        # Half a step below the first value that is inverted: no rounding can move it.
        {"apply": gate("Solarize"), "threshold": np.maximum(above - 0.5, 0) / 255},
        {"apply": gate("AutoContrast")},
        {"apply": gate("Equalize")},
    ]
    return drawn + ([{"apply": gate("Invert")}] if "Invert" in space.ends else [])


def _matrices(names: NDArray[np.str_], magnitude: Uniforms, sizes: Sizes) -> Matrices:
    """Return the matrices of Warp, float64 [B, 3, 3]; as in torchvision, shears are about the image's corner."""
    matrix = np.broadcast_to(np.eye(3), (len(names), 3, 3)).copy()
    for axis, letter in enumerate("XY"):
        sheared, moved = names == f"Shear{letter}", names == f"Translate{letter}"
        matrix[sheared, axis, 1 - axis] = -magnitude[sheared]
        matrix[sheared, axis, 2] = -0.5 * magnitude[sheared]  # indices name centres of pixels
        matrix[moved, axis, 2] = np.trunc(magnitude[moved])
    turned = names == "Rotate"
    angle = -np.radians(magnitude[turned])  # counter-clockwise
    matrix[turned] = about(centers(sizes[turned]), turns(angle))
    return matrix


@lru_cache(maxsize=4096)
def _evenly(start: float, end: float, num_bins: int) -> NDArray[np.float64]:
    """Return evenly spaced magnitudes, float64 [num_bins], with torchvision's float32 rounding."""
    return torch.linspace(start, end, num_bins).double().numpy()
