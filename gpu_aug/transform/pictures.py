"""Conversions of the images that a transform takes and returns: arrays, tensors and Pillow images."""

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.engines.fused.prepared import Move

Kind = Literal["array", "tensor", "image", "pillow"]

_PIXEL = (3, 1)  # strides of columns and channels in bytes
_LEFT_RIGHT, _TOP_BOTTOM, _TRANSPOSE = 0, 1, 5  # PIL.Image.Transpose


def kind_of(image: Any) -> Kind:
    """Return the kind of an image.

    "image" is torchvision's class tv_tensors.Image; everything that is neither a tensor nor a Pillow image is "array".
    """
    if isinstance(image, Tensor):
        return "image" if type(image).__module__ == "torchvision.tv_tensors._image" else "tensor"
    return "pillow" if hasattr(image, "getbands") else "array"


def plain_size(image: Any) -> tuple[int, int] | None:
    """Return height and width of an image that is plain 8-bit RGB on the CPU, or None for other images.

    Args:
        image: A plain image is uint8 [H, W, 3] as an array, uint8 [3, H, W] as a tensor, or a Pillow image of mode RGB.
    """
    if isinstance(image, np.ndarray):
        plain = image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and image.size
        return image.shape[:2] if plain else None
    if isinstance(image, Tensor):
        plain = image.dtype == torch.uint8 and image.ndim == 3 and image.shape[0] == 3
        plain = plain and image.device.type == "cpu" and image.numel()
        return (image.shape[1], image.shape[2]) if plain else None
    if getattr(image, "mode", None) == "RGB":
        return image.height, image.width
    return None


def as_pixels(image: Any) -> NDArray[np.uint8]:
    """Return an image that has a `plain_size` as uint8 [H, W, 3], contiguous within each row.

    The result may share the image's memory.
    """
    if isinstance(image, Tensor):
        planes = image.numpy(force=True)
        pixels = planes.transpose(1, 2, 0)
        if pixels.strides[1:] != _PIXEL:
            import cv2

            pixels = cv2.merge([np.ascontiguousarray(plane) for plane in planes])
        return pixels
    pixels = np.asarray(image)
    fits = pixels.strides[1:] == _PIXEL and pixels.strides[0] > 0
    return pixels if fits else np.ascontiguousarray(pixels)


def moved(
    image: Any, kind: Kind, start: tuple[int, int], move: Move, *, is_own: bool = False
) -> Any:
    """Return a plain image cropped, flipped and transposed, as an image of its kind in its own memory.

    Args:
        image: A plain image; see `plain_size`.
        kind: Kind of the image.
        start: Top and left in the image from which the crop of ``move`` is counted.
        move: The crop, the flips and the transposition.
        is_own: Whether an array is nobody else's, so that it need not be copied if nothing changes.
    """
    (top, left, height, width), rows, columns, transposed = move
    top, left = start[0] + top, start[1] + left
    if kind in ("tensor", "image"):
        part = image[:, top : top + height, left : left + width]
        dims = [dim for dim, reverse in ((1, rows), (2, columns)) if reverse]
        part = part.flip(dims) if dims else part.clone(memory_format=torch.contiguous_format)
        part = part.transpose(1, 2).contiguous() if transposed else part
        return finished(part, kind, "uint8", gray=False)
    if kind == "pillow":
        part = image.crop((left, top, left + width, top + height))
        turns = ((columns, _LEFT_RIGHT), (rows, _TOP_BOTTOM), (transposed, _TRANSPOSE))
        for wanted, turn in turns:
            part = part.transpose(turn) if wanted else part
        return part
    part = image[top : top + height, left : left + width]
    if not (rows or columns or transposed):
        return np.ascontiguousarray(part) if is_own else part.copy()
    import cv2

    if rows or columns:
        part = cv2.flip(part, -1 if rows and columns else int(columns))
    return cv2.transpose(part) if transposed else part  # NumPy's copy takes 18 times as long


def room_for(kind: Kind, size: tuple[int, int], dtype: str) -> tuple[Any, NDArray[Any]]:
    """Return uninitialised memory for a result of a kind, and that memory seen as an array [h, w, 3].

    Its values are uint8 or, for all other dtypes of the result, float32.
    """
    stored = np.uint8 if dtype == "uint8" else np.float32
    if kind in ("tensor", "image"):
        planes = np.empty((3, *size), stored)
        return torch.from_numpy(planes), planes.transpose(1, 2, 0)
    out = np.empty((*size, 3), stored)
    return out, out


def as_given(image: Tensor, kind: Kind, dtype: str, *, gray: bool) -> Any:
    """Convert float32 images [..., 3, H, W] to an image of a kind.

    Args:
        image: The images; values must lie in [0, 1] if ``dtype`` is "uint8".
        kind: Kind of the result.
        dtype: Dtype of the result's values; "uint8" for a Pillow image.
        gray: Whether the result has one channel.
    """
    image = as_dtype(image, dtype)
    if kind in ("tensor", "image"):
        return finished(image, kind, dtype, gray=gray)
    array = np.ascontiguousarray(image.movedim(-3, -1).cpu().numpy())
    return finished(array, kind, dtype, gray=gray)


def as_dtype(image: Tensor, dtype: str) -> Tensor:
    """Return float32 images with another dtype; for uint8 they are scaled to 255 and rounded."""
    if dtype == "uint8":
        return (image * 255).round_().clamp_(0, 255).to(torch.uint8)
    return image.to(getattr(torch, dtype))


def finished(result: Any, kind: Kind, dtype: str, *, gray: bool) -> Any:
    """Return a tensor [..., 3, H, W] or an array [..., H, W, 3] as an image of a kind; see `as_given`."""
    if kind in ("tensor", "image"):
        result = (result[..., :1, :, :] if gray else result).to(getattr(torch, dtype))
        if kind == "image":
            from torchvision.tv_tensors import Image as TorchvisionImage

            return TorchvisionImage(result)
        return result
    result = (
        result[..., 0] if gray else result
    )  # gray images of Albumentations and Pillow have no axis of channels
    if kind == "pillow":
        from PIL import Image

        return Image.fromarray(result)
    return result.astype(dtype, copy=False)
