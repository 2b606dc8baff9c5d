"""Decode photographs, for measurements of what follows decoding."""

import numpy as np
from numpy.typing import NDArray

from bench.compare.images import require_sound
from dali_pipes.decode import opencv
from readers import Sample, open_dataset, read_header


def load_photographs(source: str, most: int) -> list[NDArray[np.uint8]]:
    """Return decoded photographs in their own sizes, uint8 [height, width, 3] each.

    Args:
        source: A source as for `readers.open_dataset`.
        most: Largest count of photographs.

    Raises:
        readers.ReadersError: The source cannot be opened or has no samples.
        BenchError: Nothing in the source decodes.
    """
    samples, _ = require_sound(source, open_dataset(source), most=most)
    return [decode(sample) for sample in samples]


def decode(sample: Sample) -> NDArray[np.uint8]:
    """Decode the full image of a sound sample: uint8 [height, width, 3]."""
    header = read_header(sample.image or b"")
    return opencv.decode(sample.image or b"", (header.height, header.width))
