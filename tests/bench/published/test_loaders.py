"""`gpu-aug bench published spdl` and `grain`: the others of a row make the same images as our Loader."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from bench.compare.photographs import encode
from bench.published import grain, spdl
from bench.published.spdl import TorchExample
from dali_pipes import Loader
from gpu_aug import Recipe
from readers import open_dataset
from tests.support.commands import Run
from tests.support.jpegs import picture

# Mean difference in levels: resampling rounds otherwise; another crop or channel order differs by far more.
TOLERANCE = 0.5


def recipe_of(module: Any, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """Return the recipe of a benchmark."""
    monkeypatch.setattr(module, "rows_of_loaders", lambda _, recipe, __: [recipe])
    [recipe] = module.rows(None)
    assert isinstance(recipe, Recipe)
    return recipe


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A picture that all of them make smaller, alone in its folder."""
    (tmp_path / "photos").mkdir()
    path = tmp_path / "photos" / "a.jpg"
    path.write_bytes(encode(Image.fromarray(picture(600, 800, 0)), format="jpeg", quality=95))
    return path


def difference(theirs: torch.Tensor, file: Path, recipe: Recipe) -> float:
    """Return the mean difference from the image of our Loader, in levels."""
    dataset, how = open_dataset(str(file.parent)), {"device": "cpu", "dtype": torch.uint8}
    [mine] = next(iter(Loader(dataset, recipe, batch_size=1, **how))).images  # type: ignore[arg-type]
    assert (theirs.shape, theirs.dtype) == ((3, 224, 224), torch.uint8)
    return float((theirs.float() - mine.float()).abs().mean())


def test_the_example_of_torch_makes_our_images(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipe_of(spdl, monkeypatch)

    assert difference(TorchExample(recipe).load(file), file, recipe) < TOLERANCE


def test_the_example_of_grain_makes_our_images(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = pytest.importorskip("bench.baselines.peers.grain.example")
    theirs = torch.from_numpy(example.Load().map(str(file))).permute(2, 0, 1)

    assert difference(theirs, file, recipe_of(grain, monkeypatch)) < TOLERANCE


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
