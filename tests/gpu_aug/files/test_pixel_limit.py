"""A line of a file cannot make a recipe take all memory: sizes have a limit, also in the middle of a recipe."""

from pathlib import Path

import albumentations as A
import pytest

from gpu_aug import Recipe, RecipeError, Resize, Schedule
from gpu_aug.files.schema import load_recipe

TOO_LARGE = {
    "Resize: {size: [20000, 20000]}": "Resize makes images of 20000x20000 pixels",
    "Resize: 20000": "Resize makes images of 20000x29099",
    "Resize: {size: null, max_size: 99999999}": "Resize makes images of",
    "Resize: 9000000000000000000": "Resize makes images of",
    "Resize: 99999999999999999999": "Resize makes images of",
    "LongestMaxSize: 100000": "LongestMaxSize makes images of",
    "RandomShortestSize: {min_size: 100000}": "RandomShortestSize makes images of",
    "RandomScale: [900, 1000]": "RandomScale makes images of",
    "ScaleJitter: {target_size: 64, scale_range: [1000, 2000]}": "ScaleJitter makes images of",
    "RandomZoomOut: {side_range: [1, 1000]}": "RandomZoomOut makes images of",
    "Pad: 100000": "Pad makes images of",
    "PadIfNeeded: 100000": "PadIfNeeded makes images of",
    "RandomCrop: 50000": "RandomCrop makes images of",
    "CenterCrop: 12000": "CenterCrop makes images of",
    "RandomResizedCrop: 20000": "RandomResizedCrop makes images of",
    "RandomApply: {operations: [Resize: [30000, 30000], CenterCrop: 8], p: 1}": "Resize makes images of",
    "OneOf: {operations: [Resize: [30000, 30000], Grayscale: 1]}": "Resize makes images of",
    "SomeOf: {operations: [Resize: [30000, 30000], Grayscale: 1]}": "Resize makes images of",
}
LAST = "\n- CenterCrop: 8\n"


@pytest.mark.parametrize("step", TOO_LARGE)
def test_too_large_images_are_refused_by_name_and_line(step: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(f"version: 1\noperations:\n- Grayscale\n- {step}{LAST}")
    with pytest.raises(
        RecipeError, match=f"recipe.yaml:4: {TOO_LARGE[step]}.*max_pixels=100000000"
    ):
        Recipe.load(path)


def test_views_schedules_and_files_of_albumentations_are_limited_too(tmp_path: Path) -> None:
    step = "Resize: [30000, 30000]"
    (tmp_path / "views.yaml").write_text(f"version: 1\nviews:\n- - {step}\n")
    (tmp_path / "schedule.yaml").write_text(
        f"version: 1\nschedule:\n- from_epoch: 0\n  operations: [{step}]\n"
    )
    A.save(A.Compose([A.Resize(30000, 30000), A.CenterCrop(8, 8)]), tmp_path / "saved.json")
    for load, name in (
        (load_recipe, "views.yaml"),
        (Schedule.load, "schedule.yaml"),
        (Recipe.from_albumentations, "saved.json"),
    ):
        with pytest.raises(RecipeError, match="Resize makes images of 30000x30000 pixels"):
            load(tmp_path / name)


def test_the_limit_can_be_raised_and_does_not_hold_for_code(tmp_path: Path) -> None:
    recipe = Recipe([Resize((20000, 20000))])
    recipe.save(tmp_path / "recipe.yaml")
    assert Recipe.load(tmp_path / "recipe.yaml", max_pixels=500_000_000) == recipe
    Recipe([Resize(20000)])
