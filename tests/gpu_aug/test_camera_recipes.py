"""CameraRecipes: which cameras share a recipe and its draws, in files and in fingerprints."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_aug import (
    BoxParams,
    CameraRecipes,
    ColorJitter,
    HorizontalFlip,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Schedule,
    Views,
    apply,
)
from gpu_aug.files.schema import load_recipe

CROPS = Recipe([RandomResizedCrop(16), HorizontalFlip()], boxes=BoxParams(min_area=4))
COLORS = Recipe([RandomResizedCrop((8, 12)), ColorJitter(0.2)])
CAMERAS = CameraRecipes({("left", "right"): CROPS, "top": COLORS})


def test_groups() -> None:
    """A key is a camera or a tuple of them; the groups are views with their own names."""
    assert CAMERAS.groups == (("left", "right"), ("top",))
    assert CAMERAS.recipes == (CROPS, COLORS)
    assert CameraRecipes({("left", "right"): CROPS, ("top",): COLORS}) == CAMERAS
    assert [line.partition(":")[0] for line in CAMERAS.explain().splitlines()[:1]] == [
        "left, right"
    ]
    assert "\ntop: " in CAMERAS.explain()


def test_draws_are_those_of_views() -> None:
    """Group n draws as view n; each may have source images of its own sizes."""
    indices, sizes = np.arange(3), np.array([[40, 50], [60, 30], [32, 32]])
    apart = np.stack([sizes, 2 * sizes])
    together, own = (CAMERAS.draw(3, 1, indices, one) for one in (sizes, apart))
    views = Views([CROPS, COLORS]).draw(3, 1, indices, sizes)

    for one, other, view in zip(together, own, views, strict=True):
        assert np.array_equal(one.crops.start, view.crops.start)
        assert all(map(np.array_equal, one.params[0].values(), other.params[0].values()))
    assert np.array_equal(own[0].crops.start, together[0].crops.start)
    assert np.array_equal(own[1].sizes, 2 * sizes)


def test_fingerprints() -> None:
    """Other cameras, groups, recipes or places are another fingerprint."""
    others: list[dict[Any, Recipe]] = [
        {"top": COLORS, ("left", "right"): CROPS},
        {("right", "left"): CROPS, "top": COLORS},
        {"left": CROPS, ("right", "top"): COLORS},
        {("left", "right"): COLORS, "top": CROPS},
        {"left, right": CROPS, "top": COLORS},
    ]
    made = [CAMERAS, *map(CameraRecipes, others)]

    assert len({one.fingerprint for one in made} | {Views([CROPS, COLORS]).fingerprint}) == 7
    assert len(set(made)) == 6


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_files(tmp_path: Path, name: str) -> None:
    """They are read back as they were written, in a schedule, too."""
    schedule = Schedule({0: CAMERAS, 3: CameraRecipes({("left", "right"): COLORS, "top": COLORS})})
    CAMERAS.save(tmp_path / name)
    schedule.save(tmp_path / f"schedule-{name}")

    assert load_recipe(tmp_path / name) == CAMERAS
    assert CameraRecipes.from_dict(json.loads(json.dumps(CAMERAS.to_dict()))) == CAMERAS
    assert Schedule.load(tmp_path / f"schedule-{name}") == schedule
    with pytest.raises(RecipeError, match=r"CameraRecipes\.from_dict was given a Views"):
        CameraRecipes.from_dict(Views([CROPS]).to_dict())


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ("[{cameras: [a], operations: [Invert]}, {operations: [Invert]}]", "a list of names"),
        ("[{cameras: [a, 3], operations: [Invert]}]", "a list of names"),
        ("[{cameras: [a], operations: [Invert]}, {cameras: [a], operations: []}]", "group twice"),
        ("[{cameras: [a], operations: [Invert]}, {cameras: [b, a], operations: [Invert]}]", "a is"),
        ("[{cameras: [a], operations: [Inverse]}]", "operation must be"),
        ("[{cameras: [], operations: [Invert]}]", r"got \(\)"),
        ("[]", "at least one Recipe"),
        ("{cameras: [a]}", "recipe operations must be a list"),
        ("[{cameras: [a], operations: [Invert]}]\nviews: []", "has no 'views'"),
    ],
)
def test_faults_of_files(tmp_path: Path, groups: str, says: str) -> None:
    """An error names the file, the line and the fault."""
    path = tmp_path / "cameras.yaml"
    path.write_text(f"version: 1\ncamera_groups: {groups}\n")
    with pytest.raises(RecipeError, match=rf"cameras\.yaml:\d: .*{says}"):
        load_recipe(path)


@pytest.mark.parametrize(
    ("recipes", "says"),
    [
        ({}, "at least one Recipe, got {}"),
        ([CROPS], "must be a dictionary"),
        ({3: CROPS}, "tuple of names, got 3"),
        ({"": CROPS}, r"tuple of names, got \(''"),
        ({frozenset({"a", "b"}): CROPS}, "tuple of names, got frozenset"),
        ({"a": CROPS, ("b", "a"): COLORS}, "a is named twice"),
        ({("a", "a"): CROPS}, "a is named twice"),
        ({"a": Views([CROPS])}, "the recipe of a must be Recipe"),
        ({"a": CAMERAS}, "the recipe of a must be Recipe"),
    ],
)
def test_refused(recipes: Any, says: str) -> None:
    """A camera has one recipe, which is no Views."""
    with pytest.raises(RecipeError, match=says):
        CameraRecipes(recipes)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Views([CAMERAS]), "view 0 must be Recipe"),  # type: ignore[list-item]
        (lambda: CAMERAS.transform(), "give them to a Loader"),
        (lambda: Schedule({0: CAMERAS}).transform(), "give them to a Loader"),
        (lambda: apply(CAMERAS, [{"image": np.zeros((8, 8, 3), np.uint8)}]), "give them to a Load"),
    ],
)
def test_only_a_loader_knows_cameras(call: Any, says: str) -> None:
    """Views of them, transforms and apply would not know which image is of which camera."""
    with pytest.raises(RecipeError, match=says):
        call()
