"""The samples of decoded frames, to compare them bit for bit before colours are converted."""

from typing import Any

import numpy as np


def planes(frame: Any) -> bytes:
    """All samples of an `av.VideoFrame`, without the memory that lies between its rows."""
    size_bytes = 2 if frame.format.name.endswith("le") else 1
    rows = []
    for plane in frame.planes:
        pixels = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
        rows.append(pixels[: plane.height, : plane.width * size_bytes].tobytes())
    return b"".join(rows)
