"""What belongs to an image and moves with it: read from a sample's fields, moved, put into a batch."""

import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.samples.maps import MapReader
from dali_pipes.samples.mask_files import read_mask
from gpu_aug import Draws, Recipe
from gpu_aug.errors import TargetsError
from gpu_aug.targets.boxes import in_format
from gpu_aug.targets.maps import move_maps
from gpu_aug.targets.move_batch import check_targets, move_batch
from gpu_aug.targets.targets import Targets
from gpu_aug.upload import upload
from readers.formats.boxes.checks import OTHER_NAMES, require_stated_size, stated_length
from readers.formats.columns import LABEL_LIMIT
from readers.sample import MASK_VALUES, Payload, mask_number

Kind = Literal["masks", "boxes", "keypoints"]
KINDS: tuple[str, ...] = get_args(Kind)

# Names in the field json -> names in Targets, by kind.
_NAMES = {
    "boxes": {
        "boxes": "boxes",
        "labels": "box_labels",
        "box_labels": "box_labels",
        "box_format": "box_format",
    },
    "keypoints": {"keypoints": "keypoints", "keypoint_labels": "keypoint_labels"},
}


# JSON whose boxes are not found: an object that has them under another name, or a list.
_OTHERWISE = re.compile(
    rf'\s*\[|.*?"({"|".join(OTHER_NAMES)})"\s*:'.encode(), re.DOTALL | re.IGNORECASE
)

_NONE = Targets()


@dataclass(frozen=True, slots=True)
class Found:
    """The targets of one sample.

    Attributes:
        targets: Empty where there are none.
        numbered: Whether its masks have numbers, so that there may be any number of them.
        maps: float32 [M, height, width]; None where none are read.
    """

    targets: Targets = _NONE
    numbered: bool = False
    maps: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class TargetReader:
    """Reads targets from the fields of a sample. All are in the coordinates of the upright image.

    Masks are integer PNGs of one channel and the image's size, of a palette PNG the numbers of its
    colours: one `mask.png` or `seg.png`, or several `mask.0.png`, `mask.1.png` and so on; GIF, BMP and TIFF
    are taken as well (see `read_mask`), and a field `mask_values.json` says what values mean. The rest stands
    in the field `json`: {"boxes": [[x, y, x, y], ...], "labels": [1, ...], "keypoints": [[x, y], ...],
    "keypoint_labels": [0, ...]}, other names in it do not count but ``width`` and ``height``, which must be those of the image.
    Boxes have the form that "box_format" names, as BoxParams does, and the recipe's where it is missing; readers of
    annotations say "xyxy". A batch has the recipe's form.

    Args:
        recipe: Says how boxes and keypoints are written down.
        kinds: What is read; anything else is passed over.
        maps: Reads the maps.
    """

    recipe: Recipe
    kinds: frozenset[str]
    maps: MapReader = field(default_factory=MapReader)

    def wants(self, fields: Mapping[str, Payload]) -> bool:
        """Whether a sample may have targets; asking is cheap."""
        return bool(self.maps) or (bool(self.kinds) and any(map(self._may_hold, fields)))

    def reads(self, name: str) -> bool:
        """Whether a field of this name may be looked at."""
        return self.maps.reads(name) or self._may_hold(name)

    def _may_hold(self, name: str) -> bool:
        """Whether a field of this name may hold masks, boxes or keypoints."""
        is_target = name in ("json", MASK_VALUES) or mask_number(name) is not None
        return bool(self.kinds) and is_target

    def read(self, fields: Mapping[str, Payload], size: tuple[int, int]) -> Found:
        """Read the targets of a sample.

        Args:
            fields: Encoded bytes by field name.
            size: Height and width of the upright image.

        Raises:
            TargetsError: They cannot be read, or do not fit the image.
        """
        found = self._read_targets(fields, size)
        return replace(found, maps=self.maps.read(fields, size)) if self.maps else found

    def _read_targets(self, fields: Mapping[str, Payload], size: tuple[int, int]) -> Found:
        read = _read_json(fields["json"], self.kinds, size) if "json" in fields else {}
        if self.recipe.boxes is not None and "json" in fields and read.get("boxes") is None:
            _warn_without_boxes(bytes(fields["json"]))
        masks = {}
        if "masks" in self.kinds:
            masks = {name: number for name in fields if (number := mask_number(name)) is not None}
        if not read and not masks:
            return Found()
        names = sorted(masks, key=lambda name: masks[name])
        numbered = any(number >= 0 for number in masks.values())
        if len(names) > 1 and (not numbered or masks[names[0]] < 0):
            raise TargetsError(f"masks must be one, or all have numbers, got {', '.join(names)}")
        if names:
            meaning = fields.get(MASK_VALUES, b"")
            read["masks"] = np.stack(
                [read_mask(name, fields[name], size, meaning) for name in names]
            )
        form = read.pop("box_format", None)
        targets = Targets(**read)
        if form is not None and targets.boxes is not None:
            boxes = in_format(targets.boxes, form, self.recipe.boxes, size)
            targets = replace(targets, boxes=boxes)
        check_targets(self.recipe, targets, size)
        return Found(targets, numbered)


class BatchTargets(TypedDict, total=False):
    """The targets of a batch; see Batch."""

    masks: torch.Tensor | list[torch.Tensor] | None
    boxes: list[torch.Tensor] | None
    box_labels: list[torch.Tensor] | None
    keypoints: list[torch.Tensor] | None
    keypoint_labels: list[torch.Tensor] | None


def move(
    recipe: Recipe,
    draws: Draws,
    found: Sequence[Found],
    keys: Sequence[str],
    vectors: Sequence[int] = (),
) -> list[Found]:
    """Return the targets of some samples as a recipe moves them.

    Args:
        recipe: The recipe.
        draws: What was drawn for them.
        found: Their targets.
        keys: Their names for people.
        vectors: The first layers of maps of vectors.

    Raises:
        RecipeError: The recipe cannot move what there is.
        TargetsError: The recipe mixes samples of which one has what another lacks.
    """
    found = [
        one
        if one.maps is None
        else replace(one, maps=move_maps(recipe, draws, row, one.maps, vectors))
        for row, one in enumerate(found)
    ]
    if not any(one.targets for one in found):
        return found
    try:
        moved = move_batch(recipe, draws, [one.targets for one in found])
    except TargetsError as error:
        raise TargetsError(f"{error}; the samples are {', '.join(keys)}") from error
    return [replace(one, targets=targets) for one, targets in zip(found, moved, strict=True)]


def collate(found: Sequence[Found], size: tuple[int, int], device: torch.device) -> BatchTargets:
    """Put the targets of a batch together, as far as there are any; see Batch.

    Args:
        found: Targets of each sample, moved.
        size: Height and width of the images.
        device: Where the tensors shall lie.
    """
    targets = [one.targets for one in found]
    if all(one is _NONE for one in targets):
        return {}
    boxes = _listed([one.boxes for one in targets], (4,), np.float32, device)
    points = [one.keypoints for one in targets]
    return {
        "masks": _masks(found, size, device),
        "boxes": boxes,
        "box_labels": _labels(targets, "boxes", "box_labels", device),
        "keypoints": _listed(points, (2,), np.float32, device),
        "keypoint_labels": _labels(targets, "keypoints", "keypoint_labels", device),
    }


def collate_nothing(
    examples: Sequence[Found], size: tuple[int, int], device: torch.device
) -> BatchTargets:
    """Return the targets of a batch that has no row: as of a batch of samples that have targets, with 0 rows.

    Args:
        examples: Targets of samples of the data, of every kind that there is.
        size: Height and width of the images.
        device: Where the tensors shall lie.
    """
    resized = []
    for one in examples:
        masks = one.targets.masks
        layers = None if masks is None else np.zeros((len(masks), *size), np.int64)
        resized.append(replace(one, targets=replace(one.targets, masks=layers)))
    together: Any = collate(resized, size, device)
    return cast(
        BatchTargets, {name: one if one is None else one[:0] for name, one in together.items()}
    )


def _read_json(data: Payload, kinds: Iterable[str], size: tuple[int, int]) -> dict[str, Any]:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TargetsError(f"json is {type(data).__name__}: a dataset hands fields over as bytes")
    text = bytes(data)
    # Many data sets keep other things in their json, which is not parsed here and cannot be wrong.
    if _is_cut_off(text):
        raise TargetsError("json is empty, cut off or not UTF-8")
    wanted = [kind for kind in _NAMES if kind in kinds and f'"{kind}"'.encode() in text]
    if not wanted:
        return {}
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TargetsError(f"json cannot be read: {error}") from error
    if not isinstance(stored, dict):
        return {}
    try:
        height, width = (stated_length(stored.get(side), side) for side in ("height", "width"))
        require_stated_size((height, width), size, "json")
    except ValueError as error:
        raise TargetsError(str(error)) from None
    read = {
        name: stored[key]
        for kind in wanted
        if stored.get(kind) is not None
        for key, name in _NAMES[kind].items()
        if stored.get(key) is not None
    }
    for key, name in (("labels", "box_labels"), ("keypoint_labels", "keypoint_labels")):
        if name in read and not _is_whole(read[name]):
            raise TargetsError(
                f"{key} must be a list of whole numbers from -2**63 to 2**63 - 1, got {_short(read[name])}"
            )
    return read


def _warn_without_boxes(text: bytes) -> None:
    """Warn of JSON that looks as if boxes were meant, though there are none of that name; Python says it once."""
    if found := _OTHERWISE.match(text):
        what = f"has {found[1].decode()!r} and no 'boxes'" if found[1] else "is a list, no object"
        warnings.warn(
            f"the json of a sample {what}, so that its picture counts as one without boxes: write "
            '{"boxes": [[left, top, right, bottom], ...], "labels": [0, ...]}',
            UserWarning,
            stacklevel=2,
        )


def _is_cut_off(text: bytes) -> bool:
    """Whether json cannot be whole, by its ends: a cut may have taken the names that are looked for."""
    ends = {b"{": b"}", b"[": b"]"}
    inner = text.strip()
    return not inner or b"\0" in inner or not inner.endswith(ends.get(inner[:1], b""))


def _is_whole(labels: Any) -> bool:
    """Whether labels are a list of whole numbers that int64 holds."""
    return isinstance(labels, list) and all(
        type(label) is int and -LABEL_LIMIT <= label < LABEL_LIMIT for label in labels
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _masks(
    found: Sequence[Found], size: tuple[int, int], device: torch.device
) -> torch.Tensor | list[torch.Tensor] | None:
    masks = [one.targets.masks for one in found]
    if any(one.numbered for one in found):
        return _listed(masks, size, np.int64, device)
    if all(mask is None for mask in masks):
        return None
    missing = np.full((1, *size), -1)
    layers = [missing if mask is None else mask for mask in masks]
    return upload(torch.from_numpy(np.concatenate(layers).astype(np.int64)), device)


def _labels(
    targets: Sequence[Targets], owners: str, name: str, device: torch.device
) -> list[torch.Tensor] | None:
    labels = [getattr(one, name) for one in targets]
    if all(label is None for label in labels):
        return None
    numbers = [0 if (own := getattr(one, owners)) is None else len(own) for one in targets]
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
    """Return one tensor [Ni, *shape] each, which share one upload; None where nobody has any."""
    if all(array is None for array in arrays):
        return None
    empty = np.empty((0, *shape), dtype)
    filled = [empty if array is None else array.astype(dtype) for array in arrays]
    joined = upload(torch.from_numpy(np.concatenate(filled)), device)
    return list(torch.split(joined, [len(array) for array in filled]))
