"""Steps about parts of JPEGs: regions decoded alone, restart markers, and crops cut out of tiled files."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.gpu import decoders
from bench.gpu.decoders import Decode, backends, judge_same, middle, on_host
from bench.gpu.photographs import photographs
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, Size, measure_rate
from dali_pipes.jpeg.tiling.add_restarts import add_restarts
from dali_pipes.jpeg.tiling.cut import cut_many
from gpu_aug import RandomResizedCrop, Recipe
from readers.image.restarts import restart_offsets

_SHARES = (0.5, 0.25)  # of each side
_DALI = "DALI"


def regions_of_dali(scale: Scale, data: Path, rows: Rows) -> None:
    """A region decoded alone beside that part of the whole, by DALI, and how fast. It may crash on a GPU."""
    encoded = _photographs(scale, data)
    make = partial(decoders.dali, encoded, len(encoded), scale, jpeg_fancy_upsampling=True)
    with rows.check("DALI") as row:
        judge_region(make(), make(is_region=True), row)
    for name, is_region in (("whole", False), ("region", True)):
        with rows.measure(f"DALI, {name}") as row:
            measure_rate(row, make(is_region=is_region), scale, discard=4)


def regions_of_nvimgcodec(scale: Scale, data: Path, rows: Rows) -> None:
    """The same by nvImageCodec, one backend after the other. It may crash on a GPU."""
    encoded = _photographs(scale, data)
    for backend in backends(scale):
        make = partial(decoders.nvimgcodec, encoded, backend, scale)
        with rows.check(backend) as row:
            judge_region(make(), make(is_region=True), row)


def _photographs(scale: Scale, data: Path) -> list[bytes]:
    return photographs(data, next(iter(scale.pictures)), 8)


def judge_region(whole: Decode, region: Decode, row: Row) -> None:
    """Fill in a row: the largest difference of a region from that part of the whole image, of 255.

    Raises:
        AssertionError: There is one, or parts of other images pass for the same.
    """
    expected = [image[middle(*image.shape[:2])] for image in on_host(whole())]
    judge_same(on_host(region()), expected, row)


def restarts(scale: Scale, data: Path, rows: Rows) -> None:
    """Files with restart markers beside the same files without, in every decoder."""
    for size in scale.pictures:
        plain = photographs(data, size, 4)
        tiled = [add_restarts(part) for part in plain]
        for name in (*backends(scale), _DALI):
            with rows.check(f"{name}, {size[1]}x{size[0]}") as row:
                expected, found = (
                    on_host(_decoder(name, part, scale)()) for part in (plain, tiled)
                )
                judge_same(found, expected, row)


def tiles(scale: Scale, data: Path, rows: Rows) -> None:
    """Photographs whole, with restart markers, and cut to several crops, by every decoder."""
    for size, (count, batch_size) in scale.pictures.items():
        parts = _parts(size, photographs(data, size, min(count, batch_size)))
        num_bytes = {part: sum(map(len, encoded)) for part, encoded in parts.items()}
        for name in (*backends(scale)[:2], _DALI):
            plain = None
            for part, encoded in parts.items():
                with rows.measure(f"{name}, {size[1]}x{size[0]}, {part}") as row:
                    row.facts["share of the bytes"] = round(num_bytes[part] / num_bytes["plain"], 3)
                    call = _decoder(name, encoded, scale)
                    measure_rate(row, call, scale, discard=4, seconds=scale.seconds / 2)
                    plain = plain or row.value
                    row.facts["times the plain file"] = round((row.value or 0) / (plain or 1), 2)


def _decoder(name: str, encoded: list[Any], scale: Scale) -> Decode:
    if name == _DALI:
        return decoders.dali(encoded, len(encoded), scale, jpeg_fancy_upsampling=True)
    return decoders.nvimgcodec(encoded, name, scale)


def _parts(size: Size, plain: list[bytes]) -> Mapping[str, list[Any]]:
    """The same photographs whole, with restart markers, and cut to crops of several sizes."""
    tiled = [add_restarts(part) for part in plain]
    offsets = [restart_offsets(part) for part in tiled]
    crops = {f"cut to {share} of each side": _crops(size, share, len(plain)) for share in _SHARES}
    crops["cut by RandomResizedCrop"] = _random_resized_crops(size, len(plain))
    cuts = {name: list(cut_many(tiled, where, offsets).data) for name, where in crops.items()}
    return {"plain": list(plain), "tiled": list(tiled), **cuts}


def _crops(size: Size, share: float, count: int) -> NDArray[np.int32]:
    """Crops of a share of each side, int32 [count, 4]: where they begin, and their size."""
    rng = np.random.default_rng(0)
    shape = np.maximum(np.round(np.array(size) * share), 1).astype(int)
    starts = rng.integers(0, np.array(size) - shape + 1, (count, 2))
    return np.concatenate([starts, np.tile(shape, (count, 1))], axis=1).astype(np.int32)


def _random_resized_crops(size: Size, count: int) -> NDArray[np.int32]:
    sizes = np.tile(np.array(size, np.int64), (count, 1))
    crops = Recipe([RandomResizedCrop(224)]).draw(0, 0, np.arange(count), sizes).crops
    return np.concatenate([crops.start, crops.shape], axis=1).astype(np.int32)
