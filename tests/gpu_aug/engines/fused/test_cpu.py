"""The fused engine's kernels on the CPU, against NumPy in float64."""

from typing import Any

import numpy as np
import pytest
import torch

from gpu_aug.engines.fused.compile.program import Border, Kind, Program, Stage
from gpu_aug.engines.fused.cpu import run as cpu_run
from gpu_aug.engines.fused.cpu.memory import CACHE_LINE
from gpu_aug.engines.fused.cpu.run import DTYPES, run_program
from tests.support.programs import by_cpu, make_program

SIZE, SOURCE = (21, 26), (23, 31)
FREE, UNIT = [-np.inf] * 3 + [np.inf] * 3, [0, 0, 0, 1, 1, 1]


def noise(dtype: torch.dtype) -> torch.Tensor:
    """Random pixels [1, *SOURCE, 3]; those of float32 lie between the whole steps."""
    rng = np.random.default_rng(0)
    if dtype == torch.uint8:
        return torch.from_numpy(rng.integers(0, 256, (1, *SOURCE, 3), dtype=np.uint8))
    return torch.from_numpy(rng.random((1, *SOURCE, 3), dtype=np.float32))


@pytest.mark.parametrize("border", [Border.CONSTANT, Border.EDGE])
def test_a_point_that_is_no_number_is_beside_the_frame_between(border):
    """Column 3 of the result shows the point 0 / 0."""
    back = [1, 0, -3.5, 0, 0, 2, 1, 0, -3.5]
    fields = {"kind": Kind.BILINEAR, "border": border, "fill": [0.1, 0.5, 0.9]}
    program = make_program(1, SIZE, SOURCE, back=back, frame=[14, 17], **fields)
    out = torch.empty(1, 3, *SIZE)

    run_program(program, noise(torch.uint8), None, out)

    assert (out[0, :, :, 3] == torch.tensor([[0.1], [0.5], [0.9]])).all()
    assert out.isfinite().all()


def aligned(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Zeros that begin with a cache line."""
    values = torch.zeros(int(np.prod(shape)) + CACHE_LINE, dtype=dtype)
    start = -values.data_ptr() % CACHE_LINE // dtype.itemsize
    return values[start : start + int(np.prod(shape))].view(shape)


def chain(rng: np.random.Generator, length: int) -> list[tuple[Stage, Any]]:
    """Stages without a threshold, in any order, with limits or without."""
    stages: list[tuple[Stage, Any]] = []
    for _ in range(length):
        code = rng.choice(
            [Stage.SCALE, Stage.SCALE, Stage.MATRIX, Stage.CONTRAST, Stage.HUE, Stage.HOLES]
        )
        limits = FREE if rng.random() < 0.5 else UNIT
        factors = rng.uniform(-0.2, 1.6, 3)
        shifts = rng.choice([0.0, 0.1, -0.2], 3)
        if code == Stage.SCALE:
            values = [*np.column_stack([np.diag(factors), shifts]).ravel(), *limits]
        elif code == Stage.MATRIX:
            weights = rng.dirichlet(np.ones(3), 3) * rng.uniform(0.5, 1.3)
            values = [*np.column_stack([weights, shifts]).ravel(), *limits]
        elif code == Stage.HUE:  # of values in [0, 1] alone
            stages.append((Stage.SCALE, [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, *UNIT]))
            values = [rng.uniform(-0.5, 0.5)]
        elif code == Stage.HOLES:
            values = [0, 2, 0, 0]
        else:
            values = [rng.uniform(0.5, 1.6)]
        stages.append((Stage(code), values))
    return stages


def chained(seed: int) -> Program:
    fields = {"holes": [[2, 3, 9, 12], [5, 5, 5, 20]], "colours": [[0.1, 0.9, 0.3], [1.5, 0, 0]]}
    return make_program(1, SIZE, SOURCE, stages=chain(np.random.default_rng(seed), 7), **fields)


def made(program: Program, images: torch.Tensor) -> torch.Tensor:
    """Return the result of one image, [H, W, 3]."""
    return by_cpu(program, images, None, torch.empty(1, 3, *SIZE))[0].permute(1, 2, 0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_merged_stages_give_what_they_give_one_by_one(dtype):
    """Linear stages are merged where that changes nothing but rounding; a missing last stage is noticed in most chains."""
    noticed = 0
    for seed in range(40):
        program = chained(seed)
        together = made(program, noise(dtype))
        one_by_one = made(make_program(1, SIZE, SOURCE), noise(dtype))
        for place in range(program.codes.shape[1]):
            before, only = one_by_one, slice(place, place + 1)
            single = make_program(1, SIZE, SIZE, holes=program.holes, colours=program.colours)
            single = single._replace(codes=program.codes[:, only], values=program.values[:, only])
            one_by_one = made(single, before[None].contiguous())
        assert (together - one_by_one).abs().max() * 255 < 0.02
        noticed += bool((together - before).abs().max() * 255 > 0.5)
    assert noticed > 30


def test_not_a_number_stays_one():
    """In every floating type, where it was, also beyond a warp's neighbours."""
    images = noise(torch.float32)
    images[0, 4, 5, 1] = torch.nan
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        out = torch.zeros(1, 3, *SIZE, dtype=dtype)
        run_program(make_program(1, SIZE, SOURCE), images, None, out)

        assert out.isnan().sum() == 1
        assert out[0, 1, 4, 5].isnan()


BY_CHANNEL: dict[str, tuple[Stage, list[float]]] = {
    "scale": (Stage.SCALE, [0.7, 0, 0, 0.1, 0, -1, 0, 1, 0, 0, 1.4, -0.2, *UNIT]),
    "gamma": (Stage.GAMMA, [0.6]),
    "solarize": (Stage.SOLARIZE, [0.5]),
    "table": (Stage.TABLE, [0]),
    "round": (Stage.ROUND, []),
    "floor": (Stage.FLOOR, [0.3]),
}
ACROSS_CHANNELS: dict[str, tuple[Stage, list[float]]] = {
    "matrix": (Stage.MATRIX, [0.5, 0.3, 0.1, 0, 0.2, 0.6, 0.1, 0.1, 0.1, 0.2, 0.7, -0.1, *UNIT]),
    "gray": (Stage.MATRIX, [0.3, 0.6, 0.2, 0.1] * 3 + UNIT),
    "contrast": (Stage.CONTRAST, [0.6]),
}
CHAINS = (
    *([], ["gamma", "scale", "table"], ["gray"], ["table", "matrix"], ["gamma", "contrast"]),
    ["gamma", "contrast", "solarize", "gamma"],
)

# Rectangles of (top, left, bottom, right) that overlap, are empty, and extend beyond the image.
HOLES = [(3, 4, 9, 30), (5, 20, 12, 95), (7, 7, 7, 9), (-4, -6, 4, 5), (30, 80, 55, 120)]


@pytest.mark.parametrize("num_holes", [0, len(HOLES)])
@pytest.mark.parametrize("border", list(Border))
@pytest.mark.parametrize(
    "back",
    [[1, 0, 3, 0, 1, 2], [1, 0, -5, 0, 1, -8], [1, 0, 9, 0, -1, 60], [-1, 0, 95, 0, 1, 2]],
    ids=["crop", "padded", "upside down", "mirrored"],
)
def test_copied_bytes_are_the_rounded_values(num_holes, border, back):
    """A uint8 result holds the float32 result, rounded, where bytes are copied and painted; colours beyond 0 and 1 are clamped."""
    rng = np.random.default_rng(0)
    source = torch.from_numpy(rng.integers(0, 256, (1, 48, 97, 3), dtype=np.uint8))
    program = make_program(
        1,
        (40, 94),
        (48, 97),
        stages=[(Stage.HOLES, [0, num_holes, 0, 0])] if num_holes else [],
        back=[*back, 0, 0, 1],
        border=border,
        fill=(0.3, 0.501, 0.7),
        holes=np.array([HOLES], np.int32),
        colours=rng.uniform(-0.2, 1.2, (1, len(HOLES), 3)).astype(np.float32),
        keys=np.zeros((1, 1, 2), np.uint32),
    )
    values = torch.empty(1, 3, 40, 94)
    levels = torch.empty(1, 3, 40, 94, dtype=torch.uint8).to(memory_format=torch.channels_last)

    run_program(program, source, None, values)
    run_program(program, source, None, levels)

    assert torch.equal(levels, (values * 255).round().clamp(0, 255).byte())


@pytest.mark.parametrize("stages", [*([name] for name in BY_CHANNEL), *CHAINS], ids="-".join)
@pytest.mark.parametrize(
    ("back", "size"),
    [
        ([1, 0, 0, 0, 1, 0], (48, 97)),
        ([1, 0, 3, 0, 1, 2], (40, 90)),
        ([1, 0, 9, 0, 1, 2], (40, 50)),  # a line is shorter than what registers map at once
        ([-1, 0, 95, 0, -1, 46], (40, 90)),
        ([1, 0, 5, 0, 1, 8], (40, 94)),  # columns beside the view
        ([1, 0, 0, 0, 1, 0], (11, 90)),  # fewer pixels than a table is made for
    ],
    ids=["full", "crop", "narrow", "turned by 180 degrees", "padded", "small"],
)
@pytest.mark.parametrize("is_planar", [False, True])
def test_bytes_that_a_table_gives_are_the_rounded_values(stages, back, size, is_planar):
    """A uint8 source gives what the same values as float32 give, whose bytes no table can map."""
    rng = np.random.default_rng(0)
    source = torch.from_numpy(rng.integers(0, 256, (1, 48, 97, 3), dtype=np.uint8))
    tables = rng.random((1, 1, 3, 256), dtype=np.float32)
    program = make_program(
        1,
        size,
        (48, 97),
        stages=[(BY_CHANNEL | ACROSS_CHANNELS)[name] for name in stages],
        back=[*back, 0, 0, 1],
        tables=tables,
    )
    values, mapped = torch.empty(1, 3, *size), torch.empty(1, 3, *size)
    levels = torch.empty(1, 3, *size, dtype=torch.uint8)
    levels = levels if is_planar else levels.to(memory_format=torch.channels_last)

    run_program(program, source.float() / 255, None, values)
    run_program(program, source, None, mapped)
    run_program(program, source, None, levels)

    torch.testing.assert_close(mapped, values, atol=1e-6, rtol=0)  # linear stages are merged
    assert torch.equal(levels, (mapped * 255).round().clamp(0, 255).byte())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_results_past_the_cache_are_the_same(dtype, layout, monkeypatch):
    """Large results, whose lines are full cache lines, are written another way than small ones, to the same values."""
    num, size = 3, (5, 64)
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (num, *size, 3), dtype=np.uint8))
    values = [0.7, 0, 0, 0.1, 0, 1.2, 0, 0, 0, 0, 0.4, -0.1, *UNIT]
    program = make_program(num, size, size, stages=[(Stage.SCALE, values)])
    results = []
    for limit in (0, 1 << 24):
        monkeypatch.setattr(cpu_run, "_STREAMED_BYTES", limit)
        shape = (num, 3, *size) if layout == torch.contiguous_format else (num, *size, 3)
        out = aligned(shape, dtype)
        out = out if layout == torch.contiguous_format else out.permute(0, 3, 1, 2)
        assert cpu_run._streams(out) == (limit == 0)
        run_program(program, images, None, out)
        results.append(out)
    assert torch.equal(*results)
    assert results[0].any()


def test_lines_with_parts_of_cache_lines_go_through_the_cache(monkeypatch):
    """Neither lines of another length, nor results that begin or lie elsewhere, are written past the cache."""
    monkeypatch.setattr(cpu_run, "_STREAMED_BYTES", 0)
    batch = aligned((2, 3, 8, 64), torch.float32)
    assert cpu_run._streams(batch)
    assert cpu_run._streams(batch[1:])
    assert not cpu_run._streams(batch[..., :60])
    assert not cpu_run._streams(batch[..., :32])
    assert not cpu_run._streams(batch.view(-1)[8:1160].view(1, 3, 6, 64))
    assert not cpu_run._streams(aligned((2, 3, 8, 60), torch.float32))
