"""Make decoded photographs of one size, for measurements of what follows decoding."""

import numpy as np
import torch
from numpy.typing import NDArray

from bench.compare.images import require_sound
from dali_pipes.decode import opencv
from gpu_aug import RandomResizedCrop, Recipe
from gpu_aug.resampling.crop_and_resize import resample
from readers import Sample, open_dataset, read_header


def load_pictures(source: str, count: int, side: int) -> NDArray[np.uint8]:
    """Return random crops of decoded photographs, resized to one size.

    Args:
        source: A source as for `readers.open_dataset`.
        count: Count of pictures; if there are fewer photographs, they are repeated with other crops.
        side: Height and width in pixels.

    Returns:
        uint8 [count, side, side, 3].

    Raises:
        readers.ReadersError: The source cannot be opened or has no samples.
        BenchError: Nothing in the source decodes.
    """
    decoded = load_photographs(source, count)
    rows = np.arange(count) % len(decoded)
    sizes = np.array([image.shape[:2] for image in decoded], np.int64)[rows]
    draws = Recipe([RandomResizedCrop(side)]).draw(0, 0, np.arange(count), sizes)
    pictures = torch.empty(count, side, side, 3, dtype=torch.uint8)
    for row in range(count):
        resample(torch.from_numpy(decoded[rows[row]]), draws.crops, row, pictures[row])
    return pictures.numpy()


def load_photographs(source: str, most: int) -> list[NDArray[np.uint8]]:
    """Return decoded photographs in their own sizes: uint8 [height, width, 3] each, at most `most`; see `load_pictures`."""
    samples, _ = require_sound(source, open_dataset(source), most=most)
    return [decode(sample) for sample in samples]


def decode(sample: Sample) -> NDArray[np.uint8]:
    """Decode the full image of a sound sample: uint8 [height, width, 3]."""
    header = read_header(sample.image or b"")
    return opencv.decode(sample.image or b"", (header.height, header.width))
