"""Steps: a region of each image, decoded alone and cut out of the whole. It may crash on a GPU."""

from functools import partial
from pathlib import Path

from bench.gpu import decoders
from bench.gpu.decoders import Decode, backends, judge_same, middle, on_host
from bench.gpu.photographs import photographs
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, measure_rate


def dali(scale: Scale, data: Path, rows: Rows) -> None:
    """By DALI, and how fast."""
    encoded = _photographs(scale, data)
    make = partial(decoders.dali, encoded, len(encoded), scale, jpeg_fancy_upsampling=True)
    with rows.check("DALI") as row:
        judge(make(), make(is_region=True), row)
    for name, is_region in (("whole", False), ("region", True)):
        with rows.measure(f"DALI, {name}") as row:
            measure_rate(row, make(is_region=is_region), scale, discard=4)


def nvimgcodec(scale: Scale, data: Path, rows: Rows) -> None:
    """By nvImageCodec, one backend after the other."""
    encoded = _photographs(scale, data)
    for backend in backends(scale):
        make = partial(decoders.nvimgcodec, encoded, backend, scale)
        with rows.check(backend) as row:
            judge(make(), make(is_region=True), row)


def _photographs(scale: Scale, data: Path) -> list[bytes]:
    return photographs(data, next(iter(scale.pictures)), 8)


def judge(whole: Decode, region: Decode, row: Row) -> None:
    """Fill in a row: the largest difference of a region from that part of the whole image, of 255.

    Raises:
        AssertionError: There is one, or parts of other images pass for the same.
    """
    expected = [image[middle(*image.shape[:2])] for image in on_host(whole())]
    judge_same(on_host(region()), expected, row)
