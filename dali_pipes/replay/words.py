"""The drawn parameters of an operation in words and units that people use."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.ops.operation import Operation
from gpu_aug.ops.policy.space import BLENDS, PolicyBlend

_MOST_NUMBERS = 12  # of an array that is shown


def readable(
    operation: Operation, params: Mapping[str, NDArray[Any]], size: tuple[int, int]
) -> dict[str, Any]:
    """Return the parameters of one image by names that people know.

    Args:
        operation: A leaf of a recipe.
        params: What was drawn for the image, each with first axis 1.
        size: Height and width of the image as it reaches the operation.

    Returns:
        Numbers, texts, lists of numbers, and arrays as they were drawn. Places and sizes are in pixels, (top, left)
        and (height, width), angles in degrees, counter-clockwise.
    """
    found: dict[str, Any] = {}
    for name, values in params.items():
        value = values[0]
        if name == "apply" or _of_unchosen(name, params):
            continue
        if name == "matrix" and value.shape == (3, 3):
            found |= _move(value, size)
        elif name == "start":
            found["top, left"] = value.tolist()
        elif name in ("shape", "resize"):
            found["height, width" if name == "shape" else "resized to"] = value.tolist()
        elif name in ("transpose", "top_bottom", "left_right"):
            found |= {_FLIPS[name]: True} if value else {}
        elif name == "holes":
            found["holes (top, left, bottom, right)"] = value[value.any(axis=1)].tolist()
        elif name == "kind" and isinstance(operation, PolicyBlend):
            found["kind"] = BLENDS[int(value)]
        else:
            found[name] = value.item() if value.ndim == 0 else value
    return found


def in_words(found: Mapping[str, Any]) -> str:
    """Return readable parameters as a line."""
    return ", ".join(
        f"{name} {_short(value)}" if value is not True else name for name, value in found.items()
    )


_FLIPS = {
    "transpose": "transposed",
    "top_bottom": "top and bottom swapped",
    "left_right": "left and right swapped",
}


def _of_unchosen(name: str, params: Mapping[str, NDArray[Any]]) -> bool:
    """Whether a parameter is that of a part of the operation which this image does not get."""
    part, dot, _ = name.rpartition(".")
    return bool(dot) and (name.endswith(".apply") or not params[f"{part}.apply"][0])


def _move(matrix: NDArray[np.float64], size: tuple[int, int]) -> dict[str, Any]:
    """Describe a matrix between pixel indices (x, y), from the image before to the one after.

    A rotation after a shear after a scaling (the QR decomposition of its linear part), and where the centre goes.
    """
    if np.abs(matrix[2, :2]).max() > 1e-12:
        return {"projective matrix": matrix}
    (a, b), (c, d) = matrix[:2, :2].tolist()
    center = np.array([(size[1] - 1) / 2, (size[0] - 1) / 2, 1])
    shift = (matrix @ center)[:2] - center[:2]
    scale_x = math.hypot(a, c)
    if not scale_x:
        return {"matrix": matrix}
    scale_y = (a * d - b * c) / scale_x
    found = {
        "rotation": math.degrees(math.atan2(-c, a)),
        "scale (x, y)": [scale_x, scale_y],
        "shear": math.degrees(math.atan2(a * b + c * d, scale_x**2)),
        "centre moved (right, down)": shift.tolist(),
    }
    plain = {
        "rotation": [0],
        "scale (x, y)": [1, 1],
        "shear": [0],
        "centre moved (right, down)": [0, 0],
    }
    return {
        name: value
        for name, value in found.items()
        if not np.allclose(value, plain[name], atol=1e-9)
    }


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray):
        if value.size > _MOST_NUMBERS:
            return f"[{'x'.join(map(str, value.shape))}]"
        value = value.tolist()
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value[:_MOST_NUMBERS]))}{', ...' if len(value) > _MOST_NUMBERS else ''}]"
    return str(value)
