"""Pictures that say which they are: blocks of flat colours in front of a photograph, legible in any decoder."""

import io
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from bench.gpu_visit.photographs import photographs

SIDE = 64
"""Height and width in pixels at which codes are read."""

ILLEGIBLE = -2
"""Read where some block has none of the colours."""

_LEVELS, _LOWEST, _STEP = 4, 40, 58  # of 255
_FAR = 20  # from a level, of 255: JPEG, resampling and a GPU's decoder together stay below 6
_DIGITS = 12  # three channels of four blocks
_FACTOR = 2654435761  # odd, so that numbers below 4 ** 12 have different codes that are not alike


def code_of(number: int) -> int:
    """The code of a picture, less than 4 ** 12."""
    return int(number * _FACTOR % _LEVELS**_DIGITS)


def coded_pictures(data: Path, count: int) -> list[bytes]:
    """Encode pictures of many sizes around 120x160, most of them baseline JPEGs, some progressive, some PNG."""
    stills = [
        np.asarray(Image.open(io.BytesIO(one)).convert("RGB"))
        for one in photographs(data, (160, 213), 8)
    ]
    rng = np.random.default_rng(0)
    encoded = []
    for number in range(count):
        height, width = int(rng.integers(90, 161)), int(rng.integers(110, 214))
        picture = stills[number % len(stills)][:height, :width].copy()
        _paint(picture, code_of(number))
        stream = io.BytesIO()
        if number % 16 == 7:
            Image.fromarray(picture).save(stream, "PNG", compress_level=1)
        else:
            Image.fromarray(picture).save(stream, "JPEG", quality=90, progressive=number % 16 == 3)
        encoded.append(stream.getvalue())
    return encoded


def _paint(picture: NDArray[np.uint8], code: int) -> None:
    """Write a code into uint8 [height, width, 3]: a block in the middle of each quarter."""
    height, width = picture.shape[:2]
    digits = [code // _LEVELS**place % _LEVELS for place in range(_DIGITS)]
    colours = np.array(digits).reshape(2, 2, 3) * _STEP + _LOWEST
    for row in range(2):
        for column in range(2):
            top, left = (1 + 4 * row) * height // 8, (1 + 4 * column) * width // 8
            picture[top : top + height // 4, left : left + width // 4] = colours[row, column]


def read_codes(images: torch.Tensor) -> torch.Tensor:
    """Read the codes of float [B, 3, SIDE, SIDE] in [0, 1], int64 [B], on their device and without waiting for it."""
    middles = [slice(SIDE // 4 - 4, SIDE // 4 + 4), slice(3 * SIDE // 4 - 4, 3 * SIDE // 4 + 4)]
    blocks = [
        images[:, :, rows, columns].mean(dim=(2, 3)) for rows in middles for columns in middles
    ]
    values = torch.stack(blocks, dim=1).flatten(1) * 255  # [B, 12], channels innermost
    digits = ((values - _LOWEST) / _STEP).round().clamp(0, _LEVELS - 1)
    far = (values - (digits * _STEP + _LOWEST)).abs().amax(dim=1) > _FAR
    places = _LEVELS ** torch.arange(_DIGITS, device=images.device)
    codes = (digits.long() * places).sum(dim=1)
    return torch.where(far, ILLEGIBLE, codes)
