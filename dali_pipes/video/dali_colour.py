"""Colours of frames that were made of luma and chroma by the wrong matrix: DALI takes BT.601 for all videos."""

from functools import cache

import torch

_BT601 = (0.299, 0.114)

# Shares of red and blue in luma by the numbers of ITU-T H.273; 2 is unknown, for which FFmpeg takes BT.601, too.
_BT2020 = (0.2627, 0.0593)
_SHARES = {1: (0.2126, 0.0722), 4: (0.30, 0.11), 7: (0.212, 0.087), 9: _BT2020, 10: _BT2020}


@cache
def correction(matrix: int) -> torch.Tensor | None:
    """Return what turns RGB that was made by BT.601 into what the video means, None where it is that.

    What BT.601 put beyond black or white was cut off and does not come back: strong colours differ by a little.

    Args:
        matrix: As `VideoInfo.matrix`.

    Returns:
        float32 [3, 3], times RGB.
    """
    if matrix not in _SHARES:
        return None
    meant, made = _to_rgb(*_SHARES[matrix]), _to_rgb(*_BT601)
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
