"""The fused engine's Triton kernels: against the kernels of the CPU, which the other engines confirm.

Without a GPU they run in Triton's interpreter, all cases in one process; with one they are compiled.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gpu_aug.engines.fused.compile.program import Border, Kind, Mix, Program, Stage
from gpu_aug.engines.fused.cpu.run import run_program
from tests.support.agreement import gaps
from tests.support.programs import by_cpu, make_program

SIZE = (21, 26)
SOURCE = (23, 31)
TURNED = [0.9, 0.25, -4.0, -0.2, 1.1, 5.0, 0, 0, 1]
TILTED = [0.9, 0.25, -4.0, -0.2, 1.1, 5.0, 0.004, -0.006, 1]
LIMITS = [-np.inf] * 3 + [np.inf] * 3
UNIT = [0, 0, 0, 1, 1, 1]

Case = tuple[Program, Any, Any, Any]

pytest.importorskip("triton")
REPOSITORY = Path(__file__).resolve().parents[4]


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.uint8) -> Tensor:
    """Random pixels; a float32 image holds numbers between the whole steps."""
    rng = np.random.default_rng(seed)
    if dtype == torch.uint8:
        return torch.from_numpy(rng.integers(0, 256, shape, dtype=np.uint8))
    return torch.from_numpy(rng.random(shape, dtype=np.float32))


def case(images: Any = None, dtype: torch.dtype = torch.float32, **fields: Any) -> Case:
    """One image of SOURCE, made SIZE, by a program with these fields."""
    images = noise(1, *SOURCE, 3) if images is None else images
    program = make_program(len(images), SIZE, tuple(images[0].shape[:2]), **fields)
    return program, images, None, torch.full((len(images), 3, *SIZE), 7, dtype=dtype)


def stage(code: Stage, *values: float, **fields: Any) -> Case:
    """One stage alone, on uint8."""
    return case(stages=[(code, values)], **fields)


GEOMETRY: dict[str, Case] = {
    "float source": case(noise(1, *SOURCE, 3, dtype=torch.float32)),
    "mirrored": case(back=[-1, 0, 31, 0, -1, 23, 0, 0, 1]),
    "quarter turn": case(back=[0, 1, 2, -1, 0, 23, 0, 0, 1], border=Border.EDGE),
    "part of a view": case(
        noise(1, 60, 60, 3)[:, 3:40, 5:50], view=[2, 4, 20, 19], border=Border.EDGE
    ),
    "odd address": case(noise(1, 40, 41, 3)[:, 1:30, 1:33]),
    "one column": case(noise(1, 9, 1, 3), kind=Kind.BILINEAR, border=Border.EDGE),
    "one line": case(noise(1, 1, 9, 3), kind=Kind.BILINEAR, back=TURNED),
    "far beside": case(kind=Kind.BILINEAR, back=[1, 0, 40, 0, 1, 0, 0, 0, 1], fill=[0.1, 0.2, 0.3]),
} | {
    f"{kind.name} {border.name} {name}": case(
        kind=kind, border=border, back=back, fill=[0.1, 0.5, 0.9]
    )
    for kind in (Kind.NEAREST, Kind.BILINEAR)
    for border in Border
    for name, back in (("affine", TURNED), ("projective", TILTED))
    if (kind, border) != (Kind.NEAREST, Border.CONSTANT_TWICE)
} | {
    f"{border.name} through a frame, {name}": case(
        kind=Kind.BILINEAR, border=border, back=back, fill=[0.1, 0.5, 0.9],
        frame=[17, 22], before=[1.1, -0.2, 3.0, 0.15, 0.9, -2.5, 0, 0, 1] if name == "affine" else TILTED,
    )
    for border in (Border.CONSTANT, Border.EDGE, Border.CONSTANT_TWICE)
    for name, back in (("affine", TURNED), ("projective", TILTED))
}  # fmt: skip

TABLES = np.random.default_rng(3).random((1, 2, 3, 256), dtype=np.float32)
HOLES = [[0, 3, 9, 12], [5, 5, 5, 20], [6, 8, 21, 15], [0, 20, 4, 26]]
COLOURS = [[0.1, 0.2, 0.3], [0, 0, 0], [0.7, 0.6, 0.5], [1, 0, 1]]
VALUES: dict[str, Case] = {
    "scale": stage(Stage.SCALE, 1.4, 0, 0, -0.1, 0, 0.7, 0, 0.2, 0, 0, 2.0, -0.5, *UNIT),
    "scale, free": stage(Stage.SCALE, 4.4, 0, 0, -2.1, 0, 4.5, 0, -2, 0, 0, 4.4, -1.8, *LIMITS),
    "scale, limited": stage(Stage.SCALE, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, -1, 0.1, 0.2, 1, 1.5, 0.7),
    "matrix": stage(Stage.MATRIX, 1, 0.3, -0.4, 0.1, 0.2, 0.9, 0.3, -0.2, -0.5, 0.4, 1, 0.1, *UNIT),
    "matrix, free": stage(Stage.MATRIX, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, *LIMITS),
    "contrast": stage(Stage.CONTRAST, 1.7),
    "hue": stage(Stage.HUE, 0.37),
    "hue back": stage(Stage.HUE, -0.45),
    "gamma": stage(Stage.GAMMA, 0.6),
    "solarize": stage(Stage.SOLARIZE, 0.5),
    "table": stage(Stage.TABLE, 1, tables=TABLES),
    "round": case(noise(1, *SOURCE, 3, dtype=torch.float32), stages=[(Stage.ROUND, [])]),
    "floor": case(noise(1, *SOURCE, 3, dtype=torch.float32), stages=[(Stage.FLOOR, [0.3])]),
    "gray of the largest": stage(Stage.GRAY_MAX),
    "gray of the middle": stage(Stage.GRAY_MIDDLE),
    "holes": stage(Stage.HOLES, 0, 3, 0, 0, holes=HOLES[1:], colours=COLOURS[1:]),
    "uniform holes": stage(Stage.HOLES, 1, 2, 1, 1, holes=HOLES[1:], colours=COLOURS[1:], keys=[[1, 2], [3, 2**32 - 5]]),
    "contrast twice": case(stages=[(Stage.CONTRAST, [0.5]), (Stage.NOTHING, []), (Stage.HUE, [0.1]), (Stage.CONTRAST, [1.8])]),
}  # fmt: skip


def everything() -> Case:
    """Three images of several types and sizes with different programs, as the engine makes them."""
    program = make_program(
        3,
        SIZE,
        SOURCE,
        stages=[(Stage.SCALE, [1.2] + [0] * 4 + [1.2] + [0] * 4 + [1.2, 0, *UNIT]), (Stage.CONTRAST, [1.4]),
                (Stage.HUE, [0.2]), (Stage.HOLES, [0, 4, 1, 0]), (Stage.SCALE, [4.0, 0, 0, -2, 0, 4, 0, -2, 0, 0, 4, -2, *LIMITS])],
        kind=[Kind.WHOLE, Kind.BILINEAR, Kind.BILINEAR],
        back=[np.eye(3).ravel(), TURNED, TILTED],
        border=[Border.CONSTANT, Border.CONSTANT, Border.REFLECT],
        view=[[0, 0, 23, 31], [1, 2, 19, 20], [0, 0, 40, 20]],
        size=[SIZE, [35, 40], [33, 9]],
        holes=[HOLES] * 3,
        colours=[COLOURS] * 3,
        keys=[[[1, 2]]] * 3,
    )  # fmt: skip
    program.codes[0, 1] = Stage.NOTHING
    program.codes[2, [0, 2]] = Stage.NOTHING
    program.holes[2] = np.minimum(program.holes[2], (33, 9, 33, 9))
    images = [noise(*SOURCE, 3), noise(24, 25, 3, dtype=torch.float32), noise(40, 20, 3, seed=4)]
    outs = [torch.zeros(3, *size.tolist(), dtype=torch.bfloat16) for size in program.size]
    return program, images, None, outs


def mixed(mix: Mix) -> Case:
    """Two images of SIZE, uint8 and float32, of which the first gets the second."""
    images = [noise(*SIZE, 3), noise(*SIZE, 3, seed=1, dtype=torch.float32)]
    fields = {"mix": [mix, Mix.NO_MIX], "share": [0.7, 0.3], "window": [3, 4, 12, 20]}
    program = make_program(2, SIZE, SIZE, **fields)
    return program, images, [images[1], None], torch.zeros(2, 3, *SIZE)


STORES: dict[str, Case] = {
    f"{dtype} {name}": (
        *case(dtype=dtype)[:3],
        torch.zeros(1, 3, *SIZE, dtype=dtype).to(memory_format=layout),
    )
    for dtype in (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
    for name, layout in (("planar", torch.contiguous_format), ("interleaved", torch.channels_last))
}
STORES |= {
    f"{dtype} {name}, blocks": (
        make_program(1, (21, 48), (21, 48)),
        noise(1, 21, 48, 3),
        None,
        torch.zeros(1, 3, 21, 48, dtype=dtype).to(memory_format=layout),
    )
    for dtype in (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
    for name, layout in (("planar", torch.contiguous_format), ("interleaved", torch.channels_last))
}
STORES["into a part"] = (*case()[:3], torch.zeros(1, 4, 30, 40)[:, 1:, 2:23, 3:29])
NOWHERE = [1, 0, -3.5, 0, 1, 2, 1, 0, -3.5]
"""Its column 3 has the point 0 / 0."""
SEVERAL = {
    "everything": everything(),
    "blend": mixed(Mix.BLEND),
    "cut": mixed(Mix.CUT),
    "nowhere": case(kind=Kind.BILINEAR, back=NOWHERE, frame=[17, 22], border=Border.EDGE, fill=[0.1, 0.5, 0.9]),
}  # fmt: skip


def neighbours(dtype: torch.dtype) -> Case:
    """An affine map; the same with a mean; and a larger image that has every feature."""
    sizes = [[40, 36], [40, 36], [70, 33]]
    program = make_program(
        3, SIZE, SOURCE,
        stages=[(Stage.SCALE, [1.2, 0, 0, 0.1, 0, 1.1, 0, 0.1, 0, 0, 0.9, 0.1, *UNIT]), (Stage.CONTRAST, [1.4]),
                (Stage.MATRIX, [0.7, 0.2, 0.1, 0, 0.2, 0.7, 0.1, 0, 0.3, 0, 0.7, 0, *UNIT]), (Stage.HUE, [0.2]),
                (Stage.HOLES, [0, 4, 1, 0]), (Stage.GAMMA, [0.8])],
        kind=[Kind.BILINEAR] * 3, back=[[0.61, 0.23, -3.7, -0.19, 0.53, 5.1, 0, 0, 1]] * 2 + [TILTED],
        border=[Border.CONSTANT, Border.EDGE, Border.REFLECT], fill=[[0.1, 0.5, 0.9]] * 3, size=sizes,
        holes=[HOLES] * 3, colours=[COLOURS] * 3, keys=[[[1, 2]]] * 3,
        mix=[Mix.NO_MIX, Mix.NO_MIX, Mix.BLEND], share=[[0.7, 0.3]] * 3,
    )  # fmt: skip
    program.codes[0, 1:] = program.codes[1, 4:] = Stage.NOTHING
    images = [noise(*SOURCE, 3), noise(*SOURCE, 3), noise(*SOURCE, 3, dtype=torch.float32)]
    outs = [torch.zeros(3, *size, dtype=dtype) for size in sizes]
    return program, images, [None, None, noise(70, 33, 3)], outs


def alone(batch: Case, row: int) -> Case:
    """One image of a batch, without second sources."""
    program, images, _, outs = batch
    one = Program._make(field[row : row + 1] for field in program)
    return one, [images[row]], None, [outs[row].clone()]


def not_numbers(dtype: torch.dtype) -> Case:
    """NaN through SCALE and MATRIX."""
    images = noise(2, *SIZE, 3, dtype=torch.float32)
    images[:, 3:9, 4, 1] = np.nan
    linear = [1, 0.3, 0.1, 0, 0.2, 0.9, 0, 0, 0, 0.4, 1, 0, *UNIT]
    made = case(images, dtype, stages=[(Stage.SCALE, linear)])
    made[0].codes[1] = Stage.MATRIX
    return made


DTYPES = [torch.float32, torch.uint8]
ALONE = {
    f"{row} of {dtype}": (*alone(batch, row), True)
    for dtype, batch in ((dtype, neighbours(dtype)) for dtype in DTYPES)
    for row in (0, 1)
}
TOGETHER = {f"all of {dtype}": (*neighbours(dtype), True) for dtype in DTYPES}
NOT_NUMBERS = {f"NaN to {dtype}": not_numbers(dtype) for dtype in DTYPES}
EVERY: dict[str, Any] = {
    **GEOMETRY,
    **VALUES,
    **STORES,
    **SEVERAL,
    **ALONE,
    **TOGETHER,
    **NOT_NUMBERS,
}

Results = Callable[[str], Any]


def _interpreter_works() -> bool:
    """Triton 3.6 makes whole numbers of arrays in a way that NumPy 2.4 no longer has."""
    version = [int(part) for part in importlib.metadata.version("triton").split(".")[:2]]
    return version >= [3, 9] or np.lib.NumpyVersion(np.__version__) < "2.4.0"


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What the interpreter makes of each case."""
    if not _interpreter_works():
        pytest.skip("this Triton's interpreter does not work with this NumPy")
    folder = tmp_path_factory.mktemp("triton")
    torch.save(list(EVERY.values()), folder / "cases")
    command = [
        sys.executable,
        "-m",
        "tests.support.triton_worker",
        folder / "cases",
        folder / "results",
    ]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(EVERY, torch.load(folder / "results"), strict=True)).__getitem__


@pytest.fixture(scope="module")
def compiled() -> Results:
    """What the compiled kernels make of a case on the GPU."""
    from gpu_aug.engines.fused.triton.run import run_program

    def to_device(images: Any) -> Any:
        if isinstance(images, Tensor):
            return images.cuda() if images.is_contiguous() else _strided(images)
        return None if images is None else [None if i is None else to_device(i) for i in images]

    def run(name: str) -> Any:
        program, images, others, outs = EVERY[name][:4]
        results = to_device(outs)
        run_program(program, to_device(images), to_device(others), results)
        return results.cpu() if isinstance(results, Tensor) else [out.cpu() for out in results]

    return run


def _strided(images: Tensor) -> Tensor:
    """A copy on the GPU with the same strides and the same place in a word."""
    memory = images.as_strided(
        (images.untyped_storage().nbytes() // images.itemsize,), (1,), 0
    ).cuda()
    return memory.as_strided(images.shape, images.stride(), images.storage_offset())


@pytest.fixture(params=["interpreted", pytest.param("compiled", marks=pytest.mark.needs_cuda)])
def results(request: pytest.FixtureRequest) -> Results:
    """What Triton makes of a case."""
    made: Results = request.getfixturevalue(request.param)
    return made


def gap(result: Any, name: str, **changed: Any) -> float:
    """Return the largest difference from the CPU's kernels in units of 1/255, with fields of the program changed."""
    program, images, others, outs = EVERY[name][:4]
    program = program._replace(
        **{key: np.asarray(value, getattr(program, key).dtype) for key, value in changed.items()}
    )
    expected = by_cpu(program, images, others, outs)
    return gaps([out.float() for out in result], expected).max().item()


@pytest.mark.parametrize("name", GEOMETRY)
def test_pixels_come_from_where_the_cpu_finds_them(results: Results, name: str) -> None:
    """Every way to find a pixel: padding, and weights by distance."""
    assert gap(results(name), name) < 0.002


@pytest.mark.parametrize(
    "name", ["mirrored", "BILINEAR EDGE affine", "BILINEAR REFLECT projective"]
)
def test_a_shift_would_be_noticed(results: Results, name: str) -> None:
    """Negative control: the reference shifted by a hundredth of a pixel, or by a whole one, differs."""
    back = EVERY[name][0].back.copy()
    back[:, 2] += 1 if name == "mirrored" else 0.01

    assert gap(results(name), name, back=back) > 0.5


@pytest.mark.parametrize("name", VALUES)
def test_stages_are_those_of_the_cpu(results: Results, name: str) -> None:
    """Every stage alone."""
    assert gap(results(name), name) < 0.01


def test_tiles_far_from_the_first_begin_where_float64_says() -> None:
    """Whole numbers of 2**-32 pixels lead 8192 pixels away and err by less than what shows; float32 alone would show."""
    from gpu_aug.engines.fused.triton.record import RECORD, offsets, pack

    rng = np.random.default_rng(5)
    back = np.tile(np.array([1, 0, 0, 0, 1, 0, 0, 0, 1.0]), (200, 1))
    back[:, :6] = rng.uniform(-1.9, 1.9, (200, 6)) * (1, 1, 4096, 1, 1, 4096)
    program = make_program(
        200, (8192, 8192), SOURCE, kind=Kind.BILINEAR, border=Border.EDGE, back=back
    )
    packed = pack(program, noise(200, *SOURCE, 3), None, torch.empty(1).expand(200, 3, 8192, 8192))
    [first] = offsets(RECORD, "affine")
    fixed = packed.records[:, first : first + 12].copy().view(np.int64)
    left, top = rng.integers(0, 256, (2, 200, 1)) * 32

    found = (fixed[:, 0::3] * left + fixed[:, 1::3] * top + fixed[:, 2::3]) / 2**32
    expected = (
        back[:, [0, 3]] * (left + 0.5) + back[:, [1, 4]] * (top + 0.5) + back[:, [2, 5]] - 0.5
    )
    single = np.float32(back[:, [0, 3]]) * np.float32(left + 0.5) + np.float32(expected * 0)

    assert np.abs(found - expected).max() < 4e-6
    assert np.abs(single - back[:, [0, 3]] * (left + 0.5)).max() > 2e-4


@pytest.mark.parametrize("name", ["scale", "matrix", "contrast", "hue", "gamma"])
def test_another_argument_would_be_noticed(results: Results, name: str) -> None:
    """Negative control: the reference with one argument changed by a thousandth differs."""
    values = EVERY[name][0].values.copy()
    values[:, 0, 0] += 0.001

    assert gap(results(name), name, values=values) > 0.03


@pytest.mark.parametrize("name", STORES)
def test_every_layout_and_type(results: Results, name: str) -> None:
    """The bytes come back: rounded as torch rounds, or the interpreter, which cuts bfloat16 off."""
    result = results(name)
    source = EVERY[name][1][:, :21, : result.shape[3]].permute(0, 3, 1, 2)
    exact = source.float() / 255

    assert result.stride() == EVERY[name][3].stride() or name == "into a part"
    if result.dtype == torch.uint8:
        assert torch.equal(result, source)
    else:
        allowed = {torch.bfloat16: 2**-7, torch.float16: 2**-11, torch.float32: 0}[result.dtype]
        assert ((result.float() - exact).abs() <= allowed * exact).all()


@pytest.mark.parametrize("name", SEVERAL)
def test_batches_are_those_of_the_cpu(results: Results, name: str) -> None:
    """Images of several sizes and types in one call, as the CPU's kernels make them."""
    result = results(name)
    assert gap(result, name) < (2.1 if result[0].dtype == torch.bfloat16 else 0.002)


@pytest.mark.parametrize("name", ALONE)
def test_an_image_is_the_same_whatever_batch_it_is_in(results: Results, name: str) -> None:
    """Alone, and beside a larger image for which every part of the kernels is compiled: bit for bit."""
    row, dtype = name.split(" of ")

    assert torch.equal(results(name)[0], results(f"all of {dtype}")[int(row)])


@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_not_numbers_are_those_of_the_cpu(results: Results, name: str) -> None:
    """NaN goes through limits, and is 0 as uint8."""
    program, images, others, outs = EVERY[name]
    expected = torch.full_like(outs, 9)
    run_program(program, images, others, expected)
    assert expected.isnan().any() == (outs.dtype == torch.float32)
    assert torch.allclose(results(name).float(), expected.float(), atol=1e-6, equal_nan=True)


def test_division_by_255_is_exact() -> None:
    """A quotient and its remainder, in exact arithmetic, give what a division gives, for every byte."""
    bytes_, per_step = np.arange(256, dtype=np.float32), np.float64(np.float32(1 / 255))
    quotient = np.float32(bytes_ * per_step)
    remainder = np.float32(bytes_.astype(np.float64) - quotient.astype(np.float64) * 255)
    corrected = np.float32(remainder.astype(np.float64) * per_step + quotient)

    assert (corrected == bytes_ / np.float32(255)).all()
    assert (quotient != bytes_ / np.float32(255)).any()


INTERLEAVED, PLANAR = 2, 1
NEAR, COLOUR, EVERYTHING = 1, 16, 127
COMPILED = {
    "plain": ("run_pass", 0, INTERLEAVED, "bfloat16", 64),
    "affine": ("run_pass", NEAR, INTERLEAVED, "bfloat16", 80),
    **{
        name: pytest.param(*variant, marks=pytest.mark.long)
        for name, variant in {
            "plain, half": ("run_pass", 0, INTERLEAVED, "float16", 64),
            "plain, planar": ("run_pass", 0, PLANAR, "bfloat16", 64),
            "plain, float32": ("run_pass", 0, INTERLEAVED, "float32", 64),
            "jitter": ("run_pass", COLOUR, INTERLEAVED, "bfloat16", 64),
            "means of jitter": ("sum_gray", COLOUR, INTERLEAVED, "bfloat16", 64),
            "means of an affine map": ("sum_gray", NEAR | COLOUR, INTERLEAVED, "bfloat16", 64),
            "everything": ("run_pass", EVERYTHING, INTERLEAVED, "bfloat16", 128),
        }.items()
    },
}
"""A kernel, features, layout and type, and how many registers a thread may use: 64 and 80 let 32 and 24 of 64 warps run."""

ONE_AFTER_THE_OTHER = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4]"
"""How the sums for the mean are laid out in every variant; with it they have one order."""


@pytest.mark.parametrize(
    ("name", "features", "layout", "dtype", "most"), list(COMPILED.values()), ids=COMPILED
)
def test_compiled_kernels_use_few_registers_and_wide_stores(
    name: str, features: int, layout: int, dtype: str, most: int, tmp_path: Path
) -> None:
    """For a GPU that is not there: no spills, wide stores alone, and no float64 but for maps that need it."""
    import triton

    built = _compile(name, features, layout, getattr(triton.language, dtype))
    (tmp_path / "kernel.cubin").write_bytes(built.asm["cubin"])
    command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", tmp_path / "kernel.cubin"]
    usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    assert found is not None
    registers, stack_bytes = map(int, found.groups())
    stores = re.findall(r"st\.global\.(\S+)", built.asm["ptx"])

    # What would let an image depend on its batch: products and sums fused by chance, sums of another order.
    meant = re.findall(r"call .*@llvm\.fma\.(?:v(\d+))?f32\(", built.asm["llir"])
    assert built.asm["ptx"].count("fma.rn.f32") == sum(int(lanes or 1) for lanes in meant) > 0
    layouts = dict(re.findall(r"(#\w+) = (#ttg\.blocked.*)", built.asm["ttgir"]))
    summed = re.findall(r"\(tensor<\d+xf32, (#\w+)>\) -> f32", built.asm["ttgir"])
    assert all(layouts[one].startswith(ONE_AFTER_THE_OTHER) for one in summed)

    assert registers <= most
    assert stack_bytes == 0
    assert ".f64" not in built.asm["ptx"] or features == EVERYTHING
    wide = {"v2.b32"} if features == EVERYTHING else {"v4.b32"}
    assert set(stores) == (wide if name == "run_pass" else {"b32"})


def _compile(name: str, features: int, layout: int, dtype: Any) -> Any:
    """A kernel for sm_90, as `run_program` launches it."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from gpu_aug.engines.fused.triton import kernels
    from gpu_aug.engines.fused.triton.run import Tiling, options

    function = getattr(kernels, name)
    tiling = Tiling.of(features) if name == "run_pass" else Tiling()
    told = options(tiling)
    constants = {"FEATURES": features, "LAYOUT": layout, "TYPE": dtype}
    constants |= {"TILES": tiling.tiles_per_sum, "TILE_HEIGHT": told.pop("TILE_HEIGHT")}
    constants["TILE_WIDTH"] = told.pop("TILE_WIDTH")
    kinds = {"words": "*i32", "doubles": "*fp64", "longs": "*i64"}
    kinds |= dict.fromkeys(("floats", "tables", "sums"), "*fp32")
    names = function.arg_names
    signature = {
        argument: "constexpr" if argument in constants else kinds.get(argument, "i32")
        for argument in names
    }
    source = ASTSource(
        function,
        signature,
        constexprs={(names.index(key),): value for key, value in constants.items() if key in names},
        attrs={(names.index(key),): [["tt.divisibility", 16]] for key in kinds},
    )
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=told)
