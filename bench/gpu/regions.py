"""Steps about parts of JPEGs: regions decoded alone, and crops cut out of tiled files."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu import decoders
from bench.gpu.decoders import Decode, backends, middle, on_host
from bench.gpu.photographs import photographs
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, measure_rate
from dali_pipes.jpeg.tiling.add_restarts import add_restarts
from dali_pipes.jpeg.tiling.cut import cut_many
from gpu_aug import RandomResizedCrop, Recipe
from readers.image.restarts import restart_offsets


def regions(scale: Scale, data: Path, rows: Rows) -> None:
    """A region decoded alone beside that part of the whole, by DALI and by nvImageCodec. It may crash on a GPU."""
    encoded = photographs(data, next(iter(scale.pictures)), 8)
    makers = {"DALI": partial(decoders.dali, encoded, len(encoded), scale, jpeg_fancy_upsampling=True)}  # fmt: skip
    for backend in backends(scale):
        makers[backend] = partial(decoders.nvimgcodec, encoded, backend, scale)
    for name, make in makers.items():
        try:
            whole, region = make(), make(is_region=True)
            region()
        except RuntimeError as error:  # nvImageCodec's kernels decode no regions
            rows.leave_out(name, str(error))
            continue
        with rows.check(name) as row:
            judge(whole, region, row)


def judge(whole: Decode, region: Decode, row: Row) -> None:
    """Fill in a row: the largest difference of a region from that part of the whole image, of 255.

    Raises:
        AssertionError: There is one, or parts of other images pass for the same.
    """
    expected = [image[middle(*image.shape[:2])] for image in on_host(whole())]
    found = on_host(region())

    def gaps(others: Any) -> list[int]:
        return [int(np.abs(one - two).max()) for one, two in zip(found, others, strict=True)]

    row.judge(max(gaps(expected)), 0, control=min(gaps([*expected[1:], expected[0]])))


def tiles(scale: Scale, data: Path, rows: Rows) -> None:
    """Photographs whole, with restart markers, and cut to the crops of RandomResizedCrop, by DALI and nvImageCodec."""
    for size, (count, batch_size) in scale.pictures.items():
        plain = photographs(data, size, min(count, batch_size))
        tiled = [add_restarts(part) for part in plain]
        sizes = np.tile(np.array(size, np.int64), (len(plain), 1))
        crops = Recipe([RandomResizedCrop(224)]).draw(0, 0, np.arange(len(plain)), sizes).crops
        where = np.concatenate([crops.start, crops.shape], axis=1).astype(np.int32)
        cut = list(cut_many(tiled, where, [restart_offsets(part) for part in tiled]).data)
        for title, encoded in (("plain", plain), ("tiled", tiled), ("cut", cut)):
            for name in ("DALI", *backends(scale)[:2]):
                with rows.measure(f"{name}, {size[1]}x{size[0]}, {title}") as row:
                    if name == "DALI":
                        call = decoders.dali(encoded, len(encoded), scale, jpeg_fancy_upsampling=True)  # fmt: skip
                    else:
                        call = decoders.nvimgcodec(encoded, name, scale)
                    measure_rate(row, call, scale, discard=4, seconds=scale.seconds / 2)
