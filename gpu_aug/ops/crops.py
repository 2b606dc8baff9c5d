"""Operations that cut images out or add borders."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import fields
from gpu_aug.ops.sampling import Sizes, Uniforms, between, whole_below
from gpu_aug.ops.spatial import PADDING_MODES, Crop, Fill, PaddingMode, Spatial

__all__ = [
    "CenterCrop",
    "FixedCrop",
    "Pad",
    "PadIfNeeded",
    "RandomCrop",
    "RandomCropFromBorders",
    "RandomZoomOut",
]

Position = Literal["center", "top_left", "top_right", "bottom_left", "bottom_right", "random"]
POSITIONS = ("center", "top_left", "top_right", "bottom_left", "bottom_right", "random")
Pair = int | tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class PaddedCrop(Crop, abstract=True):
    """A crop that says what lies beside the image.

    Attributes:
        padding_mode: "constant" is ``fill``, "edge" repeats the last pixel, "reflect" mirrors
            without it (dcb|abcd|cba), "symmetric" with it (cba|abcd|dcb); mirrored as often as
            necessary.
        fill: One value or three, in the values of this place in the recipe: [0, 1] before
            Normalize.
        fill_mask: The same for masks, a whole number.
    """

    padding_mode: PaddingMode = "constant"
    fill: Fill = 0.0
    fill_mask: int = 0

    def _check_padding(self) -> None:
        self._set(**padding_fields(self))


@dataclass(frozen=True)
class RandomCrop(PaddedCrop):
    """Cut out a part of one size at a random place; an image that is too small is padded.

    Args:
        size: (height, width) of the result; one number is a square.
        padding: Added around the image before: one number, (left and right, top and bottom) or
            (left, top, right, bottom).
        position: Where an image that is still too small stands in the result.
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 RandomCrop, with ``pad_if_needed``; ``position`` is Albumentations'
    ``pad_position``, "random" is torchvision's law.
    """

    size: Pair
    padding: int | tuple[int, ...] | None = None
    _: KW_ONLY
    position: Position = "random"

    def __post_init__(self) -> None:
        self._check_padding()
        self._set(
            size=fields.height_width("RandomCrop", "size", self.size),
            padding=None if self.padding is None else paddings("RandomCrop", self.padding),
            position=fields.choice("RandomCrop", "position", self.position, POSITIONS),
        )
        if self.padding == (0, 0, 0, 0):
            self._set(padding=None)

    @property
    def may_pad(self) -> bool:
        """With ``padding``."""
        return self.padding is not None

    @property
    def num_uniforms(self) -> int:
        """Top and left."""
        return 2

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``start``, negative where a border is added, beside the fixed ``shape``."""
        left, top, right, bottom = self.padding or (0, 0, 0, 0)  # type: ignore[misc]
        room = sizes - self.size + np.array([top + bottom, left + right])
        inside = whole_below(u, np.maximum(room, 0) + 1)
        before = borders(np.maximum(-room, 0), self.position, u)
        return crop_params(inside - before - (top, left), self.size)

    def possible_sizes(self, sizes: Sizes) -> Sizes:  # noqa: ARG002 - any size
        """Every image becomes ``size``."""
        return np.array([self.size])


@dataclass(frozen=True)
class CenterCrop(PaddedCrop):
    """Cut out the middle; an image that is too small is padded.

    Args:
        size: (height, width) of the result; one number is a square.
        rounding: What happens to half a pixel of the top-left corner: "even" goes to the even
            neighbour, as torchvision has it, "down" to the smaller one, as Albumentations does.
        position: Where an image that is too small stands in the result.
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 CenterCrop; the rest is Albumentations CenterCrop.
    """

    size: Pair
    _: KW_ONLY
    rounding: Literal["even", "down"] = "even"
    position: Position = "center"

    def __post_init__(self) -> None:
        self._check_padding()
        self._set(
            size=fields.height_width("CenterCrop", "size", self.size),
            rounding=fields.choice("CenterCrop", "rounding", self.rounding, ("even", "down")),
            position=fields.choice("CenterCrop", "position", self.position, POSITIONS),
        )

    @property
    def num_uniforms(self) -> int:
        """None, or top and left of an image that is too small."""
        return 2 if self.position == "random" else 0

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Return ``start``, negative where a border is added, and ``shape``, int64 [B, 2]."""
        room = sizes - self.size
        half = np.maximum(room, 0) / 2
        cut = (np.rint(half) if self.rounding == "even" else np.floor(half)).astype(np.int64)
        return crop_params(cut - borders(np.maximum(-room, 0), self.position, u), self.size)

    def possible_sizes(self, sizes: Sizes) -> Sizes:  # noqa: ARG002 - any size
        """Every image becomes ``size``."""
        return np.array([self.size])


@dataclass(frozen=True)
class FixedCrop(PaddedCrop):
    """Cut out a part of one size at a fixed place; what lies beside the image is padded.

    Args:
        size: (height, width) of the result; one number is a square.
        position: A corner or the centre, or (top, left) of the part in pixels.
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 ``crop``, ``five_crop`` and ``center_crop``.
    """

    size: Pair
    position: str | tuple[int, int] = "center"

    def __post_init__(self) -> None:
        self._check_padding()
        self._set(size=fields.height_width("FixedCrop", "size", self.size))
        if isinstance(self.position, str):
            fields.choice("FixedCrop", "position", self.position, POSITIONS[:-1])
            return
        if not fields.is_sequence(self.position, 2) or not all(map(fields.is_whole, self.position)):
            raise fields.fault(
                "FixedCrop",
                "position",
                self.position,
                'a corner or (top, left), such as "top_left"',
            )
        self._set(position=(int(self.position[0]), int(self.position[1])))

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - nothing is random
        """Return ``start`` and ``shape``, int64 [B, 2]."""
        room = sizes - self.size
        if not isinstance(self.position, str):
            start = np.broadcast_to(np.array(self.position), sizes.shape)
        elif self.position == "center":
            cut = np.rint(np.maximum(room, 0) / 2).astype(np.int64)
            start = cut - np.maximum(-room, 0) // 2
        else:
            start = room * np.array([self.position[:3] == "bot", self.position[-5:] == "right"])
        return crop_params(start, self.size)

    def possible_sizes(self, sizes: Sizes) -> Sizes:  # noqa: ARG002 - any size
        """Every image becomes ``size``."""
        return np.array([self.size])


@dataclass(frozen=True)
class Pad(PaddedCrop):
    """Add a border.

    Args:
        padding: In pixels: one number, (left and right, top and bottom) or (left, top, right,
            bottom).
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 Pad.
    """

    padding: int | tuple[int, ...]

    def __post_init__(self) -> None:
        self._check_padding()
        self._set(padding=paddings("Pad", self.padding))

    @property
    def may_pad(self) -> bool:
        """Always."""
        return True

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - nothing is random
        """Return ``start`` and ``shape``, int64 [B, 2]."""
        left, top, _, _ = self.padding  # type: ignore[misc]
        return crop_params(np.broadcast_to((-top, -left), sizes.shape), self.possible_sizes(sizes))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes`` with the border."""
        left, top, right, bottom = self.padding  # type: ignore[misc]
        padded: Sizes = sizes + np.array([top + bottom, left + right])
        return padded


@dataclass(frozen=True)
class PadIfNeeded(PaddedCrop):
    """Add a border to images that are smaller than a size, or no multiple of a number.

    Args:
        size: Smallest (height, width); one number is for both, None leaves a side to ``divisor``.
        divisor: What (height, width) shall be multiples of; one number is for both, None leaves
            a side to ``size``.
        position: Where the image stands in the result; half a pixel goes to bottom and right.
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: Albumentations PadIfNeeded.
    """

    size: int | tuple[int | None, int | None] | None = None
    _: KW_ONLY
    divisor: int | tuple[int | None, int | None] | None = None
    position: Position = "center"

    def __post_init__(self) -> None:
        self._check_padding()
        size, divisor = _sides("size", self.size), _sides("divisor", self.divisor)
        if any(
            (smallest is None) == (part is None)
            for smallest, part in zip(size, divisor, strict=True)
        ):
            raise RecipeError(
                "PadIfNeeded needs, for height and for width, either size or divisor, "
                f"got size={self.size!r} and divisor={self.divisor!r}: for example size=224"
            )
        self._set(
            size=None if size == (None, None) else size,
            divisor=None if divisor == (None, None) else divisor,
            position=fields.choice("PadIfNeeded", "position", self.position, POSITIONS),
        )

    @property
    def may_pad(self) -> bool:
        """Always."""
        return True

    @property
    def num_uniforms(self) -> int:
        """None, or top and left."""
        return 2 if self.position == "random" else 0

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2]."""
        shape = self.possible_sizes(sizes)
        return crop_params(-borders(shape - sizes, self.position, u), shape)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes`` with the border that each needs."""
        padded = sizes.copy()
        size, divisor = _sides("size", self.size), _sides("divisor", self.divisor)
        for axis, (smallest, part) in enumerate(zip(size, divisor, strict=True)):
            if smallest is not None:
                padded[:, axis] = np.maximum(sizes[:, axis], smallest)
            elif part is not None:
                padded[:, axis] += -sizes[:, axis] % part
        return padded


@dataclass(frozen=True)
class RandomZoomOut(PaddedCrop):
    """Put the image at a random place of a larger canvas, with probability ``p``.

    Args:
        fill: See PaddedCrop.
        side_range: Smallest and largest side of the canvas, in sides of the image, from 1.
        p: Share of the images that are changed.
        padding_mode: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 RandomZoomOut.
    """

    _: KW_ONLY
    side_range: tuple[float, float] = (1.0, 4.0)
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "RandomZoomOut"
        self._check_padding()
        self._set(
            side_range=fields.interval(
                name, "side_range", self.side_range, low=1, example="(1.0, 4.0)"
            ),
            p=fields.probability(name, self.p),
        )

    @property
    def may_pad(self) -> bool:
        """Always."""
        return True

    @property
    def num_uniforms(self) -> int:
        """The gate, the size, left and top."""
        return 4

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``start`` and ``shape``, int64 [B, 2]."""
        shape = (sizes * between(u[:, 1:2], self.side_range)).astype(np.int64)
        start = -((shape - sizes) * u[:, [3, 2]]).astype(np.int64)
        return crop_params(start, shape) | {"apply": u[:, 0] < self.p}

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """The smallest and the largest canvas."""
        canvases = [(sizes * side).astype(np.int64) for side in self.side_range]
        return np.concatenate(canvases if self.p == 1 else [sizes, *canvases])


@dataclass(frozen=True)
class RandomCropFromBorders(Crop):
    """Cut a random number of rows and columns off each side.

    Args:
        crop_left: Largest share of the width that is cut off at the left; the others likewise.

    Source: Albumentations RandomCropFromBorders.
    """

    crop_left: float = 0.1
    crop_right: float = 0.1
    crop_top: float = 0.1
    crop_bottom: float = 0.1

    def __post_init__(self) -> None:
        name = "RandomCropFromBorders"
        for field in ("crop_left", "crop_right", "crop_top", "crop_bottom"):
            share = fields.number(name, field, getattr(self, field))
            if not 0 <= share <= 1:
                raise fields.fault(name, field, share, "a share from 0 to 1, for example 0.1")
            self._set(**{field: share})
        if max(self.crop_left + self.crop_right, self.crop_top + self.crop_bottom) > 1:
            raise RecipeError(f"{name} must not cut off more than there is, got {self!r}")

    @property
    def num_uniforms(self) -> int:
        """One per side."""
        return 4

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``start`` and ``shape``, int64 [B, 2]."""
        earliest, latest = self._ends(sizes)
        start = np.minimum(whole_below(u[:, :2], earliest + 1), sizes - 1)
        low = np.maximum(start + 1, latest)
        stop = low + whole_below(u[:, 2:], sizes - low + 1)
        return crop_params(start, stop - start)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """The smallest and the largest result."""
        earliest, latest = self._ends(sizes)
        return np.concatenate([np.maximum(latest - earliest, 1), sizes])

    def _ends(self, sizes: Sizes) -> tuple[Sizes, Sizes]:
        """The last row and column it may start with, and the first it may stop before."""
        before = np.array([self.crop_top, self.crop_left])
        after = np.array([self.crop_bottom, self.crop_right])
        return (before * sizes).astype(np.int64), ((1 - after) * sizes).astype(np.int64)


def crop_params(start: Any, shape: Any) -> Params:
    """Return the parameters of "cut this rectangle out"; ``shape`` may be one for all."""
    start = np.array(start, np.int64)
    shape = np.array(np.broadcast_to(np.array(shape, np.int64), start.shape))
    return {"apply": np.ones(len(start), bool), "start": start, "shape": shape}


def borders(missing: Sizes, position: str, u: Uniforms) -> Sizes:
    """Return how much of the missing rows and columns, int64 [B, 2], stands before the image."""
    if position == "random":
        return whole_below(u, missing + 1)
    if position == "center":
        return missing // 2
    before: Sizes = missing * np.array([position.startswith("bottom"), position.endswith("right")])
    return before


def paddings(name: str, value: Any) -> tuple[int, int, int, int]:
    """Return (left, top, right, bottom) of one, two or four numbers."""
    values = (value,) if fields.is_whole(value) else value
    for count in (1, 2, 4):
        if fields.is_sequence(values, count) and all(
            fields.is_whole(item) and item >= 0 for item in values
        ):
            left, top, right, bottom = (int(item) for item in tuple(values) * (4 // count))
            return left, top, right, bottom
    raise fields.fault(
        name,
        "padding",
        value,
        "one, two or four whole numbers from 0, (left, top, right, bottom), for example 4",
    )


def padding_fields(operation: Spatial) -> dict[str, Any]:
    """Return the checked ``padding_mode``, ``fill`` and ``fill_mask`` of an operation."""
    name = type(operation).__name__
    return {
        "padding_mode": fields.choice(name, "padding_mode", operation.padding_mode, PADDING_MODES),
        "fill": fields.fill(name, "fill", operation.fill),
        "fill_mask": mask_value(name, operation.fill_mask),
    }


def mask_value(name: str, value: Any) -> int:
    """Return what masks are filled with."""
    if not fields.is_whole(value):
        raise fields.fault(name, "fill_mask", value, "a whole number, for example 255")
    return int(value)


def _sides(field: str, value: Any) -> tuple[int | None, int | None]:
    """Return (height, width) of which each may be None."""
    if value is None:
        return None, None
    values = (value, value) if fields.is_whole(value) else value
    if not fields.is_sequence(values, 2) or not all(
        side is None or (fields.is_whole(side) and side > 0) for side in values
    ):
        raise fields.fault(
            "PadIfNeeded", field, value, "one or two whole numbers of at least 1, for example 224"
        )
    height, width = (None if side is None else int(side) for side in values)
    return height, width
