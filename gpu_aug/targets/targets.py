"""Targets: boxes, keypoints, masks and labels of an image, and the parameters of how a recipe moves them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import chain
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.argument_errors import FriendlyArgumentErrors
from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.ops import validation
from gpu_aug.ops.operation import describe
from gpu_aug.targets.flip_pairs import COCO_PERSON, FlipPairs, checked_flip_pairs

BoxFormat = Literal["xyxy", "xywh", "cxcywh", "xywhr", "cxcywhr", "xyxyxyxy"]
BoxAlias = Literal["pascal_voc", "albumentations", "coco", "yolo"]
KINDS = ("boxes", "keypoints", "masks")
"""The fields of Targets that operations move; labels follow theirs."""

BOX_FORMATS: tuple[str, ...] = get_args(BoxFormat)
"""The names of box formats but for the aliases of Albumentations."""

BOX_COLUMNS: Mapping[str, int] = MappingProxyType(
    {"xyxy": 4, "cxcywhr": 5, "xyxyxyxy": 8, "xywh": 4, "cxcywh": 4, "xywhr": 5}
)
"""How many numbers a box has in each format; those of more than 4 are oriented. The first of equals is the usual one."""

BOX_ALIASES: Mapping[str, tuple[str, bool]] = MappingProxyType(
    {
        "pascal_voc": ("xyxy", False),
        "albumentations": ("xyxy", True),
        "coco": ("xywh", False),
        "yolo": ("cxcywh", True),
    }
)
"""Albumentations' names of box formats -> format and normalized of BoxParams."""

_LARGEST = float(np.finfo(np.float32).max)  # coordinates are returned as float32
_BY_NAMES = {"names": "names"}  # a Loader replaces it, as only a dataset has class names
# What error messages ask for.
_EXAMPLES = {
    "boxes": "float [N, 4], such as [[10, 20, 50, 60]], or [N, 5] or [N, 8] for oriented boxes",
    "keypoints": "float [K, 2] of (x, y), such as [[10, 20]]",
    "masks": "integers [M, H, W], one layer per mask",
}


@dataclass(frozen=True, eq=False, slots=True)
class Targets:
    """The targets of one image; a field that is None is absent.

    Arrays, tensors and lists are accepted and become NumPy arrays. Boxes that go into a recipe or come out of it have the
    format of its BoxParams; without BoxParams this is (left, top, right, bottom) in pixels.

    Attributes:
        boxes: Boxes, float64 [N, 4], or oriented ones, [N, 5] or [N, 8] as BoxParams.format says, in continuous coordinates:
            the pixel in row i and column j is the box (j, i, j + 1, i + 1).
        box_labels: Labels of the boxes, an array with first axis N, which are dropped with their boxes; integers become int64.
        keypoints: Keypoints (x, y), float64 [K, 2], in continuous coordinates: the centre of the top-left pixel is
            (0.5, 0.5). See KeypointParams.pixel_index for the other convention.
        keypoint_labels: Labels of the keypoints, an array with first axis K, which are dropped with their keypoints.
        masks: Masks, integers or bool [M, H, W]: one layer for a semantic mask, or one layer for each instance.

    Raises:
        TargetsError: An array has a wrong shape, a value is not finite, or the number of labels does not match.

    Example:
        >>> Targets(boxes=[[10, 20, 50, 60]], box_labels=[3]).boxes.shape
        (1, 4)
    """

    boxes: NDArray[np.float64] | None = None
    box_labels: NDArray[Any] | None = None
    keypoints: NDArray[np.float64] | None = None
    keypoint_labels: NDArray[Any] | None = None
    masks: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for name, columns in (("boxes", (4, 5, 8)), ("keypoints", (2,))):
            points = getattr(self, name)
            if points is not None:
                object.__setattr__(self, name, _coordinates(name, points, columns))
            labels = {"boxes": "box_labels", "keypoints": "keypoint_labels"}[name]
            if getattr(self, labels) is not None:
                checked = _labels(labels, getattr(self, labels), name, getattr(self, name))
                object.__setattr__(self, labels, checked)
        if self.masks is not None:
            object.__setattr__(self, "masks", _masks(self.masks))

    @property
    def names(self) -> frozenset[str]:
        """Names of the fields that are not None."""
        return frozenset(one.name for one in fields(self) if getattr(self, one.name) is not None)

    def __bool__(self) -> bool:
        """Return whether any field is not None."""
        return any(getattr(self, field.name) is not None for field in fields(self))


class _Params(metaclass=FriendlyArgumentErrors):
    """Base of BoxParams, KeypointParams and MaskParams."""

    @classmethod
    def from_dict(cls, saved: Any) -> Any:
        """Return the parameters that a dictionary from ``to_dict`` describes.

        Raises:
            RecipeError: A field is unknown or has an invalid value.
        """
        from gpu_aug.files.schema import params_from_dict  # which imports this module

        return params_from_dict(cls, saved)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        return asdict(self)  # type: ignore[call-overload,no-any-return] # a dataclass, as all that are made of it

    def differences(self) -> dict[str, Any]:
        """Return the fields that differ from their default, for the fingerprint of a recipe.

        ``flip_pairs=()`` counts as the default: it changes warnings and what a Loader fills in, not what a recipe does.
        """
        defaults = type(self)().to_dict()
        return {
            name: value
            for name, value in self.to_dict().items()
            if value not in (defaults[name], ())
        }


@dataclass(frozen=True)
class BoxParams(_Params):
    """How a recipe reads, keeps and returns boxes.

    Sizes and areas are in pixels of the image at the time of the check, and count only the part of a box inside the image.

    Oriented boxes are moved as the convex polygons that the image shows of them, and become rectangles only at the end. A box
    that is no rectangle any more, because it was sheared, seen in perspective, distorted or clipped, becomes the rectangle of
    least area around its polygon, and its first side is the one nearest to the direction of the moved first side; except for
    clipping, a warning names the operation. Corners may lie outside the image. A mirror exchanges the first two corners and the
    last two, as in torchvision, so the first side stays the same side of the object and the order clockwise.

    Args:
        format: Format of boxes: "xyxy" (left, top, right, bottom), "xywh" (left, top, width, height) or "cxcywh" (centre,
            width, height); for oriented boxes "cxcywhr" (centre, width, height, angle in degrees), "xywhr" (first corner,
            width, height, angle) or "xyxyxyxy" (x and y of four corners, clockwise on the screen, which is top left, top
            right, bottom right, bottom left at the angle 0). The width is the length of the first side, from the first to the
            second corner, and the angle is that of this side, from -180 (exclusive) to 180, counter-clockwise on the screen, in
            degrees, not radians.
            These are the formats of torchvision's BoundingBoxes. Albumentations' names set ``normalized`` as well: "pascal_voc"
            means "xyxy" and "coco" means "xywh", both in pixels; "albumentations" means "xyxy" and "yolo" means "cxcywh", both
            normalized. A recipe does not depend on which of two equivalent names was given.
        normalized: Whether coordinates are shares of the image's width and height. "cxcywhr" and "xywhr" are always in pixels,
            for their sides lie along no axis of the image.
        min_area: Smallest area of a box, for an oriented box that of its part inside the image; boxes with less are dropped.
        min_visibility: Smallest share of a box's area that must be inside the image; boxes with less are dropped.
        min_width: Smallest width of a box; narrower boxes are dropped. Of an oriented box, width and height are the sides of
            the rectangle that would be returned at that time.
        min_height: Smallest height of a box; lower boxes are dropped.
        max_accept_ratio: Largest ratio of the longer to the shorter side; boxes with more are dropped. None sets no limit.
        clip: Whether input boxes that extend beyond the image are clipped; if False, they raise an error. An oriented box
            raises an error only if its centre lies outside the image: a rectangle around an object at the border often has
            corners outside.
        filter_invalid: Whether input boxes without area are dropped; if False, they raise an error.
        check_each: Whether boxes are clipped and dropped after each operation that moves them, or only once at the end.
            Visibility is measured from one check to the next.
        keep_empty: Whether boxes that have moved out of the image stay, without area, on its border, until
            SanitizeBoundingBoxes, as in torchvision.
        shrink_in_holes: Whether operations that erase parts of the image shrink boxes to what is still visible, as in
            Albumentations.
        instance_masks: Whether ``masks`` has one layer per box, which is dropped with its box. If False, this still holds
            for samples with as many masks as boxes if the masks are separate (numbered fields of a Loader, the key ``masks``
            without ``mask`` of `apply`), unless the recipe has MaskParams; the first dropped mask warns of it.
        boxes_from_masks: Whether boxes are computed from the moved masks, one per box, instead of being moved: the smallest
            box around all pixels other than 0. Boxes without such pixels count as empty. ``min_visibility`` still compares
            moved boxes. Implies ``instance_masks``.
        flip_pairs: Pairs of ``box_labels`` that a mirror exchanges, such as [(0, 1)] for "left hand" and "right hand". "names"
            takes all classes of the dataset whose names differ only in left and right; it needs a Loader. None exchanges
            nothing.

    Source: Albumentations BboxParams.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(64)], boxes=BoxParams("cxcywh", normalized=True, min_area=16))
        >>> BoxParams("yolo") == BoxParams("cxcywh", normalized=True)
        True
    """

    format: BoxFormat | BoxAlias = "xyxy"
    normalized: bool = False
    min_area: float = 0.0
    min_visibility: float = 0.0
    min_width: float = 0.0
    min_height: float = 0.0
    max_accept_ratio: float | None = None
    clip: bool = False
    filter_invalid: bool = False
    check_each: bool = True
    keep_empty: bool = False
    shrink_in_holes: bool = False
    instance_masks: bool = False
    boxes_from_masks: bool = False
    flip_pairs: FlipPairs | Literal["names"] | None = None

    def __post_init__(self) -> None:
        name = "BoxParams"
        _spell_out(self)
        if self.format not in BOX_FORMATS:
            allowed = ", ".join((*BOX_FORMATS, *BOX_ALIASES))
            raise validation.fault(name, "format", self.format, f"one of {allowed}")
        if self.normalized and self.format in ("cxcywhr", "xywhr"):
            raise RecipeError(
                f"BoxParams format {self.format!r} must be in pixels, got normalized=True, for sides along no axis of the "
                "image are no shares of its width or height: give format='xyxyxyxy' with normalized=True"
            )
        for field in ("min_area", "min_visibility", "min_width", "min_height"):
            value = validation.number(name, field, getattr(self, field))
            if value < 0 or (field == "min_visibility" and value > 1):
                upper = " to 1, a share such as 0.1" if field == "min_visibility" else ", such as 4"
                raise validation.fault(name, field, getattr(self, field), f"a number from 0{upper}")
            object.__setattr__(self, field, value)
        if self.max_accept_ratio is not None:
            ratio = validation.number(name, "max_accept_ratio", self.max_accept_ratio)
            if ratio < 1:
                raise validation.fault(
                    name, "max_accept_ratio", ratio, "None or a number from 1, such as 5.0"
                )
            object.__setattr__(self, "max_accept_ratio", ratio)
        _check_switches(self)
        if self.boxes_from_masks:
            object.__setattr__(self, "instance_masks", True)
        pairs = checked_flip_pairs(name, self.flip_pairs, _BY_NAMES)
        object.__setattr__(self, "flip_pairs", pairs)

    @property
    def is_oriented(self) -> bool:
        """Whether the format is one of oriented boxes."""
        return BOX_COLUMNS[self.format] > 4

    __repr__ = describe


@dataclass(frozen=True)
class KeypointParams(_Params):
    """How a recipe reads, keeps and returns keypoints.

    Args:
        remove_invisible: Whether keypoints outside the image are dropped with their labels; with ``drop_in_holes`` also
            those that an operation erases. If False, all keypoints stay, in order; one behind a horizon, or one that a
            distortion hides, becomes NaN.
        check_each: Whether keypoints are dropped after each operation that moves them, or only once at the end.
        pixel_index: Whether coordinates are pixel indices, with (0, 0) for the top-left pixel, as in Albumentations: a
            flipped x is W - 1 - x, warps move pixel centres, and resizing multiplies coordinates by the scale. "flips" is
            torchvision's convention: this rule for flips only, continuous coordinates otherwise. False means continuous
            coordinates: the centre of the top-left pixel is (0.5, 0.5), and a flipped x is W - x.
        drop_in_holes: Whether keypoints in parts of the image that an operation erases count as invisible.
        flip_pairs: Labels that are exchanged if an operation mirrors the image (a matrix with a negative determinant), as
            a mirrored left eye is a right one: pairs of labels such as [(1, 2), (3, 4)], or a permutation such as YOLO's
            ``flip_idx``. "coco_person" is the permutation of COCO's 17 keypoints. With ``keypoint_labels``, labels are exchanged
            and rows stay in place. Without, the K keypoints of each object must follow each other and
            ``remove_invisible`` must be False; a permutation of length K then exchanges rows, so that row k stays keypoint
            k. () exchanges nothing. None exchanges nothing and warns of the first mirror, unless a Loader finds
            ``flip_pairs`` in its dataset.

    Source: Albumentations KeypointParams (without angles and scales).

    Example:
        >>> recipe = Recipe([RandomResizedCrop(64)], keypoints=KeypointParams(remove_invisible=False))
    """

    remove_invisible: bool = True
    check_each: bool = True
    pixel_index: bool | Literal["flips"] = False
    drop_in_holes: bool = False
    flip_pairs: FlipPairs | tuple[int, ...] | Literal["coco_person"] | None = None

    def __post_init__(self) -> None:
        _check_switches(self, besides={"pixel_index": "flips"})
        pairs = checked_flip_pairs("KeypointParams", self.flip_pairs, {"coco_person": COCO_PERSON})
        object.__setattr__(self, "flip_pairs", pairs)

    __repr__ = describe


@dataclass(frozen=True)
class MaskParams(_Params):
    """How a recipe treats masks whose values are class numbers.

    A recipe with MaskParams never takes masks for those of single boxes, except with BoxParams(instance_masks=True).

    Args:
        flip_pairs: Pairs of class numbers that are exchanged if an operation mirrors the image, such as [(3, 4)] for the
            left and the right arm. "names" takes all classes of the dataset whose names differ only in left and right; it
            needs a Loader. None exchanges nothing.

    Example:
        >>> recipe = Recipe([HorizontalFlip(p=1.0)], masks=MaskParams(flip_pairs=[(1, 2)]))
        >>> [result] = apply(recipe, [{"image": np.zeros((1, 3, 3), np.uint8), "mask": np.array([[0, 1, 1]])}])
        >>> result["mask"].tolist()
        [[2, 2, 0]]
    """

    flip_pairs: FlipPairs | Literal["names"] | None = None

    def __post_init__(self) -> None:
        pairs = checked_flip_pairs("MaskParams", self.flip_pairs, _BY_NAMES)
        object.__setattr__(self, "flip_pairs", pairs)

    __repr__ = describe


def as_array(values: Any) -> NDArray[Any]:
    """Return an array, a tensor on any device, or lists as a NumPy array."""
    if isinstance(values, torch.Tensor):
        return values.as_subclass(torch.Tensor).detach().cpu().numpy()
    return np.asarray(values)


def _spell_out(params: BoxParams) -> None:
    """Replace an alias by the format and ``normalized`` that it stands for."""
    meant = BOX_ALIASES.get(params.format) if isinstance(params.format, str) else None
    if meant is None:
        return
    form, normalized = meant
    if params.normalized and not normalized:
        raise RecipeError(
            f"BoxParams format {params.format!r} means boxes in pixels, got normalized=True: give "
            f"format={form!r} with normalized=True for shares of the image"
        )
    object.__setattr__(params, "format", form)
    object.__setattr__(params, "normalized", normalized)


def _check_switches(params: Any, besides: Mapping[str, str] = MappingProxyType({})) -> None:
    """Check that fields are booleans; ``besides`` maps the name of a field to a string that is also allowed."""
    for field in fields(params):
        value, word = getattr(params, field.name), besides.get(field.name)
        if not isinstance(field.default, bool) or (word is not None and value == word):
            continue
        if not isinstance(value, bool | np.bool_):
            allowed = "True or False" + (f", or {word!r}" if word else "")
            raise validation.fault(type(params).__name__, field.name, value, allowed)
        object.__setattr__(params, field.name, bool(value))


def _coordinates(name: str, values: Any, columns: tuple[int, ...]) -> NDArray[np.float64]:
    wanted = _EXAMPLES[name]
    try:
        # A copy, so that the argument never changes.
        array = np.array(as_array(values), np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TargetsError(
            f"{name} must be {wanted}, got {type(values).__name__}: {error}"
        ) from error
    if array.size == 0 and array.ndim < 3:
        array = array.reshape(0, array.shape[-1] if array.shape[-1] in columns else columns[0])
    if array.ndim != 2 or array.shape[1] not in columns:
        raise TargetsError(
            f"{name} must be {wanted}, got shape {list(array.shape)}: put one in each row"
        )
    bad = np.flatnonzero(~(np.abs(array) <= _LARGEST).all(axis=1))
    if len(bad):
        raise TargetsError(
            f"{name} must be finite numbers of float32, got {array[bad[0]].tolist()} in row {bad[0]}: "
            "leave out what is not known"
        )
    return array


def _labels(name: str, values: Any, owner: str, owners: Any) -> NDArray[Any]:
    labels = as_array(values)
    _require_int64(name, values, labels)
    if owners is None:
        raise TargetsError(f"{name} must come with {owner}, got {name} alone: give {owner} as well")
    if labels.size == 0 and len(owners) == 0:
        labels = labels.reshape(0, *labels.shape[1:]).astype(
            np.int64 if labels.dtype == np.float64 and labels.ndim < 2 else labels.dtype
        )
    if labels.ndim == 0 or len(labels) != len(owners):
        got = "one value" if labels.ndim == 0 else str(len(labels))
        raise TargetsError(
            f"{name} must be one per row of {owner} ({len(owners)}), got {got}: make them match"
        )
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels


def _way_to_whole(masks: NDArray[Any]) -> str:
    """Return a sentence that tells how to convert masks of another dtype to integers, and what is lost."""
    if masks.dtype.kind != "f":
        return "number their values"
    if np.array_equal(masks, np.rint(masks)):
        return "their values are whole, so masks.astype('int64') keeps them"
    return (
        "as whole numbers shares would be lost: choose a threshold, masks > 0.5, or keep levels, "
        "np.rint(255 * masks).astype('uint8')"
    )


def _require_int64(name: str, values: Any, labels: NDArray[Any]) -> None:
    """Raise a TargetsError for integers that int64 cannot hold.

    NumPy turns lists of them into uint64, float64 or objects.
    """
    if labels.dtype.kind in "ibU":
        return
    numbers = labels.ravel().tolist()
    if labels.dtype.kind == "f" and isinstance(values, list | tuple):
        numbers = list(
            chain.from_iterable(v if isinstance(v, list | tuple) else [v] for v in values)
        )
    large = next((n for n in numbers if type(n) is int and not -(2**63) <= n < 2**63), None)
    if large is not None:
        raise TargetsError(
            f"{name} must be whole numbers from -2**63 to 2**63 - 1, got one of {large.bit_length()} bits: number the "
            f"classes from 0"
        )


def _masks(values: Any) -> NDArray[Any]:
    masks = as_array(values)
    if masks.dtype.kind not in "iub":
        raise TargetsError(
            f"masks must be {_EXAMPLES['masks']}, got {masks.dtype}: {_way_to_whole(masks)}"
        )
    if masks.ndim != 3:
        raise TargetsError(
            f"masks must be {_EXAMPLES['masks']}, got shape {list(masks.shape)}: "
            "give a single mask as mask[None]"
        )
    return masks
