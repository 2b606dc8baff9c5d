"""Decoded images that are not RGB of 8 bits, checked and converted to what engines get."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_aug.errors import TargetsError
from gpu_aug.image_kind import ImageKind

_MODES = ("L", "LA", "RGB", "RGBA", "F")
_LARGEST = 65535
_WHOLE = {8: torch.uint8, 16: torch.uint16, "float32": None}


def read_pixels(kind: ImageKind, image: Any, where: str) -> tuple[Tensor, bool]:
    """Check an image, or a clip, of a kind.

    Args:
        kind: What it must be.
        image: An array or Pillow image [H, W, C], or a tensor [C, H, W]; of one channel [H, W] as well. A clip has a
            first axis more.
        where: Its name for people.

    Returns:
        [n, H, W, C], uint8 or float32, contiguous; and whether it is a clip.

    Raises:
        TargetsError: It is something else.
    """
    x = _with_channels_last(kind, _as_tensor(image, where), where, first=isinstance(image, Tensor))
    is_clip = x.ndim == 4
    values = _as_values(kind, x if is_clip else x[None], where)
    return values.contiguous(), is_clip


def scaled_16_bits(array: Any) -> Tensor:
    """Return values of uint16 divided by 65535, float32."""
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
    """Return [H, W, C], or [T, H, W, C]."""
    channels, shape = kind.channels, list(x.shape)
    if x.ndim == 2 and channels == 1:
        x = x[..., None]
    elif first and x.ndim in (3, 4) and shape[-3] == channels:
        x = x.movedim(-3, -1)
    if x.ndim not in (3, 4) or x.shape[-1] != channels or 0 in x.shape:
        form = f"[{channels}, H, W]" if first else f"[H, W, {channels}]"
        raise TargetsError(
            f"{where} must have the shape {form}, and a first axis more for clips, for {channels=}, got {shape}: "
            "give the number of channels that it has, or another image"
        )
    return x


def _as_values(kind: ImageKind, x: Tensor, where: str) -> Tensor:
    """Return uint8 as it is, uint16 in [0, 1], and floats."""
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
