"""Steps: how fast whole JPEGs are decoded, by which decoder of the GPU."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu.decoders import backends, dali, nvimgcodec, on_host, torchvision
from bench.gpu.photographs import photographs
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, Size, measure_rate

HARDWARE_LOADS = (0.0, 0.65, 0.9, 1.0)
"""Shares for the GPU's JPEG engine: 0.65 is DALI's default, 0 decodes with CUDA alone."""

_MEAN_MAX = 3.0  # of 255: decoders round in their own ways, and upsample chroma in two
_CONTROL_MIN = 10.0  # between photographs that differ


def decode(scale: Scale, data: Path, rows: Rows) -> None:
    """Each decoder on photographs of each size; a decoder with wrong pixels gets no rate.

    That a row of nvImageCodec is what its name says can be seen in the percents of the JPEG engine: 0 for all but HW_GPU_ONLY.
    """
    _measure(scale, data, rows, scale.pictures)


def large(scale: Scale, data: Path, rows: Rows) -> None:
    """The same on photographs of 12 megapixels."""
    few = {(3000, 4000): (12, 16)} if scale.on_gpu else {(300, 400): (2, 2)}
    _measure(scale, data, rows, few)


def _measure(
    scale: Scale, data: Path, rows: Rows, pictures: Mapping[Size, tuple[int, int]]
) -> None:
    for size, (count, batch_size) in pictures.items():
        encoded = photographs(data, size, count)
        bits = 8 * sum(map(len, encoded)) / count / (size[0] * size[1])
        batch = [encoded[number % count] for number in range(batch_size)]
        for name, make in _decoders(batch, scale):
            title = f"{name}, {size[1]}x{size[0]}"
            with rows.measure(title) as row:
                row.facts |= {"batch_size": batch_size, "bits per pixel": round(bits, 2)}
                call = make()
                row.facts["mean difference"] = difference(call(), batch)
                measure_rate(row, call, scale, discard=4)


def _decoders(batch: list[bytes], scale: Scale) -> Iterator[tuple[str, Any]]:
    options: dict[str, Any] = {"jpeg_fancy_upsampling": True}
    for load in HARDWARE_LOADS if scale.on_gpu else (None,):
        options["hw_decoder_load"] = load
        yield f"DALI, load {load}", partial(dali, batch, len(batch), scale, **options)
    for backend in backends(scale):
        yield f"nvImageCodec, {backend}", partial(nvimgcodec, batch, backend, scale)
    yield "torchvision", partial(torchvision, batch, scale)


def difference(decoded: Any, encoded: list[bytes]) -> float:
    """Mean difference of the first four images from OpenCV's, of 255.

    Raises:
        AssertionError: They are not those pictures, or the pictures cannot be told from each other.
    """
    images = [image[::4] for image in on_host(decoded)[:4]]
    expected = [_by_opencv(part)[::4] for part in encoded[:4]]
    gaps = [np.abs(one - other).mean() for one, other in zip(images, expected, strict=True)]
    others = zip(images, [*expected[1:], expected[0]], strict=True)
    control = float(np.mean([np.abs(one - other).mean() for one, other in others]))
    mean = float(np.mean(gaps))
    assert mean <= _MEAN_MAX, f"pixels differ from OpenCV's by {mean:.1f} on average, {_MEAN_MAX} is allowed"  # fmt: skip
    assert control >= _CONTROL_MIN, f"control: other pictures differ by {control:.1f} alone"
    return round(mean, 4)


def _by_opencv(encoded: bytes) -> Any:
    import cv2

    decoded: Any = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
    return decoded[..., ::-1].astype(np.int16)
