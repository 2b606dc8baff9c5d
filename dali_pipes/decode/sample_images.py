"""The decode stage of images that are not one RGB image of 8 bits: other kinds, or several of a sample."""

from typing import Any

import torch
from numpy.typing import NDArray

from dali_pipes.decode import opencv
from dali_pipes.decode.stored import decode_stored
from dali_pipes.errors import DecodeError
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.samples.targets import Found
from dali_pipes.stages.canvases import Canvases
from dali_pipes.stages.data import NOTHING, Decoded, Fetched
from dali_pipes.stages.fetch import Fetcher
from gpu_aug.errors import TargetsError
from gpu_aug.resampling.crop_and_resize import resample
from readers import HeaderError, Sample, read_header


def render_images(fetcher: Fetcher, fetched: Fetched, canvases: Canvases, _start: int) -> Decoded:
    """Decode all images of some rows and render their canvases; see threads.Render."""
    found, rows = [], fetched
    for row in range(len(fetched)):
        one, targets = _render_row(fetcher, fetched, canvases, row)
        found.append(targets)
        if one is not fetched:
            rows = rows.replaced(row, one)
    return Decoded(rows, found)


def decode_images(images: ImageFields, sample: Sample, size: tuple[int, int]) -> list[NDArray[Any]]:
    """Decode all images of a sample, which must have one size.

    Returns:
        Of each, [height, width, channels], uint8 or float32; see decode_stored.

    Raises:
        DecodeError: One does not decode, is of another kind, or has another size than the first.
    """
    decoded = []
    payloads = images.payloads(sample)
    first = next(iter(payloads))
    for name, data in payloads.items():
        try:
            if name != first:
                _require_size(read_header(data).height, read_header(data).width, size, first)
            usual = images.kind.is_usual
            decoded.append(
                opencv.decode(data, size) if usual else decode_stored(data, size, images.kind)
            )
        except (DecodeError, HeaderError) as error:
            raise DecodeError(f"{name}: {error}" if images.names else str(error)) from error
    return decoded


def _require_size(height: int, width: int, size: tuple[int, int], first: str) -> None:
    if (height, width) != size:
        raise DecodeError(
            f"it is {height}x{width}, but {first} is {size[0]}x{size[1]}: the images of a sample must have one size"
        )


def _render_row(
    fetcher: Fetcher, fetched: Fetched, canvases: Canvases, row: int
) -> tuple[Fetched, Found]:
    """Render a row: the rows as they were given or, where it is bad, the only row that takes its place."""
    one, of_row = fetched, row
    while (sample := one.samples[of_row]) is not None:
        height, width = one.sizes[of_row].tolist()
        try:
            images = decode_images(fetcher.images, sample, (height, width))
            targets = fetcher.read_targets(one, of_row)
        except (DecodeError, TargetsError) as error:
            one, of_row = fetcher.lose(one, of_row, error), 0
            continue
        for number, image in enumerate(images):
            outs = canvases.of(row, one.draws, of_row, number)
            for drawn, out in zip(one.draws, outs, strict=True):
                resample(torch.from_numpy(image), drawn.crops, of_row, out)
        return one, targets
    canvases.blacken(row, one.draws, of_row)
    return one, NOTHING
