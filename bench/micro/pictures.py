"""Decoded photographs of one size, for measurements that begin after the decoder."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray

from bench.compare.images import require_sound
from bench.compare.photographs import make_photographs
from dali_pipes.decode import opencv
from gpu_aug import RandomResizedCrop, Recipe
from gpu_aug.resampling.crop_and_resize import resample
from readers import Sample, open_dataset, read_header


def load_pictures(source: str | None, count: int, side: int) -> NDArray[np.uint8]:
    """Decode photographs, cut random crops out of them and bring those to one size.

    Args:
        source: A source as for `readers.open_dataset`; None takes the photographs that scikit-image ships.
        count: How many; the photographs are repeated where there are fewer, with other crops.
        side: Height and width in pixels.

    Returns:
        uint8 [count, side, side, 3].

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: Nothing there decodes, or there is no source and no scikit-image.
    """
    if source is not None:
        return _cut(require_sound(source, open_dataset(source), most=count)[0], count, side)
    with TemporaryDirectory(prefix="gpu-aug-") as folder:
        make_photographs(Path(folder), per_class=4)
        return load_pictures(folder, count, side)


def _cut(samples: list[Sample], count: int, side: int) -> NDArray[np.uint8]:
    headers = [read_header(sample.image or b"") for sample in samples]
    sizes = np.array([(header.height, header.width) for header in headers], np.int64)
    rows = np.arange(count) % len(samples)
    draws = Recipe([RandomResizedCrop(side)]).draw(0, 0, np.arange(count), sizes[rows])
    pictures = torch.empty(count, side, side, 3, dtype=torch.uint8)
    decoded = [
        torch.from_numpy(opencv.decode(sample.image or b"", (header.height, header.width)))
        for sample, header in zip(samples, headers, strict=True)
    ]
    for row in range(count):
        resample(decoded[rows[row]], draws.crops, row, pictures[row])
    return pictures.numpy()
