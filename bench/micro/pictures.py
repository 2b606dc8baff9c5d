"""Decoded photographs of one size, for measurements that begin after the decoder."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray

from bench.cli.errors import BenchError
from bench.compare.photographs import make_photographs
from dali_pipes.decode import opencv
from dali_pipes.preview.sound import sound_samples
from gpu_aug import RandomResizedCrop, Recipe
from gpu_aug.resampling.decoded import resample
from readers import Sample, open_dataset, read_header


def load_pictures(source: str | None, count: int, side: int) -> NDArray[np.uint8]:
    """Decode photographs, cut random windows out of them and bring those to one size.

    Args:
        source: Whatever `readers.open_dataset` takes; None takes the photographs that scikit-image ships.
        count: How many; the photographs are repeated where there are fewer, with other windows.
        side: Height and width in pixels.

    Returns:
        uint8 [count, side, side, 3].

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: Nothing there decodes, or there is no source and no scikit-image.
    """
    if source is not None:
        return _cut(_sound(source, count), count, side)
    with TemporaryDirectory(prefix="gpu-aug-") as folder:
        make_photographs(Path(folder), per_class=4)
        return _cut(_sound(folder, count), count, side)


def _sound(source: str, count: int) -> list[Sample]:
    samples, left_out = sound_samples(open_dataset(source), most=count)
    if not samples:
        raise BenchError(f"{source} has no image that decodes, for example {left_out[0]}")
    return samples


def _cut(samples: list[Sample], count: int, side: int) -> NDArray[np.uint8]:
    headers = [read_header(sample.image or b"") for sample in samples]
    sizes = np.array([(header.height, header.width) for header in headers], np.int64)
    rows = np.arange(count) % len(samples)
    draws = Recipe([RandomResizedCrop(side)]).draw(0, 0, np.arange(count), sizes[rows])
    pictures = torch.empty(count, side, side, 3, dtype=torch.uint8)
    decoded: dict[int, torch.Tensor] = {}
    for row in range(count):
        place = int(rows[row])
        if place not in decoded:
            size = (int(sizes[place, 0]), int(sizes[place, 1]))
            decoded[place] = torch.from_numpy(opencv.decode(samples[place].image or b"", size))
        resample(decoded[place], draws.windows, row, pictures[row])
    return pictures.numpy()
