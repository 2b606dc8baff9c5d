"""Schedule: which recipe an epoch has, in files and in fingerprints."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_aug import (
    BoxParams,
    HorizontalFlip,
    Mosaic,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Schedule,
    Views,
)
from gpu_aug.files.schema import load_recipe

PLAIN = Recipe([RandomResizedCrop(16), HorizontalFlip()], boxes=BoxParams(min_area=4))
MOSAIC = Recipe([RandomResizedCrop(16), Mosaic(num_classes=3)])
GOLDEN = "69b8132b9ebeccd30717f782ecbd089f9760d3b44c4c39a0db40d27fb533b373"
SCHEDULE = Schedule({290: PLAIN, 0: MOSAIC})


def test_each_epoch_has_one_recipe() -> None:
    """A recipe holds from its epoch on until the next one's."""
    assert [SCHEDULE.at(epoch) is MOSAIC for epoch in (0, 1, 289, 290, 10**6)] == [
        *(True, True, True),
        *(False, False),
    ]
    assert Schedule({0: MOSAIC, 290: PLAIN}) == SCHEDULE
    assert "from epoch 290: " in SCHEDULE.explain()


def test_fingerprints() -> None:
    """Other epochs or recipes are another schedule; one recipe alone is itself. The value is pinned."""
    prints = [
        one.fingerprint
        for one in (SCHEDULE, Schedule({0: MOSAIC, 291: PLAIN}), Schedule({0: PLAIN, 290: MOSAIC}))
    ]
    assert len(set(prints)) == 3
    assert Schedule({0: PLAIN}).fingerprint == PLAIN.fingerprint
    fixed = Schedule({0: Recipe([RandomResizedCrop(16)]), 3: Recipe([RandomResizedCrop(8)])})
    assert fixed.fingerprint == GOLDEN


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
@pytest.mark.parametrize(
    "schedule", [SCHEDULE, Schedule({0: Views([PLAIN, MOSAIC]), 2: Views([MOSAIC, PLAIN])})]
)
def test_files(tmp_path: Path, name: str, schedule: Schedule) -> None:
    """A schedule that was written is read back, by its dictionary as well."""
    schedule.save(tmp_path / name)
    assert Schedule.load(tmp_path / name) == schedule
    assert Schedule.from_dict(json.loads(json.dumps(schedule.to_dict()))) == schedule
    with pytest.raises(RecipeError, match=r"recipes by epoch: read it with Schedule\.load"):
        load_recipe(tmp_path / name)
    PLAIN.save(tmp_path / name)
    assert Schedule.load(tmp_path / name) == Schedule({0: PLAIN})


def test_written_by_hand(tmp_path: Path) -> None:
    """The short form works, and what is wrong is named with its line."""
    path = tmp_path / "a.yaml"
    text = """version: 1
schedule:
- from_epoch: 0
  operations: [RandomResizedCrop: 16, Mosaic]
- from_epoch: 5
  operations: [RandomResizedCrop: 16]
"""
    path.write_text(text)
    assert Schedule.load(path).first_epochs == (0, 5)
    for old, new, said in (
        ("from_epoch: 5", "from_epoch: 0", r"a\.yaml:2: .*one recipe for an epoch"),
        ("from_epoch: 0", "from_epoch: 1", r"a\.yaml:2: .*its first is for epoch 1"),
        ("from_epoch: 5", "epoch: 5", r"a\.yaml:5: .*has no 'epoch'.* from_epoch"),
        ("Mosaic", "Mosiac", r"a\.yaml:4: .*Mosaic"),
        ("version: 1", "version: 9", r"a\.yaml:1: recipe version must be 1"),
    ):
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(RecipeError, match=said):
            Schedule.load(path)
    path.write_text("version: 1\nschedule: 5\n")
    with pytest.raises(RecipeError, match=r"a\.yaml:2: schedule must be a list of recipes"):
        Schedule.load(path)


@pytest.mark.parametrize(
    ("recipes", "said"),
    [
        ({}, "must be a dictionary of epochs and recipes"),
        ([PLAIN], "must be a dictionary of epochs and recipes"),
        ({1: PLAIN}, "its first is for epoch 1: begin with 0"),
        ({0: PLAIN, 2.5: PLAIN}, r"whole numbers from 0, got 2\.5"),
        ({0: PLAIN, -1: PLAIN}, "whole numbers from 0, got -1"),
        ({True: PLAIN}, "whole numbers from 0, got True"),
        (
            {0: PLAIN, 1: [HorizontalFlip()]},
            r"recipe from epoch 1 on must be Recipe or Views, got ",
        ),
        ({0: PLAIN, 1: Views([PLAIN, PLAIN])}, r"same number of views, got \[1, 2\]"),
    ],
)
def test_refused(recipes: Any, said: str) -> None:
    """What is no schedule is named when it is made."""
    with pytest.raises(RecipeError, match=said):
        Schedule(recipes)
