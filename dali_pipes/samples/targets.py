"""Masks, boxes, keypoints and maps of an image: read them from a sample, move them with the image, and batch them."""

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.samples.maps import MapReader
from dali_pipes.samples.mask_files import AS_STORED, read_mask, read_meaning
from dali_pipes.samples.read_field import FieldError, read_field
from gpu_aug import Draws, Recipe
from gpu_aug.errors import TargetsError
from gpu_aug.targets.box_formats import in_format
from gpu_aug.targets.maps import move_maps
from gpu_aug.targets.move_batch import check_targets, move_batch
from gpu_aug.targets.targets import Targets
from gpu_aug.upload import upload
from readers.formats.boxes.checks import OTHER_NAMES, require_stated_size, stated_length
from readers.formats.columns import LABEL_LIMIT, shorten
from readers.sample import MASK_VALUES, Payload, mask_number

Kind = Literal["masks", "boxes", "keypoints"]
KINDS: tuple[str, ...] = get_args(Kind)

# Names in the field json -> kind of target and name in Targets.
_NAMES = {
    "boxes": ("boxes", "boxes"),
    "labels": ("boxes", "box_labels"),
    "box_labels": ("boxes", "box_labels"),
    "box_format": ("boxes", "box_format"),
    "keypoints": ("keypoints", "keypoints"),
    "keypoint_labels": ("keypoints", "keypoint_labels"),
}
_KINDS_IN_JSON = ("boxes", "keypoints")

# JSON that probably contains boxes in an unsupported form: an object that has them under another name, or a list.
_MISPLACED_BOXES = re.compile(
    rf'\s*\[|.*?"({"|".join(OTHER_NAMES)})"\s*:'.encode(), re.DOTALL | re.IGNORECASE
)

# One object for all samples without targets, so that a batch of them is recognised by identity.
_NO_TARGETS = Targets()


@dataclass(frozen=True, slots=True)
class SampleTargets:
    """The targets and maps of one sample.

    Attributes:
        targets: The masks, boxes and keypoints; empty if the sample has none.
        numbered: Whether the masks are numbered fields, so that samples may have different counts of masks.
        maps: The layers of all maps, float32 [M, height, width]; None if the loader reads no maps.
    """

    targets: Targets = _NO_TARGETS
    numbered: bool = False
    maps: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class TargetReader:
    """Reads targets from the fields of a sample. All targets are in the coordinates of the upright image.

    Masks are integer PNGs of one channel with the image's size; for a palette PNG, the indices are used. There is one
    field `mask.png` or `seg.png`, or several: `mask.0.png`, `mask.1.png` and so on. GIF, BMP and TIFF are read, too
    (see `read_mask`), and a field `mask_values.json` gives the classes of values. All other targets are in the field
    `json`: {"boxes": [[x, y, x, y], ...], "labels": [1, ...], "keypoints": [[x, y], ...], "keypoint_labels": [0, ...]}.
    Other names in it are ignored, except ``width`` and ``height``, which must be those of the image. "box_format" names
    the form of the boxes, as BoxParams does; without it they have the recipe's form. Readers of annotations write
    "xyxy", or "xyxyxyxy" for oriented boxes. A batch has the recipe's form.

    Args:
        recipe: Determines the form of boxes and keypoints.
        kinds: Kinds of targets to read ("masks", "boxes", "keypoints"); other kinds are ignored.
        maps: Reads the maps.
    """

    recipe: Recipe
    kinds: frozenset[str]
    maps: MapReader = field(default_factory=MapReader)

    def wants(self, fields: Mapping[str, Payload]) -> bool:
        """Return whether a sample may have targets, judged by the names of its fields."""
        return bool(self.maps) or (bool(self.kinds) and any(map(self._may_hold, fields)))

    def reads(self, name: str) -> bool:
        """Return whether a field of this name may be read."""
        return self.maps.reads(name) or self._may_hold(name)

    def _may_hold(self, name: str) -> bool:
        """Return whether a field of this name may contain masks, boxes or keypoints."""
        is_target = name in ("json", MASK_VALUES) or mask_number(name) is not None
        return bool(self.kinds) and is_target

    def read(self, fields: Mapping[str, Payload], size: tuple[int, int]) -> SampleTargets:
        """Return the targets of a sample.

        Args:
            fields: Encoded bytes by field name.
            size: Height and width of the upright image.

        Raises:
            TargetsError: The targets cannot be read, or do not fit the image.
        """
        found = self._read_targets(fields, size)
        return replace(found, maps=self.maps.read(fields, size)) if self.maps else found

    def read_boxes(
        self, fields: Mapping[str, Payload], size: tuple[int, int]
    ) -> NDArray[np.float64]:
        """Return the boxes of a sample in the format of the recipe; none if they cannot be read, which `read` reports.

        Args:
            fields: Encoded bytes by field name.
            size: Height and width of the upright image.
        """
        reader = replace(self, kinds=frozenset({"boxes"}))
        try:
            boxes = reader._read_targets(fields, size, only_boxes=True).targets.boxes
        except TargetsError:
            boxes = None
        return np.empty((0, 4)) if boxes is None else boxes

    def _read_targets(
        self, fields: Mapping[str, Payload], size: tuple[int, int], *, only_boxes: bool = False
    ) -> SampleTargets:
        read: dict[str, Any] = {}
        if "json" in fields:
            read = read_field(fields, "json", partial(self._read_json, size))
        names = _mask_fields(fields) if "masks" in self.kinds else []
        if names:
            read["masks"] = _read_masks(fields, names, size)
        if not read:
            return SampleTargets()
        form = read.pop("box_format", None)
        targets = Targets(**read)
        if form is not None and targets.boxes is not None:
            boxes = in_format(targets.boxes, form, self.recipe.boxes, size)
            targets = replace(targets, boxes=boxes)
        check_targets(self.recipe, targets, size, only_boxes=only_boxes)
        return SampleTargets(targets, numbered=bool(names) and mask_number(names[0]) != -1)

    def _read_json(self, size: tuple[int, int], data: Payload) -> dict[str, Any]:
        """Parse the field json; return the arguments of Targets that it gives, and the "box_format" if it has one."""
        text = bytes(data)
        if _is_cut_off(text):
            raise FieldError("it is empty, cut off or not UTF-8")
        # Many datasets store other things in their json; such JSON is not parsed, so it cannot make a sample bad.
        kinds = self.kinds.intersection(_KINDS_IN_JSON)
        wanted = {kind for kind in kinds if f'"{kind}"'.encode() in text}
        read = _parse_json(text, wanted, size) if wanted else {}
        if self.recipe.boxes is not None and "boxes" not in read:
            _warn_of_misplaced_boxes(text)
        return read


def move(
    recipe: Recipe,
    draws: Draws,
    row_targets: Sequence[SampleTargets],
    keys: Sequence[str],
    vectors: Sequence[int] = (),
) -> list[SampleTargets]:
    """Return the targets of some samples, cropped, flipped and warped like their images by a recipe.

    Args:
        recipe: The recipe.
        draws: The draws of the samples.
        row_targets: The targets of the samples, as read.
        keys: Keys of the samples, for error messages.
        vectors: Indices of the layers of `SampleTargets.maps` at which a map of vectors begins.

    Raises:
        RecipeError: The recipe cannot move targets of these kinds.
        TargetsError: The recipe mixes samples, and a sample has a kind of target that its partner lacks.
    """
    maps = [
        None if own.maps is None else move_maps(recipe, draws, row, own.maps, vectors)
        for row, own in enumerate(row_targets)
    ]
    targets: Sequence[Targets] = [own.targets for own in row_targets]
    if any(targets):
        try:
            # A sample without masks and boxes is one without objects.
            separate = [own.numbered or own.targets.masks is None for own in row_targets]
            targets = move_batch(recipe, draws, targets, separate_masks=separate)
        except TargetsError as error:
            raise TargetsError(f"{error}; the samples are {', '.join(keys)}") from error
    # Mixing gives a sample without masks those of its partners.
    numbered = any(own.numbered for own in row_targets)
    return [
        SampleTargets(moved, own.numbered or numbered, of_row)
        for moved, own, of_row in zip(targets, row_targets, maps, strict=True)
    ]


def collate(
    row_targets: Sequence[SampleTargets], size: tuple[int, int], device: torch.device
) -> dict[str, Any]:
    """Return the targets of a batch by their names in Batch, for all kinds that occur.

    Args:
        row_targets: Targets of each sample, as returned by `move`.
        size: Height and width of the images.
        device: Device of the tensors.
    """
    targets = [own.targets for own in row_targets]
    if all(own is _NO_TARGETS for own in targets):
        return {}
    columns = next((own.boxes.shape[1] for own in targets if own.boxes is not None), 4)
    boxes, points = ([getattr(own, name) for own in targets] for name in ("boxes", "keypoints"))
    return {
        "masks": _masks(row_targets, size, device),
        "boxes": _listed(boxes, (columns,), np.float32, device),
        "box_labels": _labels(targets, "boxes", "box_labels", device),
        "keypoints": _listed(points, (2,), np.float32, device),
        "keypoint_labels": _labels(targets, "keypoints", "keypoint_labels", device),
    }


def collate_nothing(
    examples: Sequence[SampleTargets], size: tuple[int, int], device: torch.device
) -> dict[str, Any]:
    """Return the targets of a batch without rows: the kinds of targets that other batches have, with 0 rows.

    Args:
        examples: Targets of samples of the data that together have every kind.
        size: Height and width of the images.
        device: Device of the tensors.
    """
    names = {name for example in examples for name in example.targets.names}
    empty: dict[str, Any] = {name: [] for name in names}
    if "masks" in names and not any(example.numbered for example in examples):
        empty["masks"] = torch.empty((0, *size), dtype=torch.int64, device=device)
    return empty


def _mask_fields(fields: Mapping[str, Payload]) -> list[str]:
    """Return the names of a sample's mask fields, ordered by number.

    Raises:
        TargetsError: The sample has several mask fields, and not all of their names have a number.
    """
    numbers = {name: number for name in fields if (number := mask_number(name)) is not None}
    names = sorted(numbers, key=numbers.__getitem__)
    if len(names) > 1 and numbers[names[0]] < 0:
        raise TargetsError(
            f"a sample must have one mask, or masks that all have numbers, got {', '.join(names)}"
        )
    return names


def _read_masks(
    fields: Mapping[str, Payload], names: Sequence[str], size: tuple[int, int]
) -> NDArray[np.int32]:
    """Return the classes of some masks, int32 [M, height, width]."""
    meaning = (
        read_field(fields, MASK_VALUES, read_meaning) if fields.get(MASK_VALUES) else AS_STORED
    )
    read_one = partial(read_mask, size=size, meaning=meaning)
    return np.stack([read_field(fields, name, read_one) for name in names])


def _parse_json(text: bytes, wanted: set[str], size: tuple[int, int]) -> dict[str, Any]:
    stored = json.loads(text)
    if not isinstance(stored, dict):
        return {}
    height, width = (stated_length(stored.get(side), side) for side in ("height", "width"))
    require_stated_size((height, width), size, "json")
    read = {
        name: stored[key]
        for key, (kind, name) in _NAMES.items()
        if kind in wanted and stored.get(kind) is not None and stored.get(key) is not None
    }
    for key, name in (("labels", "box_labels"), ("keypoint_labels", "keypoint_labels")):
        if name in read and not _are_classes(read[name]):
            raise FieldError(
                f"{key} must be a list of whole numbers from -2**63 to 2**63 - 1, got {shorten(read[name])}"
            )
    return read


def _warn_of_misplaced_boxes(text: bytes) -> None:
    """Warn about JSON with boxes under another name; Python shows the warning once."""
    if match := _MISPLACED_BOXES.match(text):
        what = f"has {match[1].decode()!r} and no 'boxes'" if match[1] else "is a list, no object"
        warnings.warn(
            f"the json of a sample {what}, so that its picture counts as one without boxes: write "
            '{"boxes": [[left, top, right, bottom], ...], "labels": [0, ...]}',
            UserWarning,
            stacklevel=2,
        )


def _is_cut_off(text: bytes) -> bool:
    """Return whether JSON is truncated, judged by its ends; the missing part may contain the names of targets."""
    ends = {b"{": b"}", b"[": b"]"}
    inner = text.strip()
    return not inner or b"\0" in inner or not inner.endswith(ends.get(inner[:1], b""))


def _are_classes(labels: Any) -> bool:
    """Return whether labels are a list of integers in the range of int64."""
    return isinstance(labels, list) and all(
        type(label) is int and -LABEL_LIMIT <= label < LABEL_LIMIT for label in labels
    )


def _masks(
    row_targets: Sequence[SampleTargets], size: tuple[int, int], device: torch.device
) -> torch.Tensor | list[torch.Tensor] | None:
    masks = [own.targets.masks for own in row_targets]
    if any(own.numbered for own in row_targets):
        return _listed(masks, size, np.int64, device)
    if all(mask is None for mask in masks):
        return None
    missing = np.full((1, *size), -1)
    layers = [missing if mask is None else mask for mask in masks]
    return upload(torch.from_numpy(np.concatenate(layers).astype(np.int64)), device)


def _labels(
    targets: Sequence[Targets], owners: str, name: str, device: torch.device
) -> list[torch.Tensor] | None:
    labels = [getattr(own, name) for own in targets]
    if all(label is None for label in labels):
        return None
    owned = [getattr(own, owners) for own in targets]
    numbers = [0 if one is None else len(one) for one in owned]
    if any(number and label is None for number, label in zip(numbers, labels, strict=True)):
        warnings.warn(
            f"some samples of a batch have {owners} without classes, which get -1: write labels for all of them, or for none",
            UserWarning,
            stacklevel=2,
        )
    filled = [
        np.full(number, -1) if label is None else label
        for label, number in zip(labels, numbers, strict=True)
    ]
    return _listed(filled, (), np.int64, device)


def _listed(
    arrays: Sequence[NDArray[Any] | None],
    shape: tuple[int, ...],
    dtype: type[np.generic],
    device: torch.device,
) -> list[torch.Tensor] | None:
    """Return one tensor ``[Ni, *shape]`` per sample, uploaded together; None if no sample has an array."""
    if all(array is None for array in arrays):
        return None
    empty = np.empty((0, *shape), dtype)
    filled = [empty if array is None else array.astype(dtype) for array in arrays]
    joined = upload(torch.from_numpy(np.concatenate(filled)), device)
    return list(torch.split(joined, [len(array) for array in filled]))
