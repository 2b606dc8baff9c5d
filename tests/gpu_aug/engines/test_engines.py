"""How engines run: types, layouts, threads, gates, devices and refusals."""

import sys
from concurrent.futures import ThreadPoolExecutor

import cv2
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
from gpu_aug.engines.kornia import color
from tests.support import waiting

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SIZE = (37, 52)
ENGINES = ("kornia", "albumentations", "fused")
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
    """Noise, uint8 [num, *SIZE, 3]."""
    rng = np.random.default_rng(num)
    return torch.from_numpy(rng.integers(0, 256, (num, *SIZE, 3), dtype=np.uint8))


def draw(recipe: Recipe, num: int, *, epoch: int = 0):
    return recipe.draw(0, epoch, np.arange(num), np.full((num, 2), SIZE))


def empty(
    num: int, recipe: Recipe, dtype=torch.float32, layout=torch.contiguous_format, device=CPU
):
    """An output tensor that is visibly not written yet."""
    out = torch.empty(num, 3, *recipe.size, dtype=dtype, device=device, memory_format=layout)
    return out.fill_(77 if dtype == torch.uint8 else torch.nan)


def run(name: str, recipe: Recipe, num: int, **kind) -> torch.Tensor:
    out = empty(num, recipe, **kind)
    compile_engine(name, recipe, device=CPU).run(images(num), draw(recipe, num), out)
    return out


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("num", [0, 1, 3, 4, 5, 9])
def test_results_do_not_depend_on_the_batch(name, num):
    """A sample alone gives the same values as among others; an empty batch is nothing to do."""
    together = run(name, EVERYTHING, num)
    engine = compile_engine(name, EVERYTHING, device=CPU)
    draws, alone = draw(EVERYTHING, num), empty(num, EVERYTHING)
    for row, image in enumerate(images(num)):
        engine.run(image[None], draws.rows(row, row + 1), alone[row : row + 1])

    torch.testing.assert_close(alone, together, rtol=0, atol=2e-6)
    assert not together.isnan().any()


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
    compile_engine(name, EVERYTHING, device=CPU).run(images(5), draw(EVERYTHING, 5), out)

    assert torch.equal(reference, out)
    assert (large[:, 0] == 5).all()
    assert (large[..., 1::2] == 5).all()


@pytest.mark.parametrize("name", ENGINES)
def test_the_input_is_not_written_to(name):
    """The decoded images are the same afterwards."""
    given, kept = images(8), images(8)
    compile_engine(name, EVERYTHING, device=CPU).run(
        given, draw(EVERYTHING, 8), empty(8, EVERYTHING)
    )

    assert torch.equal(kept, given)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    "operation",
    [
        RandomAffine(20, p=0.5),
        ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.5),
        Grayscale(0.5),
        GaussianBlur(5, p=0.5),
        RandomErasing(0.5),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_an_image_whose_gate_is_off_stays_bit_identical(name, operation: Operation):
    """What is not applied is not computed either; what is applied changes the image."""
    recipe = Recipe([Resize(SIZE), operation])
    applied = torch.from_numpy(draw(recipe, 12).params[0]["apply"])

    out = run(name, recipe, 12)

    same = (out == images(12).permute(0, 3, 1, 2).float() / 255).flatten(1).all(1)
    assert torch.equal(~applied, same)


@pytest.mark.parametrize("name", ENGINES)
def test_threads_share_an_engine(name):
    """Many threads with their own draws on one engine give what one thread gives."""
    engine = compile_engine(name, EVERYTHING, device=CPU)

    def job(epoch: int) -> torch.Tensor:
        out = empty(4, EVERYTHING)
        engine.run(images(4), draw(EVERYTHING, 4, epoch=epoch), out)
        return out

    expected = [job(epoch) for epoch in range(40)]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(job, range(40)))

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
    orders = draw(COLOURS, 200).params[1]["order"]
    done: list[list[int]] = [[] for _ in orders]

    for rows, functions in color._order_groups(orders, by_stage=by_stage):
        for row in np.flatnonzero(rows):
            done[row] += functions.tolist()

    assert orders.tolist() == done


def test_albumentations_refuses_affine_with_opencv_4(monkeypatch):
    """OpenCV 4 rounds coordinates to 1/32 pixel, which no tolerance of ours covers."""
    monkeypatch.setattr(cv2, "__version__", "4.12.0")

    with pytest.raises(EngineError, match=r"RandomAffine .* 4\.12\.0.*install OpenCV 5"):
        compile_engine("albumentations", EVERYTHING, device=CPU)
    compile_engine("albumentations", COLOURS, device=CPU)


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
    ours = (f"{package}.", f"gpu_aug.engines.{name}.", "gpu_aug.compiled.jit.")
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
    batch, draws = images(32).to(CUDA), draw(recipe, 32)
    out = empty(32, recipe, dtype, layout, CUDA)
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
    expected = []
    for epoch in range(8):
        out = empty(64, EVERYTHING, device=CUDA)
        engine.run(batch, draw(EVERYTHING, 64, epoch=epoch), out)
        torch.cuda.synchronize()
        expected.append(out)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    results = [empty(64, EVERYTHING, device=CUDA) for _ in range(8)]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for epoch, out in enumerate(results):
            engine.run(batch, draw(EVERYTHING, 64, epoch=epoch), out)
    stream.synchronize()

    assert all(torch.equal(a, b) for a, b in zip(expected, results, strict=True))


@pytest.mark.needs_cuda
def test_cuda_ignores_the_callers_autocast():
    """Inside autocast the values are those of float32."""
    engine = compile_engine("kornia", EVERYTHING, device=CUDA)
    batch, draws = images(8).to(CUDA), draw(EVERYTHING, 8)
    expected, out = empty(8, EVERYTHING, device=CUDA), empty(8, EVERYTHING, device=CUDA)
    engine.run(batch, draws, expected)

    with torch.autocast("cuda", dtype=torch.float16):
        engine.run(batch, draws, out)

    assert torch.equal(expected, out)
