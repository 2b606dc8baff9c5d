"""Warnings about videos with unusual properties, to read before training."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORDS: Mapping[str, str] = {
    "variable rate": "stride= counts frames, fps= goes by time",
    "turned": "drawn upright",
    "interlaced": "frames are handed over as coded, not deinterlaced; where that matters do it beforehand",
    "several streams": "more than one of video; that which FFmpeg takes for the best is read",
    "slow": "each clip is read from the beginning of its file on; copy the streams to .mkv or .mp4",
}
"""What is peculiar, and what becomes of it."""


def count_peculiar(rows: NDArray[Any] | Mapping[str, Any]) -> dict[str, int]:
    """Count the unusual videos, by the keys of `WORDS`.

    Args:
        rows: Of `readers.video.store.ROW`, of videos that are sound; or of one video what is looked at, by the same
            names.
    """
    flags = {
        "variable rate": np.logical_not(rows["constant_rate"]),
        "turned": rows["rotation"] != 0,
        "interlaced": rows["interlaced"],
        "several streams": rows["num_streams"] > 1,
        "slow": rows["is_slow"],
    }
    return {name: int(np.count_nonzero(which)) for name, which in flags.items()}


def told(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Name and text of each line of a table, of those that there are."""
    return [(name, f"{counts[name]:,}: {words}") for name, words in WORDS.items() if counts[name]]
