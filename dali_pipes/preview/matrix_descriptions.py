"""Describe in words what a matrix does to positions (turned, scaled, sheared, moved) or to colours."""

import math

import numpy as np
from numpy.typing import NDArray

_SMALL = 1e-6  # rounding in the product of matrices
_CHANNELS = ("red", "green", "blue")


def warp_words(matrix: NDArray[np.float64], size: tuple[int, int], after: tuple[int, int]) -> str:
    """Describe how a picture is turned, scaled, sheared and moved.

    Args:
        matrix: [3, 3], from the image before to the image after, in pixel indices; see Warp.
        size: Height and width before.
        after: Height and width after.

    Returns:
        The largest distance that a corner moves if the matrix has perspective; otherwise the shear, the factors, the
        angle and the movement of the center, in the order in which they are applied, without those that change nothing.
    """
    if np.abs(matrix[2, :2]).max() > _SMALL:
        bottom, right = size[0] - 1, size[1] - 1
        corners = np.array([[0, 0, 1], [right, 0, 1], [0, bottom, 1], [right, bottom, 1.0]])
        moved = corners @ matrix.T
        way = np.linalg.norm(moved[:, :2] / moved[:, 2:] - corners[:, :2], axis=1)
        return f"perspective, corners moved by up to {way.max():.0f} px"
    words = _linear_words(matrix[:2, :2])
    middle = (np.array(size[::-1]) - 1) / 2
    moved = matrix[:2, :2] @ middle + matrix[:2, 2] - (np.array(after[::-1]) - 1) / 2
    right, down = moved.tolist()
    way = [
        f"{abs(pixels):.1f} px {plus if pixels > 0 else minus}"
        for pixels, plus, minus in ((right, "right", "left"), (down, "down", "up"))
        if abs(pixels) >= 0.05
    ]
    if way:
        words.append(f"moved {' and '.join(way)}")
    if after != size:
        words.append(f"to {after[0]} x {after[1]}")
    return ", ".join(words) or "left as it is"


def _linear_words(linear: NDArray[np.float64]) -> list[str]:
    """Describe the shear, the factors and the angle of a matrix [2, 2]."""
    (across, shear), (down_by, down) = linear.tolist()
    if abs(across - 1) + abs(shear) + abs(down - 1) < _SMALL and abs(down_by) > _SMALL:
        return [f"sheared down by {math.degrees(math.atan(down_by)):+.1f}°"]
    turn = math.atan2(down_by, across)  # clockwise, since y points down
    cos, sin = math.cos(turn), math.sin(turn)
    width = math.hypot(across, down_by)
    height, skew = cos * down - sin * shear, cos * shear + sin * down
    words = []
    if abs(skew) > _SMALL and height:
        words.append(f"sheared across by {math.degrees(math.atan(skew / height)):+.1f}°")
    if abs(width - 1) > _SMALL or abs(height - 1) > _SMALL:
        alike = abs(width - height) < 1e-3 * width
        words.append(f"scaled x{width:.2f}" + ("" if alike else f" across, x{height:.2f} down"))
    if abs(turn) > _SMALL:
        side = "clockwise" if turn > 0 else "counter-clockwise"
        words.append(f"turned {abs(math.degrees(turn)):.1f}° {side}")
    return words


def color_words(matrix: NDArray[np.float64]) -> str:
    """Describe what a matrix does to colours; "" if it mixes channels.

    Args:
        matrix: [3, 4], from (red, green, blue, 1), each in [0, 1], to red, green and blue.
    """
    linear, shift = matrix[:, :3], matrix[:, 3]
    gains = np.diag(linear)
    if np.abs(linear - np.diag(gains)).max() > _SMALL:
        order = linear.argmax(axis=1)
        if np.array_equal(linear, np.eye(3)[order]) and not shift.any():
            return f"RGB becomes {''.join('RGB'[place] for place in order.tolist())}"
        return ""
    filled = [name for name, gain in zip(_CHANNELS, gains, strict=True) if gain == 0]
    if filled:
        return f"{' and '.join(filled)} filled with one value"
    words = []
    for name, values, plain, form in (
        ("factor", gains, 1.0, "x{:.2f}"),
        ("shift", 255 * shift, 0.0, "{:+.0f}/255"),
    ):
        if np.abs(values - plain).max() < _SMALL:
            continue
        if np.ptp(values) < _SMALL:
            words.append(f"{name} {form.format(values[0])}")
        else:
            words.append(
                ", ".join(
                    f"{channel} {form.format(value)}"
                    for channel, value in zip(_CHANNELS, values, strict=True)
                )
            )
    return ", ".join(words) or "left as they are"
