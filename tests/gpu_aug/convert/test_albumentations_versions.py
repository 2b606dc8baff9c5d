"""Which versions of Albumentations are allowed are those that the tests have passed with."""

import tomllib
from importlib.metadata import metadata, version
from pathlib import Path

import albumentations

TRIED = ("2.0.7", "2.0.8")
"""By the commands in CONTRIBUTING.md; 2.0.6 and older have other modules. Later ones have another licence."""

PYPROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"


def test_versions_that_were_tried_are_allowed():
    """The range in pyproject.toml ends with the oldest and the newest of them."""
    needed = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["dependencies"]

    assert f"albumentations>={TRIED[0]},<={TRIED[-1]}" in needed


def test_this_version_is_one_of_them():
    """It is the package that is meant, under the licence that is meant."""
    assert albumentations.__version__ in TRIED
    assert metadata("albumentations")["License"].startswith("MIT License")
    assert version("albumentations") in TRIED
