"""The engines give the same pixels on the same draws, and those of code from outside.

Every operation has a row in tests/rows. Every comparison has a negative control: a slightly
different parameter must be noticed.
"""

import importlib
import pkgutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import tests.support.rows
from gpu_aug import (
    ColorJitter,
    Draws,
    Gamma,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Normalize,
    Operation,
    RandomAffine,
    RandomErasing,
    RandomResizedCrop,
    Recipe,
    Resize,
    compile_engine,
)
from gpu_aug.ops.combine import Combinator
from gpu_aug.ops.geometric.spatial import Remap, Warp
from tests.support.agreement import gaps
from tests.support.rows.row import SIZE, Row

ROOT = Path(__file__).resolve().parents[3]
CPU = torch.device("cpu")


def collect() -> dict[str, Row]:
    """All rows of all files in tests/rows."""
    rows: dict[str, Row] = {}
    for found in pkgutil.iter_modules(tests.support.rows.__path__):
        added = getattr(importlib.import_module(f"tests.support.rows.{found.name}"), "ROWS", {})
        assert not rows.keys() & added.keys()
        rows |= added
    return rows


ROWS = collect()
WITH_ORACLE = [label for label, row in ROWS.items() if row.oracle]
ENGINES = ["kornia", "albumentations", "fused"]
Pictures = list[torch.Tensor]


@pytest.fixture(scope="module")
def images(photos) -> torch.Tensor:
    """uint8 [24, *SIZE, 3]: noise, and small photographs."""
    noise = np.random.default_rng(0).integers(0, 256, (12, *SIZE, 3), dtype=np.uint8)
    small = [Image.open(path).convert("RGB").resize(SIZE[::-1]) for path in photos[:12]]
    return torch.from_numpy(np.concatenate([noise, np.stack([np.asarray(p) for p in small])]))


def recipe_with(operation: Operation) -> Recipe:
    """A recipe whose batch stage ends with ``operation`` on images of SIZE."""
    return Recipe([Resize(SIZE), HorizontalFlip(0), operation])


def draw(recipe: Recipe, num: int) -> Draws:
    return recipe.draw(1, 0, np.arange(num), np.full((num, 2), SIZE))


def run(
    name: str,
    recipe: Recipe,
    images: torch.Tensor,
    draws: Draws,
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float32,
) -> Pictures:
    """Results [3, H, W] on the CPU, one per image."""
    engine = compile_engine(name, recipe, device=device)
    if recipe.size is not None:
        out = torch.zeros(len(images), 3, *recipe.size, dtype=dtype, device=device)
        engine.run(images.to(device), draws, out)
        return list(out.cpu())
    sizes = recipe.result_sizes(draws)
    results = []
    for row, (height, width) in enumerate(sizes.tolist()):
        out = torch.zeros(1, 3, height, width, dtype=dtype, device=device)
        engine.run(images[row : row + 1].to(device), draws.rows(row, row + 1), out)
        results.append(out[0].cpu())
    return results


def changed(draws: Draws, name: str, change: Any) -> Draws:
    """The draws with one parameter of the last leaf changed."""
    *others, last = draws.params
    values = last[name]
    if callable(change):
        values = change(values)
    elif values.dtype == bool:
        values = ~values
    elif name == "matrix" and values.shape[1:] == (3, 3):  # a shift in pixels
        values = values.copy()
        values[:, :2, 2] += change
    else:
        values = values + values.dtype.type(change)
    return replace(draws, params=(*others, last | {name: values}))


def unit_range(operation: Operation) -> bool:
    """Whether values stay in [0, 1]."""
    return not any(leaf.leaves_unit_range for leaf in operation.leaves)


@pytest.mark.parametrize("label", ROWS)
def test_engines_agree(images, agreement, label):
    """Kornia and Albumentations differ by no more than the operation's tolerance."""
    operation = ROWS[label].operation
    recipe = recipe_with(operation)
    draws = draw(recipe, len(images))

    by_kornia = run("kornia", recipe, images, draws)
    by_albumentations = run("albumentations", recipe, images, draws)

    noise = gaps(by_kornia[:12], by_albumentations[:12])
    photo = gaps(by_kornia[12:], by_albumentations[12:])
    tolerance = tolerance_of(operation)
    agreement.note(
        label,
        operation=type(operation).__name__,
        noise_max=noise.max().item(),
        noise_mean=noise.mean().item(),
        photo_max=photo.max().item(),
        photo_mean=photo.mean().item(),
        tolerance=tolerance,
    )
    assert max(noise.max(), photo.max()) <= tolerance


@pytest.mark.parametrize("label", [label for label in ROWS if unit_range(ROWS[label].operation)])
def test_engines_agree_in_uint8(images, agreement, label):
    """Written as uint8, results differ by no more than the tolerance and one rounding step."""
    operation = ROWS[label].operation
    recipe = recipe_with(operation)
    draws = draw(recipe, len(images))

    by_kornia = run("kornia", recipe, images, draws, dtype=torch.uint8)
    by_albumentations = run("albumentations", recipe, images, draws, dtype=torch.uint8)

    steps = gaps(by_kornia, by_albumentations).max().item() / 255
    agreement.note(label, uint8=steps)
    tolerance = tolerance_of(operation)
    assert steps <= (np.ceil(tolerance) if tolerance else 0)


WARPS = [
    label
    for label, row in ROWS.items()
    if any(isinstance(leaf, Warp | Remap) for leaf in (row.operation, *row.operation.leaves))
]
HARDEST = ("perspective with fill", "affine as torchvision, with fill", "elastic")


def gap_on_a_photograph(label: str, side: int) -> float:
    """The largest difference of kornia and fused from albumentations, on two draws."""
    data = pytest.importorskip("skimage.data")
    photo = Image.fromarray(data.astronaut()).resize((side, side))
    images = torch.from_numpy(np.stack([np.asarray(photo)] * 2))
    recipe = Recipe([Resize((side, side)), HorizontalFlip(0), ROWS[label].operation])
    draws = recipe.draw(1, 0, np.arange(2), np.full((2, 2), side))
    expected = run("albumentations", recipe, images, draws)
    return max(
        gaps(run(name, recipe, images, draws), expected).max().item()
        for name in ("kornia", "fused")
    )


def test_warps_agree_on_a_photograph_of_ordinary_size(agreement, request):
    """Differences grow with the side: the hardest row keeps its tolerance at 1280 x 1280 pixels, too."""
    writes = request.config.getoption("--write-agreement")
    for label in WARPS if writes else ():
        gap = gap_on_a_photograph(label, 512)
        agreement.note(label, large=gap)
        assert gap <= tolerance_of(ROWS[label].operation)
    assert gap_on_a_photograph(HARDEST[0], 1280) <= tolerance_of(ROWS[HARDEST[0]].operation)
    for side in (320, 640, 1280, 2560) if writes else ():
        for label in HARDEST:
            agreement.by_side[label][side] = gap_on_a_photograph(label, side)


def tolerance_of(operation: Operation) -> float:
    """The operation's own; of one that is made of others, the sum of theirs as they follow each other."""
    if isinstance(operation, Combinator):
        return sum(leaf.tolerance for leaf in operation.leaves)
    return operation.tolerance


@pytest.mark.parametrize("label", ROWS)
def test_the_fused_engine_agrees(images, agreement, label):
    """Fused and Albumentations differ by no more than the tolerance: float32 in and out, and uint8 out."""
    images = images[9:15]
    operation = ROWS[label].operation
    recipe = recipe_with(operation)
    draws = draw(recipe, len(images))
    tolerance = tolerance_of(operation)
    expected = run("albumentations", recipe, images, draws)

    difference = gaps(run("fused", recipe, images, draws), expected).max().item()
    agreement.note(label, fused=difference)
    assert difference <= tolerance
    assert gaps(run("fused", recipe, images.float() / 255, draws), expected).max() <= max(
        tolerance, 1e-4
    )
    if unit_range(operation):
        whole = [image.mul(255).round().clamp(0, 255).byte() for image in expected]
        written = run("fused", recipe, images, draws, dtype=torch.uint8)
        steps = gaps(written, whole).max().item() / 255
        assert steps <= (np.ceil(tolerance) if tolerance else 0)


@pytest.mark.parametrize("label", ROWS)
def test_the_tolerance_notices_a_changed_parameter(images, agreement, label):
    """The same comparison fails when one drawn value of one engine is slightly different."""
    operation = ROWS[label].operation
    recipe = recipe_with(operation)
    draws = draw(recipe, len(images))
    by_kornia = run("kornia", recipe, images, draws)

    noticed = []
    for name, change in ROWS[label].control.items():
        moved = changed(draws, name, change)
        noticed.append(gaps(by_kornia, run("albumentations", recipe, images, moved)).max().item())
    agreement.note(label, control=min(noticed))
    assert min(noticed) > tolerance_of(operation)


@pytest.mark.parametrize("label", WITH_ORACLE)
def test_engines_give_the_pixels_of_code_from_outside(images, agreement, label):
    """Each image is what the outside reference makes of it with the drawn parameters."""
    row = ROWS[label]
    recipe = recipe_with(row.operation)
    draws = draw(recipe, len(images))
    drawn = draws.params[1:]  # after the flip
    results = run("kornia", recipe, images, draws)
    originals = images.permute(0, 3, 1, 2).float() / 255

    def of(sample: int) -> Any:
        mine = [{name: values[sample] for name, values in params.items()} for params in drawn]
        return mine if len(mine) > 1 else mine[0]

    def expected(image: int, sample: int) -> torch.Tensor:
        params = of(sample)
        if isinstance(params, dict) and not params["apply"]:
            return originals[image]
        return row.oracle(originals[image], params)

    right = gaps(results, [expected(sample, sample) for sample in range(len(images))])
    within = right <= row.oracle_tolerance
    stray = 1 - within.double().mean().item()
    close = right[within]
    worst = close.max().item() if len(close) else float("inf")
    agreement.note(label, outside=f"{worst:.2g}" + (f", {100 * stray:.1g} %" if stray else ""))
    assert stray <= row.oracle_stray
    if recipe.size is not None:  # its neighbour's image is another result
        wrong = gaps(
            results[1:], [expected(sample - 1, sample) for sample in range(1, len(images))]
        )
        assert (wrong > row.oracle_tolerance).double().mean() > 0.1 + row.oracle_stray


WITH_GATE = [label for label, row in ROWS.items() if not isinstance(row.operation, Normalize)]


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("label", WITH_GATE)
def test_a_closed_gate_changes_no_bit(images, label, name):
    """Where no leaf applies, the image comes out as it went in."""
    recipe = recipe_with(ROWS[label].operation)
    draws = draw(recipe, 6)
    closed = tuple(params | {"apply": np.zeros_like(params["apply"])} for params in draws.params)

    results = (
        run(name, recipe, images[:6], replace(draws, params=closed)) if recipe.size == SIZE else []
    )

    for result, image in zip(results, images, strict=False):
        assert torch.equal(result, image.permute(2, 0, 1).float() / 255)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("label", ROWS)
def test_results_do_not_depend_on_the_batch(images, label, name):
    """A sample alone, or a group of mixed ones, gives the same values as among others."""
    recipe = recipe_with(ROWS[label].operation)
    draws = draw(recipe, 4)

    together = run(name, recipe, images[10:14], draws)  # noise and photographs
    apart: Pictures = []
    for start in range(0, 4, recipe.group):
        rows = slice(10 + start, 10 + start + recipe.group)
        apart += run(name, recipe, images[rows], draws.rows(start, start + recipe.group))

    assert gaps(together, apart).max() <= 0.001


def test_every_operation_has_a_row():
    """No operation of the package goes without a comparison."""
    compared = {
        type(leaf) for row in ROWS.values() for leaf in (row.operation, *row.operation.leaves)
    }
    public = {
        kind
        for name, kind in Operation._classes.items()
        if kind.__module__.startswith("gpu_aug.") and not name.startswith("_")
    }
    assert {kind.__name__ for kind in public - compared} <= UNCOMPARED


COMBINATORS = {"RandomApply", "OneOf", "SomeOf", "RandomOrder", "SomeOfRepeated"}  # test_combine.py
FOREIGN = {"AlbumentationsTransform", "KorniaModule", "TorchvisionTransform", "BatchFunction"}
ON_TARGETS = {"ClampBoundingBoxes", "SanitizeBoundingBoxes"}  # test_move.py
ON_TIME = {"FrameDrop", "SpeedJitter", "TemporalReverse"}  # test_temporal.py
UNCOMPARED = COMBINATORS | FOREIGN | ON_TARGETS | ON_TIME | {"Identity"}


def test_the_table_in_the_documentation_lists_every_row():
    """docs/agreement.md was written after the last row was added."""
    table = (ROOT / "docs" / "agreement.md").read_text(encoding="utf-8")

    listed = {
        line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if " | " in line
    }
    assert set(ROWS) <= listed


WHOLE = Recipe(
    [
        RandomResizedCrop(SIZE),
        HorizontalFlip(),
        RandomAffine(10, (0.1, 0.1), p=0.5),
        ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        Grayscale(),
        GaussianBlur(5, p=0.5),
        Normalize(),
        RandomErasing(0.5),
    ]
)


def test_engines_agree_on_a_whole_recipe(images):
    """Differences do not grow along a chain of all kinds of operations."""
    draws = draw(WHOLE, len(images))

    by_kornia = run("kornia", WHOLE, images, draws)
    by_albumentations = run("albumentations", WHOLE, images, draws)
    by_fused = run("fused", WHOLE, images, draws)

    # Normalize divides by 0.22, so the values are 4.5 times as far apart. Measured: 0.04.
    assert gaps(by_kornia, by_albumentations).max() <= 0.3
    assert gaps(by_kornia, by_fused).max() <= 0.3
    later = WHOLE.draw(1, 1, np.arange(len(images)), np.full((len(images), 2), SIZE))
    assert gaps(by_kornia, run("albumentations", WHOLE, images, later)).max() > 100


@pytest.mark.parametrize("name", ENGINES)
def test_gamma_takes_what_bicubic_resampling_leaves(images, name):
    """Values below 0 beside an edge become 0, and no image loses a pixel to NaN."""
    recipe = Recipe([Resize(SIZE, interpolation="bicubic"), Gamma(0.5, p=1)])
    draws = recipe.draw(0, 0, np.arange(6), np.tile([[30, 40]], (6, 1)))
    small = images[:6, :30, :40].contiguous()
    out = torch.empty(6, 3, *SIZE)

    compile_engine(name, recipe, device=CPU).run(small, draws, out)

    assert out.min() == 0
    assert torch.isfinite(out).all()


@pytest.mark.needs_cuda
@pytest.mark.parametrize("label", ROWS)
def test_devices_agree(images, label):
    """Kornia on CUDA differs from Kornia on the CPU by no more than the operation's tolerance."""
    operation = ROWS[label].operation
    recipe = recipe_with(operation)
    draws = draw(recipe, len(images))

    on_cpu = run("kornia", recipe, images, draws)
    on_cuda = run("kornia", recipe, images, draws, torch.device("cuda"))

    assert gaps(on_cpu, on_cuda).max() <= tolerance_of(operation)
