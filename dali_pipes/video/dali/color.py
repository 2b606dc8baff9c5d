"""Correcting the colours of frames that DALI converted with the wrong matrix: it uses BT.601 for all videos."""

from functools import cache

import torch

from dali_pipes.video.color import LUMA_WEIGHTS

_BT601 = 5


@cache
def correction(matrix: int) -> torch.Tensor | None:
    """Return what turns RGB that was made by BT.601 into what the video means, None where it is that.

    What BT.601 put beyond black or white was cut off and does not come back: strong colours differ by a little.

    Args:
        matrix: As `VideoInfo.matrix`.

    Returns:
        float32 [3, 3], times RGB.
    """
    if matrix not in LUMA_WEIGHTS or LUMA_WEIGHTS[matrix] == LUMA_WEIGHTS[_BT601]:
        return None
    meant, made = _to_rgb(*LUMA_WEIGHTS[matrix]), _to_rgb(*LUMA_WEIGHTS[_BT601])
    by: torch.Tensor = meant @ torch.linalg.inv(made)
    return by.float()


def _to_rgb(red: float, blue: float) -> torch.Tensor:
    """Times luma and chroma, of which blue and red chroma go from -0.5 to 0.5."""
    green = 1 - red - blue
    rows = [
        [1, 0, 2 * (1 - red)],
        [1, -2 * (1 - blue) * blue / green, -2 * (1 - red) * red / green],
        [1, 2 * (1 - blue), 0],
    ]
    return torch.tensor(rows, dtype=torch.float64)
