"""The engines give the same pixels on the same draws, and those of code from outside.

Every operation has a row in tests/rows. Every comparison has a negative control: a slightly
different parameter must be noticed.
"""

import importlib
import pkgutil
from dataclasses import dataclass, replace
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
from tests.support.agreement import Agreement, gaps
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
ENGINES = ["kornia", "albumentations", "fused"]
SOME = slice(8, 16)  # as much noise as photographs; whole groups of mixed images
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
    return run_each(name, recipe, images, draws, dtype, device)


def run_each(
    name: str,
    recipe: Recipe,
    images: torch.Tensor,
    draws: Draws,
    dtype: torch.dtype = torch.float32,
    device: torch.device = CPU,
) -> Pictures:
    """Results of one group of mixed images after the other, each at the size that its draws give."""
    engine = compile_engine(name, recipe, device=device)
    results: Pictures = []
    for start in range(0, len(images), recipe.group):
        rows = slice(start, start + recipe.group)
        own = draws.rows(start, start + recipe.group)
        height, width = recipe.result_sizes(own)[0].tolist()
        out = torch.zeros(len(images[rows]), 3, height, width, dtype=dtype, device=device)
        engine.run(images[rows].to(device), own, out)
        results += list(out.cpu())
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


@dataclass(frozen=True)
class Rendered:
    """What one row's recipe makes of all images, rendered once by each engine in float32.

    Attributes:
        by: Pictures by the name of the engine.
    """

    row: Row
    recipe: Recipe
    images: torch.Tensor
    draws: Draws
    by: dict[str, Pictures]

    @property
    def tolerance(self) -> float:
        """What the row's operation allows."""
        return tolerance_of(self.row.operation)

    def some(self, name: str, rows: slice, dtype: torch.dtype = torch.float32) -> Pictures:
        """Render some of the images again."""
        draws = self.draws.rows(rows.start, rows.stop)
        return run(name, self.recipe, self.images[rows], draws, dtype=dtype)


@pytest.mark.parametrize("label", ROWS)
def test_engines_agree(images: torch.Tensor, agreement: Agreement, label: str) -> None:
    """A row of the table: engines agree, which the tolerance can tell, and with the code from outside."""
    row = ROWS[label]
    recipe = recipe_with(row.operation)
    draws = draw(recipe, len(images))
    by = {name: run(name, recipe, images, draws) for name in ENGINES}
    rendered = Rendered(row, recipe, images, draws, by)

    found = float_gaps(rendered)
    found |= uint8_gaps(rendered) if unit_range(row.operation) else {}
    found |= {"control": smallest_control(rendered)}
    found |= outside_gaps(rendered) if row.oracle else {}
    agreement.note(label, operation=type(row.operation).__name__, **found)
    check_closed_gates(rendered)
    check_each_image_alone(rendered)


def float_gaps(rendered: Rendered) -> dict[str, float]:
    """Kornia and fused differ from Albumentations by no more than the tolerance."""
    by, tolerance = rendered.by, rendered.tolerance
    noise = gaps(by["kornia"][:12], by["albumentations"][:12])
    photo = gaps(by["kornia"][12:], by["albumentations"][12:])
    fused = gaps(by["fused"], by["albumentations"]).max().item()
    assert max(noise.max(), photo.max()) <= tolerance
    assert fused <= tolerance
    draws = rendered.draws.rows(SOME.start, SOME.stop)
    floats = run("fused", rendered.recipe, rendered.images[SOME].float() / 255, draws)
    assert gaps(floats, by["albumentations"][SOME]).max() <= max(tolerance, 1e-4)
    return {
        "noise_max": noise.max().item(), "noise_mean": noise.mean().item(),
        "photo_max": photo.max().item(), "photo_mean": photo.mean().item(),
        "fused": fused, "tolerance": tolerance,
    }  # fmt: skip


def uint8_gaps(rendered: Rendered) -> dict[str, float]:
    """Written as uint8, results differ by no more than the tolerance and one rounding step."""
    written = {name: rendered.some(name, SOME, dtype=torch.uint8) for name in ENGINES}
    rounded = [
        image.mul(255).round().clamp(0, 255).byte() for image in rendered.by["albumentations"][SOME]
    ]
    steps = gaps(written["kornia"], written["albumentations"]).max().item() / 255
    allowed = np.ceil(rendered.tolerance)
    assert steps <= allowed
    assert gaps(written["fused"], rounded).max() / 255 <= allowed
    return {"uint8": steps}


def smallest_control(rendered: Rendered) -> float:
    """The comparison fails when one drawn value of one engine is slightly different."""
    noticed = []
    for name, change in rendered.row.control.items():
        moved = changed(rendered.draws, name, change)
        other = run("albumentations", rendered.recipe, rendered.images, moved)
        noticed.append(gaps(rendered.by["kornia"], other).max().item())
    assert min(noticed) > rendered.tolerance
    return min(noticed)


def outside_gaps(rendered: Rendered) -> dict[str, str]:
    """Each image is what the outside reference makes of it with the drawn parameters, and not what it makes of another."""
    row, drawn = rendered.row, rendered.draws.params[1:]  # after the flip
    originals = rendered.images.permute(0, 3, 1, 2).float() / 255
    assert row.oracle is not None

    def expected(image: int, sample: int) -> torch.Tensor:
        mine = [{name: values[sample] for name, values in params.items()} for params in drawn]
        if len(mine) == 1 and not mine[0]["apply"]:
            return originals[image]
        return row.oracle(originals[image], mine if len(mine) > 1 else mine[0])

    results = rendered.by["kornia"]
    right = gaps(results, [expected(sample, sample) for sample in range(len(results))])
    within = right <= row.oracle_tolerance
    stray = 1 - within.double().mean().item()
    assert stray <= row.oracle_stray
    wrong = [
        gaps([results[sample]], [other])
        for sample in range(SOME.start, SOME.stop)
        if (other := expected(sample - 1, sample)).shape == results[sample].shape
    ]
    assert (torch.cat(wrong) > row.oracle_tolerance).double().mean() > 0.1 + row.oracle_stray
    worst = right[within].max().item()
    return {"outside": f"{worst:.2g}" + (f", {100 * stray:.1g} %" if stray else "")}


def check_closed_gates(rendered: Rendered) -> None:
    """Where no leaf applies, the image comes out as it went in, at its own size."""
    if isinstance(rendered.row.operation, Normalize):  # it has no gate
        return
    draws = rendered.draws.rows(SOME.start, SOME.stop)
    closed = tuple(params | {"apply": np.zeros_like(params["apply"])} for params in draws.params)
    images = rendered.images[SOME]
    for name in ENGINES:
        results = run_each(name, rendered.recipe, images, replace(draws, params=closed))
        for result, image in zip(results, images, strict=True):
            assert torch.equal(result, image.permute(2, 0, 1).float() / 255), name


def check_each_image_alone(rendered: Rendered) -> None:
    """A sample alone, or a group of mixed ones, gives the same values as among others."""
    group = rendered.recipe.group
    for start in (8, 12):  # noise and a photograph
        rows = slice(start, start + group)
        for name in ENGINES:
            assert gaps(rendered.some(name, rows), rendered.by[name][rows]).max() <= 0.001, name


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
