"""How engines run: types, layouts, threads, gates, devices and refusals."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from gpu_aug import (
    ColorJitter,
    EngineError,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Normalize,
    Operation,
    RandomAffine,
    RandomErasing,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
    VerticalFlip,
    compile_engine,
)
from gpu_aug.engines import layout
from gpu_aug.engines.backends import color
from tests.support import waiting
from tests.support.engines import CPU, ENGINES, draw_for, empty_output, noise, render

CUDA = torch.device("cuda")
SIZE = (37, 52)
FLIPS = Recipe([Resize(SIZE), HorizontalFlip(), VerticalFlip()])
COLOURS = Recipe([Resize(SIZE), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.7)])
EVERYTHING = Recipe(
    [
        Resize(SIZE),
        HorizontalFlip(),
        VerticalFlip(),
        RandomAffine(20, (0.1, 0.1), (0.8, 1.2), p=0.5, fill=0.2),
        ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        Grayscale(0.3),
        GaussianBlur(5, p=0.5),
        Normalize(),
        RandomErasing(0.5),
    ]
)


def images(num: int) -> torch.Tensor:
    return noise(num, SIZE, seed=num)


def run(name: str, recipe: Recipe, num: int, **output) -> torch.Tensor:
    return render(name, recipe, images(num), **output)


OUTPUTS = [
    (FLIPS, torch.uint8),
    (COLOURS, torch.uint8),
    *(
        (r, dtype)
        for r in (FLIPS, EVERYTHING)
        for dtype in (torch.float16, torch.bfloat16, torch.float64)
    ),
]


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("recipe", "dtype"), OUTPUTS)
def test_an_output_is_the_rounded_float32(name, recipe, layout, dtype):
    """Any floating type and layout gets the float32 values, rounded to the type; uint8 gets round(255 x)."""
    reference = run(name, recipe, 6)
    expected = (reference * 255).round() if dtype == torch.uint8 else reference

    out = run(name, recipe, 6, dtype=dtype, layout=layout)

    assert torch.equal(expected.to(dtype), out)
    assert out.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("name", ENGINES)
def test_an_output_with_gaps_is_written(name):
    """An output that is a view of something larger is written in place, and nothing else."""
    reference = run(name, EVERYTHING, 5)
    large = torch.full((5, 4, SIZE[0], 2 * SIZE[1]), 5.0)

    out = large[:, 1:, :, ::2]
    engine = compile_engine(name, EVERYTHING, device=CPU)
    engine.run(images(5), draw_for(EVERYTHING, images(5)), out)

    assert torch.equal(reference, out)
    assert (large[:, 0] == 5).all()
    assert (large[..., 1::2] == 5).all()


@pytest.mark.parametrize("name", ENGINES)
def test_the_input_is_not_written_to(name):
    """The decoded images are the same afterwards."""
    given = images(8)
    render(name, EVERYTHING, given)

    assert torch.equal(given, images(8))


@pytest.mark.parametrize("name", ENGINES)
def test_threads_share_an_engine(name):
    """Many threads with their own draws on one engine give what one thread gives."""
    engine = compile_engine(name, EVERYTHING, device=CPU)

    def job(epoch: int) -> torch.Tensor:
        out = empty_output(4, SIZE)
        engine.run(images(4), draw_for(EVERYTHING, images(4), epoch=epoch), out)
        return out

    expected = [job(epoch) for epoch in range(16)]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(job, range(16)))
    assert all(torch.equal(a, b) for a, b in zip(expected, results, strict=True))
    assert not torch.equal(expected[0], expected[1])


@pytest.mark.parametrize("name", ENGINES)
def test_the_callers_autocast_and_gradients_do_not_matter(name):
    """Inside autocast the values are those of float32, and no graph is kept."""
    reference = run(name, EVERYTHING, 4)

    with torch.autocast("cpu", dtype=torch.bfloat16), torch.enable_grad():
        out = run(name, EVERYTHING, 4)

    assert torch.equal(reference, out)
    assert not out.requires_grad


@pytest.mark.parametrize("name", ENGINES)
def test_a_decode_only_recipe_copies(name):
    """Without batch operations the pixels are passed on."""
    recipe = Recipe([Resize(SIZE)])

    assert torch.equal(images(3).permute(0, 3, 1, 2), run(name, recipe, 3, dtype=torch.uint8))


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16])
def test_layouts_are_the_same_without_opencv(monkeypatch, order, dtype):
    """OpenCV only makes it faster: torch alone gives the same bytes."""
    fast = run("kornia", FLIPS, 5, dtype=dtype, layout=order)
    monkeypatch.setattr(layout, "cv2", None)

    assert torch.equal(fast, run("kornia", FLIPS, 5, dtype=dtype, layout=order))


@pytest.mark.parametrize("by_stage", [False, True])
def test_jitter_groups_carry_out_every_order(by_stage):
    """Both ways of grouping images, for the CPU and for the GPU, keep each image's own order."""
    orders = draw_for(COLOURS, images(200)).params[1]["order"]
    done: list[list[int]] = [[] for _ in orders]

    for rows, functions in color._order_groups(orders, by_stage=by_stage):
        for row in np.flatnonzero(rows):
            done[row] += functions.tolist()

    assert orders.tolist() == done


class Twirl(Operation):
    """An operation that no engine knows."""


UNKNOWN = Recipe([Resize(SIZE), Twirl()])


@pytest.mark.parametrize(
    ("name", "recipe", "device", "message"),
    [
        *((name, UNKNOWN, CPU, f"engine '{name}' cannot carry out Twirl") for name in ENGINES),
        ("turbo", FLIPS, CPU, "must be 'auto', 'kornia', 'albumentations' or 'fused', got 'turbo'"),
        ("albumentations", FLIPS, CUDA, "runs on the CPU only, got device 'cuda'"),
    ],
)
def test_what_no_engine_can_do_is_refused(name, recipe, device, message):
    """The error comes when the recipe is compiled, not in the middle of a run."""
    with pytest.raises(EngineError, match=message):
        compile_engine(name, recipe, device=device)


@pytest.mark.parametrize("name", ENGINES)
def test_a_missing_package_is_named_with_the_install_line(monkeypatch, name):
    """Without the library the error is one sentence, and a RecipeError."""
    package = "numba" if name == "fused" else name
    ours = (
        *(f"{package}.", f"gpu_aug.engines.{name}.", f"gpu_aug.engines.backends.{name}_engine."),
        "gpu_aug.compiled.jit.",
    )
    for module in [m for m in sys.modules if f"{m}.".startswith(ours)]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(RecipeError, match=f"'{package}', which is not installed: pip install"):
        compile_engine(name, FLIPS, device=CPU)


@pytest.mark.needs_cuda
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_cuda_never_waits(dtype, layout):
    """No call synchronises the host with the device; the check itself is seen to work."""
    recipe = Recipe([*EVERYTHING.operations, RandomResizedCrop(20)])
    engine = compile_engine("kornia", recipe, device=CUDA)
    batch, draws = images(32).to(CUDA), draw_for(recipe, images(32))
    out = empty_output(32, recipe.fixed_size, dtype=dtype, layout=layout, device=CUDA)
    engine.run(batch, draws, out)  # the first call loads kernels
    out.fill_(torch.nan)

    with waiting.forbidden():
        engine.run(batch, draws, out)
        with pytest.raises(RuntimeError, match="synchroniz"):
            out.sum().item()
    assert not out.isnan().any()


@pytest.mark.needs_cuda
def test_cuda_runs_on_the_current_stream():
    """Work goes to the caller's stream, and host memory lives as long as it is read."""
    engine = compile_engine("kornia", EVERYTHING, device=CUDA)
    batch = images(64).to(CUDA)
    draws = [draw_for(EVERYTHING, batch, epoch=epoch) for epoch in range(8)]
    expected, results = ([empty_output(64, SIZE, device=CUDA) for _ in draws] for _ in range(2))
    for drawn, out in zip(draws, expected, strict=True):
        engine.run(batch, drawn, out)
        torch.cuda.synchronize()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for drawn, out in zip(draws, results, strict=True):
            engine.run(batch, drawn, out)
    stream.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(expected, results, strict=True))


@pytest.mark.needs_cuda
def test_cuda_ignores_the_callers_autocast():
    """Inside autocast the values are those of float32."""
    expected = run("kornia", EVERYTHING, 8, device=CUDA)

    with torch.autocast("cuda", dtype=torch.float16):
        out = run("kornia", EVERYTHING, 8, device=CUDA)
    assert torch.equal(expected, out)
