"""The engines give the same pixels on the same draws, and those of code from outside.

Every operation has a row in tests/support/rows. Every comparison has a negative control: a slightly
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
    Draws,
    HorizontalFlip,
    Normalize,
    Operation,
    Recipe,
    Resize,
    compile_engine,
)
from gpu_aug.ops.combine import Combinator
from gpu_aug.ops.geometric.spatial import Remap, Warp
from tests.support.agreement import Agreement, gaps
from tests.support.engines import CPU, ENGINES, draw_for, noise, photographs, render, render_groups
from tests.support.rows.row import SIZE, Row

ROOT = Path(__file__).resolve().parents[3]


def collect() -> dict[str, Row]:
    """All rows of all files in tests/support/rows."""
    rows: dict[str, Row] = {}
    for found in pkgutil.iter_modules(tests.support.rows.__path__):
        added = getattr(importlib.import_module(f"tests.support.rows.{found.name}"), "ROWS", {})
        assert not rows.keys() & added.keys()
        rows |= added
    return rows


ROWS = collect()


@pytest.fixture(scope="module")
def images(photos) -> torch.Tensor:
    """uint8 [24, *SIZE, 3]: noise, and small photographs."""
    return torch.cat([noise(12, SIZE), photographs(photos[:12], SIZE)])


SLOW = {"Superpixels()", "piecewise affine"}
"""Rows of which the reference takes a tenth of a second an image: they get a third of the images."""


def recipe_with(operation: Operation) -> Recipe:
    """A recipe whose batch stage ends with ``operation`` on images of SIZE."""
    return Recipe([Resize(SIZE), HorizontalFlip(0), operation])


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
    by: dict[str, list[torch.Tensor]]

    @property
    def half(self) -> int:
        """How many of the images are noise; the others are photographs."""
        return len(self.images) // 2

    @property
    def mixed(self) -> slice:
        """As much noise as photographs, and full groups of images that are mixed."""
        return slice(self.half - 4, self.half + 4)

    @property
    def tolerance(self) -> float:
        """What the row's operation allows."""
        return tolerance_of(self.row.operation)

    def some(self, name: str, rows: slice, **output: Any) -> list[torch.Tensor]:
        """Render some of the images again."""
        draws = self.draws.rows(rows.start, rows.stop)
        return list(render(name, self.recipe, self.images[rows], draws, **output))


@pytest.mark.parametrize("label", ROWS)
def test_engines_agree(images: torch.Tensor, agreement: Agreement, label: str) -> None:
    """A row of the table: engines agree, which the tolerance can tell, and with the code from outside."""
    row = ROWS[label]
    images = images[8:16] if label in SLOW else images
    recipe = recipe_with(row.operation)
    draws = draw_for(recipe, images)
    by = {name: list(render(name, recipe, images, draws)) for name in ENGINES}
    rendered = Rendered(row, recipe, images, draws, by)

    found = float_gaps(rendered)
    if not any(leaf.leaves_unit_range for leaf in row.operation.leaves):
        found |= uint8_gaps(rendered)
    found |= {"control": smallest_control(rendered)}
    found |= outside_gaps(rendered) if row.oracle else {}
    agreement.note(label, operation=type(row.operation).__name__, **found)
    check_closed_gates(rendered)
    check_each_image_alone(rendered)


def float_gaps(rendered: Rendered) -> dict[str, float]:
    """Kornia and fused differ from Albumentations by no more than the tolerance."""
    by, tolerance, half, rows = rendered.by, rendered.tolerance, rendered.half, rendered.mixed
    noise = gaps(by["kornia"][:half], by["albumentations"][:half])
    photo = gaps(by["kornia"][half:], by["albumentations"][half:])
    fused = gaps(by["fused"], by["albumentations"]).max().item()
    assert max(noise.max(), photo.max()) <= tolerance
    assert fused <= tolerance
    draws = rendered.draws.rows(rows.start, rows.stop)
    floats = render("fused", rendered.recipe, rendered.images[rows].float() / 255, draws)
    assert gaps(floats, by["albumentations"][rows]).max() <= max(tolerance, 1e-4)
    return {
        "noise_max": noise.max().item(), "noise_mean": noise.mean().item(),
        "photo_max": photo.max().item(), "photo_mean": photo.mean().item(),
        "fused": fused, "tolerance": tolerance,
    }  # fmt: skip


def uint8_gaps(rendered: Rendered) -> dict[str, float]:
    """Written as uint8, results differ by no more than the tolerance and one rounding step."""
    rows = rendered.mixed
    written = {name: rendered.some(name, rows, dtype=torch.uint8) for name in ENGINES}
    rounded = [
        image.mul(255).round().clamp(0, 255).byte() for image in rendered.by["albumentations"][rows]
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
        other = render("albumentations", rendered.recipe, rendered.images, moved)
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
        for sample in range(rendered.mixed.start, rendered.mixed.stop)
        if (other := expected(sample - 1, sample)).shape == results[sample].shape
    ]
    assert (torch.cat(wrong) > row.oracle_tolerance).double().mean() > 0.1 + row.oracle_stray
    worst = right[within].max().item()
    return {"outside": f"{worst:.2g}" + (f", {100 * stray:.1g} %" if stray else "")}


def check_closed_gates(rendered: Rendered) -> None:
    """Where no leaf applies, the image comes out as it went in, at its own size."""
    if isinstance(rendered.row.operation, Normalize):  # it has no gate
        return
    rows = slice(rendered.half - 2, rendered.half + 2)
    draws = rendered.draws.rows(rows.start, rows.stop)
    closed = tuple(params | {"apply": np.zeros_like(params["apply"])} for params in draws.params)
    images = rendered.images[rows]
    for name in ENGINES:
        engine = compile_engine(name, rendered.recipe, device=CPU)
        results = render_groups(engine, rendered.recipe, images, replace(draws, params=closed))
        for result, image in zip(results, images, strict=True):
            assert torch.equal(result, image.permute(2, 0, 1).float() / 255), name


def check_each_image_alone(rendered: Rendered) -> None:
    """A sample alone, or a group of mixed ones, gives the same values as among others."""
    group = rendered.recipe.group
    for start in (rendered.half - 4, rendered.half):  # noise and a photograph
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
    """Return the largest difference of kornia and fused from albumentations, on one draw."""
    data = pytest.importorskip("skimage.data")
    photo = Image.fromarray(data.astronaut()).resize((side, side))
    images = torch.from_numpy(np.array(photo))[None]
    recipe = Recipe([Resize((side, side)), HorizontalFlip(0), ROWS[label].operation])
    expected = render("albumentations", recipe, images)
    return max(
        gaps(render(name, recipe, images), expected).max().item() for name in ("kornia", "fused")
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


@pytest.mark.needs_cuda
@pytest.mark.parametrize("label", ROWS)
def test_devices_agree(images, label):
    """Kornia on CUDA differs from Kornia on the CPU by no more than the operation's tolerance."""
    recipe = recipe_with(ROWS[label].operation)
    on_cpu, on_cuda = (
        render("kornia", recipe, images, device=torch.device(name)) for name in ("cpu", "cuda")
    )
    assert gaps(on_cpu, on_cuda).max() <= tolerance_of(ROWS[label].operation)
