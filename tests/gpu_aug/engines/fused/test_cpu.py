"""The fused engine's kernels on the CPU, against NumPy in float64."""

from typing import Any

import numpy as np
import pytest
import torch

from gpu_aug.engines.fused.compile.program import Border, Kind, Program, Stage
from gpu_aug.engines.fused.cpu.run import run_program
from tests.support.programs import make_program, reference

SIZE, SOURCE = (21, 26), (23, 31)
MAPS = {
    "affine": [0.9, 0.25, -4.0, -0.2, 1.1, 5.0, 0, 0, 1],
    "projective": [0.9, 0.25, -4.0, -0.2, 1.1, 5.0, 0.004, -0.006, 1],
    "mirrored": [-1, 0, 31, 0, -1, 23, 0, 0, 1],
    "quarter turn": [0, 1, -3, -1, 0, 23, 0, 0, 1],
    "shifted": [1, 0, -5, 0, 1, 9, 0, 0, 1],
    "nowhere": [1, 0, 40, 0, 1, 0, 0, 0, 1],
}
FREE, UNIT = [-np.inf] * 3 + [np.inf] * 3, [0, 0, 0, 1, 1, 1]


def noise(dtype: torch.dtype) -> torch.Tensor:
    """Random pixels [1, *SOURCE, 3]; those of float32 lie between the whole steps."""
    rng = np.random.default_rng(0)
    if dtype == torch.uint8:
        return torch.from_numpy(rng.integers(0, 256, (1, *SOURCE, 3), dtype=np.uint8))
    return torch.from_numpy(rng.random((1, *SOURCE, 3), dtype=np.float32))


def gap(program: Program, images: torch.Tensor, other: Program | None = None) -> float:
    """The largest difference between kernels and NumPy (with another program) in units of 1/255."""
    out = torch.full((1, 3, *SIZE), torch.nan)
    run_program(program, images, None, out)
    expected = reference(other or program, 0, images[0].numpy())
    difference: float = np.abs(out[0].permute(1, 2, 0).numpy() - expected).max() * 255
    return difference


def moved(name: str, kind: Kind, border: Border, shift: float = 0) -> Program:
    back = np.array(MAPS[name], float)
    back[2] += shift
    return make_program(1, SIZE, SOURCE, kind=kind, border=border, back=back, fill=[0.1, 0.5, 0.9])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("border", list(Border))
@pytest.mark.parametrize("name", MAPS)
def test_pixels_come_from_where_numpy_finds_them(name, border, dtype):
    """Along every map, with everything that may lie beside the image."""
    whole = name not in ("affine", "projective")
    kinds = {Kind.WHOLE, Kind.BILINEAR} if whole else {Kind.NEAREST, Kind.BILINEAR}

    for kind in kinds:
        if border != Border.CONSTANT_TWICE or kind == Kind.BILINEAR:
            assert gap(moved(name, kind, border), noise(dtype)) < 0.02


@pytest.mark.parametrize("border", [Border.CONSTANT, Border.EDGE, Border.CONSTANT_TWICE])
@pytest.mark.parametrize("second", ["affine", "projective"])
@pytest.mark.parametrize("first", ["affine", "projective", "shifted", "mirrored"])
def test_a_frame_between_two_maps_is_cut_off_as_numpy_cuts_it(first, second, border):
    """Nothing beside it is seen, and its border is as soft as that of the second of two warps."""
    program = moved(second, Kind.BILINEAR, border)
    program.before[:] = MAPS[first]
    whole = program._replace(frame=np.array([[90, 90]], np.int32))
    program.frame[:] = (14, 17)

    assert gap(program, noise(torch.uint8)) < 0.02
    assert gap(program, noise(torch.uint8), whole) > 50


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


def test_a_hundredth_of_a_pixel_would_be_noticed():
    """Negative control."""
    program = moved("affine", Kind.BILINEAR, Border.REFLECT)
    other = moved("affine", Kind.BILINEAR, Border.REFLECT, shift=0.01)

    assert gap(program, noise(torch.uint8), other) > 0.5


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


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("seed", range(40))
def test_merged_stages_give_what_they_give_one_by_one(seed, dtype):
    """Linear stages are merged where that changes nothing but rounding."""
    assert gap(chained(seed), noise(dtype)) < 0.02


def test_a_missing_stage_would_be_noticed():
    """Negative control: in nearly all chains, for some end in one colour."""
    noticed = 0
    for seed in range(40):
        program = chained(seed)
        without = program._replace(codes=program.codes.copy())
        without.codes[0, -1] = Stage.NOTHING
        noticed += gap(program, noise(torch.uint8), without) > 0.5

    assert noticed > 30


POINTS = {
    "gamma": (Stage.GAMMA, [0.6]),
    "solarize": (Stage.SOLARIZE, [0.5]),
    "table": (Stage.TABLE, [1]),
    "round": (Stage.ROUND, []),
    "floor": (Stage.FLOOR, [0.3]),
    "largest": (Stage.GRAY_MAX, []),
    "middle": (Stage.GRAY_MIDDLE, []),
    "noise": (Stage.HOLES, [0, 1, 1, 0]),
}


@pytest.mark.parametrize("name", POINTS)
def test_a_stage_is_numpys(name):
    """Those that are not linear, alone."""
    rng = np.random.default_rng(1)
    fields = {
        "tables": rng.random((1, 2, 3, 256), dtype=np.float32),
        "holes": [[2, 3, 19, 22]],
        "colours": [[0, 0, 0]],
        "keys": [[3, 2**32 - 5]],
    }
    program = make_program(1, SIZE, SOURCE, stages=[POINTS[name]], **fields)
    dtype = torch.float32 if name in ("round", "floor") else torch.uint8

    assert gap(program, noise(dtype)) < 0.002
    assert gap(program, noise(dtype), make_program(1, SIZE, SOURCE)) > 0.3


def test_not_a_number_stays_one():
    """In every floating type, where it was, also beyond a warp's neighbours."""
    images = noise(torch.float32)
    images[0, 4, 5, 1] = torch.nan
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        out = torch.zeros(1, 3, *SIZE, dtype=dtype)
        run_program(make_program(1, SIZE, SOURCE), images, None, out)

        assert out.isnan().sum() == 1
        assert out[0, 1, 4, 5].isnan()
