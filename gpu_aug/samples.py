"""Samples that are passed directly to a recipe: their checks and conversion to one form."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_aug.errors import TargetsError
from gpu_aug.image_kind import USUAL, ImageKind
from gpu_aug.names import closest
from gpu_aug.targets.targets import Targets, as_array

# Keys of a sample.
KEYS = (
    *("image", "images", "mask", "masks", "boxes", "box_labels"),
    *("keypoints", "keypoint_labels", "label", "extra"),
)
# Keys of other libraries, without a number at the end -> what to do with the value.
_MEANT = {
    **dict.fromkeys(("bbox", "bboxes"), "give it as 'boxes'"),
    "labels": "give labels of boxes as 'box_labels'",
    "image": "give more images as 'images', a list or dictionary",
    "mask": "give several masks as 'masks'",
}
# Modes of Pillow images that are accepted beside those of 16 bits.
_MODES = ("L", "LA", "RGB", "RGBA", "F")
# Of 16 bits.
_LARGEST = 65535
# Depth -> the integer type of its images.
_WHOLE = {8: torch.uint8, 16: torch.uint16, "float32": None}


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample after its checks.

    Attributes:
        frames: All images and frames of the sample, [H, W, C] each, uint8 or float32.
        shapes: Number of frames of each image, by key or (key, name); None for an image that is not a clip.
        size: Height and width of the images.
        targets: Boxes, keypoints, masks and their labels.
        rest: The other values of the sample, by key.
    """

    frames: list[Tensor]
    shapes: dict[Any, int | None]
    size: tuple[int, int]
    targets: Targets
    rest: dict[str, Any]


def read_sample(sample: Any, number: int, kind: ImageKind = USUAL) -> Sample:
    """Check a sample with images of ``kind``, and return it in one form.

    Raises:
        TargetsError: The sample is invalid; the error names it by ``number``.
    """
    where = _check_keys(sample, number)
    frames: list[Tensor] = []
    shapes: dict[Any, int | None] = {}
    for key, image in _images(sample, where).items():
        name = key if isinstance(key, str) else f"{key[0]}[{key[1]!r}]"
        read = _read_image if kind.is_usual else partial(read_pixels, kind)
        clip, is_clip = read(image, f"{where}: {name}")
        if frames and clip[0].shape != frames[0].shape:
            raise TargetsError(
                f"{where}: {name} must be as large as the sample's first image, "
                f"{_times(frames[0])}, got {_times(clip[0])}: give it as a sample of its own"
            )
        shapes[key] = len(clip) if is_clip else None
        frames += list(clip)
    height, width = frames[0].shape[:2]
    return Sample(frames, shapes, (height, width), *_read_values(sample, where))


def read_without_image(sample: Mapping[str, Any], number: int, size: tuple[int, int]) -> Sample:
    """Check a sample with one image of ``size`` that is rendered by other means; see `read_sample`. It has no frames."""
    where = _check_keys(sample, number)
    return Sample([], {"image": None}, size, *_read_values(sample, where))


def _check_keys(sample: Any, number: int) -> str:
    """Return the name of a sample in errors."""
    where = f"sample {number}"
    if not isinstance(sample, Mapping):
        raise TargetsError(f"{where} must be a dictionary, got {type(sample).__name__}")
    unknown = [key for key in sample if key not in KEYS]
    if unknown:
        raise TargetsError(
            f"{where}: keys must be of {', '.join(KEYS)}, got {unknown[0]!r}: {_way_to_key(unknown[0])}, or put what shall pass "
            "unchanged under 'extra'"
        )
    return where


def _way_to_key(key: Any) -> str:
    """Return what to do with a value under a key that is not one of KEYS."""
    if meant := _MEANT.get(str(key).rstrip("0123456789")):
        return meant
    near = closest(key, KEYS) if isinstance(key, str) else None
    return f"correct it to {near!r}" if near else "correct it"


def _read_values(sample: Mapping[str, Any], where: str) -> tuple[Targets, dict[str, Any]]:
    """Return the targets of a sample, and its other values that are no images."""
    try:
        targets = _read_targets(sample, where)
    except TargetsError as error:
        text = str(error)
        raise TargetsError(text if text.startswith(where) else f"{where}: {text}") from error
    named = ("mask", "masks", "label", "extra")
    return targets, {name: sample[name] for name in named if name in sample}


def _images(sample: Mapping[str, Any], where: str) -> dict[Any, Any]:
    """Return all images of a sample, by key, (key, index) or (key, name)."""
    found = {"image": sample["image"]} if "image" in sample else {}
    more = sample.get("images")
    if isinstance(more, Mapping):
        found |= {("images", str(name)): image for name, image in more.items()}
    elif more is not None:
        if not isinstance(more, list | tuple):
            raise TargetsError(
                f"{where}: images must be a list of images or a dictionary of them, got "
                f"{type(more).__name__}: give a clip as image"
            )
        found |= {("images", number): image for number, image in enumerate(more)}
    if not found:
        raise TargetsError(f"{where} must have an image, got {sorted(sample)}: give it as 'image'")
    return found


def _read_image(image: Any, where: str) -> tuple[Tensor, bool]:
    """Return an image or clip as [n, H, W, 3], uint8 or float32, contiguous, and whether it is a clip."""
    is_tensor = isinstance(image, Tensor)
    if is_tensor:
        x = image.as_subclass(Tensor).detach().cpu()
    else:
        if hasattr(image, "getbands") and image.getbands() not in (("R", "G", "B"), ("L",)):
            raise TargetsError(
                f"{where} must be RGB or gray, got Pillow mode {image.mode!r}: {_way_to_rgb(image)}"
            )
        array = np.array(image) if hasattr(image, "getbands") else np.asarray(image)
        if array.dtype.kind not in "uif" or array.dtype.name == "float128":
            raise TargetsError(f"{where} must be uint8 or float in [0, 1], got {array.dtype}")
        if not array.flags.writeable or min(array.strides, default=0) < 0:
            array = array.copy()  # torch warns of the one and refuses the other
        x = torch.from_numpy(np.ascontiguousarray(array))
    shape = list(x.shape)
    if is_tensor and x.ndim >= 3:
        # Tensors are usually [3, H, W]; [H, W, 3] is accepted if [3, H, W] is impossible.
        if shape[-3] in (1, 3):
            x = x.movedim(-3, -1)
        elif shape[-1] not in (1, 3):
            x = x.movedim(-3, -1)  # refused below, in the order of the error's text
    x = x[..., None] if x.ndim == 2 else x
    if x.ndim not in (3, 4) or x.shape[-1] not in (1, 3) or 0 in x.shape:
        alpha = (
            ": leave its alpha channel out, or paint what is transparent; gpu_aug.apply(..., channels=4) keeps it"
            if x.ndim in (3, 4) and x.shape[-1] == 4
            else ": gpu_aug.apply(..., channels=) takes images with others than three"
        )
        form = "[3, H, W]" if is_tensor else "[H, W, 3]"
        raise TargetsError(
            f"{where} must have the shape {form}, one channel for gray images, and one more first axis "
            f"for clips, got {shape}{alpha}"
        )
    if x.is_floating_point():
        x = x.float()
        low, high = (float(end) for end in x.aminmax())
        if not (low >= 0 and high <= 1):  # NaN too
            raise TargetsError(
                f"{where} must be uint8, or float in [0, 1], got float from {low:g} to {high:g}: "
                "divide 0..255 by 255, and give images as they are before Normalize"
            )
    elif x.dtype != torch.uint8:
        raise TargetsError(
            f"{where} must be uint8 or float in [0, 1], got {str(x.dtype).removeprefix('torch.')}: "
            "divide it by its largest possible value, convert values from 0 to 255 to uint8, or call gpu_aug.apply(..., depth=16) "
            "with uint16"
        )
    is_clip = x.ndim == 4
    x = x if is_clip else x[None]
    return x.expand(*x.shape[:3], 3).contiguous(), is_clip


def _read_targets(sample: Mapping[str, Any], where: str) -> Targets:
    layers = []
    if sample.get("mask") is not None:
        mask = as_array(sample["mask"])
        if mask.ndim != 2:
            raise TargetsError(
                f"{where}: mask must be [H, W], got shape {list(mask.shape)}: give several as masks"
            )
        layers.append(mask[None])
    if sample.get("masks") is not None:
        layers.append(as_array(sample["masks"]))
        if layers[-1].ndim == 3 and len({layer.shape[1:] for layer in layers}) > 1:
            raise TargetsError(f"{where}: mask and masks must be of one size")
    if len({layer.dtype for layer in layers}) > 1:
        raise TargetsError(
            f"{where}: mask and masks must have one type, got {[str(x.dtype) for x in layers]}: "
            f"give both as {np.result_type(*layers)}"
        )
    names = ("boxes", "box_labels", "keypoints", "keypoint_labels")
    masks = np.concatenate(layers) if layers else None
    return Targets(**{name: sample.get(name) for name in names}, masks=masks)


def _way_to_rgb(image: Any) -> str:
    """Return a sentence on how to convert a Pillow image of another mode to RGB, and what is lost."""
    if image.mode[0] in "IF":  # I, I;16, F: convert() would cut everything above 255 off
        return (
            "divide its values by the largest possible one, such as np.asarray(image) / 4095 of 12 bits, or call "
            "gpu_aug.apply with depth=16 or depth='float32' and channels=1"
        )
    if image.getbands()[-1] in ("A", "a") or "transparency" in image.info:
        return (
            "paste it on a background, use image.convert('RGB'), which leaves transparency out, or call gpu_aug.apply with "
            "channels=4"
        )
    return "use image.convert('RGB')"


def _times(frame: Tensor) -> str:
    return f"{frame.shape[0]}x{frame.shape[1]}"


def read_pixels(kind: ImageKind, image: Any, where: str) -> tuple[Tensor, bool]:
    """Check an image or a clip, and return its frames.

    Args:
        kind: Kind that the image must have.
        image: An array or Pillow image [H, W, C], or a tensor [C, H, W]; with one channel [H, W] is accepted too. A clip has one
            more axis in front.
        where: Name of the image in errors.

    Returns:
        The frames [n, H, W, C], uint8 or float32, contiguous; and whether the image is a clip.

    Raises:
        TargetsError: The image is of another kind.
    """
    x = _with_channels_last(kind, _as_tensor(image, where), where, first=isinstance(image, Tensor))
    is_clip = x.ndim == 4
    values = _as_values(kind, x if is_clip else x[None], where)
    return values.contiguous(), is_clip


def scaled_16_bits(array: Any) -> Tensor:
    """Return uint16 values divided by 65535, as float32."""
    values = np.asarray(array, np.uint16).astype(np.float32)
    values /= np.float32(_LARGEST)
    return torch.from_numpy(values)


def _as_tensor(image: Any, where: str) -> Tensor:
    if isinstance(image, Tensor):
        return image.as_subclass(Tensor).detach().cpu()
    if hasattr(image, "getbands"):
        if image.mode not in _MODES and not image.mode.startswith("I;16"):
            raise TargetsError(
                f"{where} must be one of Pillow's modes {', '.join(_MODES)} and I;16, got {image.mode!r}: convert it"
            )
        image = np.array(image)
    array = np.asarray(image)
    if array.dtype.newbyteorder("=") not in map(np.dtype, ("u1", "u2", "f2", "f4", "f8")):
        raise TargetsError(f"{where} must be uint8, uint16 or float, got {array.dtype}: convert it")
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C", copy=True))


def _with_channels_last(kind: ImageKind, x: Tensor, where: str, *, first: bool) -> Tensor:
    """Return an image as [H, W, C], or a clip as [T, H, W, C]."""
    channels, shape = kind.channels, list(x.shape)
    if x.ndim == 2 and channels == 1:
        x = x[..., None]
    elif first and x.ndim in (3, 4) and shape[-3] == channels:
        x = x.movedim(-3, -1)
    if x.ndim not in (3, 4) or x.shape[-1] != channels or 0 in x.shape:
        form = f"[{channels}, H, W]" if first else f"[H, W, {channels}]"
        raise TargetsError(
            f"{where} must have the shape {form}, and one more first axis for clips, for {channels=}, got {shape}: "
            "give the number of channels that it has, or another image"
        )
    return x


def _as_values(kind: ImageKind, x: Tensor, where: str) -> Tensor:
    """Return uint8 images unchanged, uint16 images divided by 65535, and floating-point images as float32."""
    whole = _WHOLE[kind.depth]
    got = str(x.dtype).removeprefix("torch.")
    if x.dtype == whole:
        return scaled_16_bits(x.numpy()) if kind.depth == 16 else x
    if not x.is_floating_point():
        allowed = (
            "float" if whole is None else f"{str(whole).removeprefix('torch.')} or float in [0, 1]"
        )
        raise TargetsError(
            f"{where} must be {allowed} for depth={kind.depth!r}, got {got}: give the depth that it has, or convert it"
        )
    x = x.float()
    if whole is not None:
        low, high = (float(end) for end in x.aminmax())
        if not (low >= 0 and high <= 1):  # NaN too
            raise TargetsError(
                f"{where} must be float in [0, 1] for depth={kind.depth!r}, got float from {low:g} to {high:g}: divide "
                "it by its largest possible value, or give depth='float32'"
            )
    return x
