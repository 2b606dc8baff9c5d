"""Albumentations' benchmarks: every library does the work of a row, and nothing of the original is left out silently."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bench.baselines.translations import albumentations_compose, check_dali_recipe
from bench.published import albumentations_dali, albumentations_images
from bench.published.albumentations_dali import DALI_OPS, recipe_of
from bench.published.albumentations_images import works_of
from bench.published.albumentations_ops import ALBUMENTATIONS_OPS, LEFT_OUT, PIPELINES
from bench.published.operations import Op
from gpu_aug import Normalize
from tests.support.commands import Run
from tests.support.jpegs import picture

# Both sides are divisible by 4, as `rows` makes them.
PHOTOGRAPH = picture(48, 64, 0)
# Kornia's LongestMaxSize and its rotation by 90 degrees have sizes of their own.
OTHER_SIZES = {"SmallestMaxSize", "RandomRotate90"}


def some(ops: tuple[Op, ...]) -> list[object]:
    """Return operations as cases, of which only the first is quick."""
    marks = [pytest.mark.long]
    return [pytest.param(op, id=op.name, marks=marks * (op is not ops[0])) for op in ops]


@pytest.mark.filterwarnings("ignore:The image decoding and encoding:DeprecationWarning")  # v2.JPEG
@pytest.mark.parametrize("op", some((*ALBUMENTATIONS_OPS, *PIPELINES)))
def test_all_libraries_make_images_of_one_size(op: Op) -> None:
    made = {name: make()()[0] for name, make in works_of(op, [PHOTOGRAPH]).items()}  # type: ignore[index]

    ours, theirs = made.pop("gpu-aug"), made.pop("Albumentations")
    assert ours.dtype == theirs.dtype
    assert sorted(ours.shape) == sorted(theirs.shape)
    if op.name not in OTHER_SIZES:
        assert {tuple(tensor.shape[-2:]) for tensor in made.values()} <= {ours.shape[:2]}


def test_flips_are_equal() -> None:
    [flip] = [op for op in ALBUMENTATIONS_OPS if op.name == "HorizontalFlip"]
    made = [make()()[0] for make in works_of(flip, [PHOTOGRAPH]).values()]  # type: ignore[index]

    for image in made:
        if isinstance(image, torch.Tensor):
            scale = 255 if image.is_floating_point() else 1
            image = (image.reshape(3, 48, 64) * scale).round().permute(1, 2, 0).numpy()
        np.testing.assert_array_equal(image, PHOTOGRAPH[:, ::-1])


def test_the_caption_names_the_transforms_without_a_row() -> None:
    meaning = albumentations_images.MEANING

    assert "53 of the 57 transforms" in meaning
    assert [name for name in LEFT_OUT if name not in meaning] == []


@pytest.mark.parametrize("op", DALI_OPS, ids=lambda op: op.name)
def test_a_recipe_is_translated_to_dali_and_albumentations(op: Op) -> None:
    recipe = recipe_of(op)

    check_dali_recipe(recipe)
    assert len(albumentations_compose(recipe).transforms) == len(recipe.operations) + 1
    assert isinstance(recipe.operations[-1], Normalize)
    assert min(recipe.fixed_size) >= 224


def test_the_comparison_with_dali_has_its_transforms() -> None:
    assert len({op.name for op in DALI_OPS}) == 22


@pytest.mark.long
@pytest.mark.needs_dali
def test_a_row_has_a_process_for_each_contestant(
    photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Two rows, so that every process opens a second task."""
    monkeypatch.setattr(albumentations_dali, "DALI_OPS", DALI_OPS[1:3])
    path = tmp_path / "result.json"
    source = photos[0].parent
    code, said, _ = run(
        "bench", "published", "albumentations-dali", source, "--quick", "--json", path
    )

    assert code == 0
    assert said.count("DALI ") >= 2
    assert "absent" not in said
