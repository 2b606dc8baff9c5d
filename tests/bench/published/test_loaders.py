"""`gpu-aug bench published spdl` and `grain`: the others of a row make the same images as our Loader."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bench.published import grain, spdl
from bench.published.spdl import TorchExample
from dali_pipes import Loader
from gpu_aug import Recipe
from readers import open_dataset
from tests.support.commands import Run

# Mean difference in levels: resampling rounds otherwise; another crop or channel order differs by far more.
TOLERANCE = 1.5


def recipe_of(module: Any, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """Return the recipe of a benchmark."""
    monkeypatch.setattr(module, "rows_of_loaders", lambda _, recipe, __: [recipe])
    [recipe] = module.rows(None)
    assert isinstance(recipe, Recipe)
    return recipe


def ours(folder: Path, recipe: Recipe) -> torch.Tensor:
    """Return the first image of our Loader, [3, height, width]."""
    loader = Loader(
        open_dataset(str(folder)),
        recipe,
        batch_size=1,
        device="cpu",
        dtype=torch.uint8,
        shuffle="none",
    )
    image: torch.Tensor = next(iter(loader)).images[0]
    return image


def first_file(folder: Path) -> Path:
    [sample] = open_dataset(str(folder)).fetch([0])
    return folder / sample.key


def test_the_example_of_torch_makes_our_images(
    photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = photos[0].parent
    recipe = recipe_of(spdl, monkeypatch)

    theirs = TorchExample(recipe).load(first_file(folder))
    assert (theirs.shape, theirs.dtype) == ((3, 224, 224), torch.uint8)
    assert (theirs.float() - ours(folder, recipe).float()).abs().mean() < TOLERANCE


def test_the_example_of_grain_makes_our_images(
    photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    example = pytest.importorskip("bench.baselines.peers.grain.example")
    folder = photos[0].parent

    theirs = example.Load().map(str(first_file(folder)))
    assert (theirs.shape, theirs.dtype) == ((224, 224, 3), np.uint8)
    mine = ours(folder, recipe_of(grain, monkeypatch)).permute(1, 2, 0).numpy()
    assert np.abs(theirs.astype(float) - mine).mean() < TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize(("name", "most"), [("imread", 3), ("spdl", 1), ("grain", 1)])
def test_command(run: Run, photos: list[Path], tmp_path: Path, name: str, most: int) -> None:
    """A quick run measures ours in each row, and names what is missing."""
    path = tmp_path / "result.json"
    code, _, _ = run("bench", "published", name, photos[0].parent, "--quick", "--json", path)

    written = json.loads(path.read_text())
    assert code == 0
    assert 1 <= len(written["rows"]) <= most
    for row in written["rows"]:
        assert any(contestant.startswith("gpu-aug") for contestant in row["measured"]), row
