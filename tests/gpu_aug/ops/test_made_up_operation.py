"""A new operation needs one dataclass, and one function for each library engine."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import pytest
import torch

from gpu_aug import HorizontalFlip, Identity, Recipe, RecipeError, apply
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Key, Numbers, Random, Uniform
from gpu_aug.ops.operation import Operation


@pytest.fixture(scope="module", autouse=True)
def operation() -> Iterator[type[Operation]]:
    """Declare the operation, and forget it afterwards."""
    from gpu_aug.engines.backends.step import numpy_step, torch_step

    @dataclass(frozen=True)
    class Fade(Operation):
        """Blend with black or white."""

        tolerance: ClassVar[float] = 0.001
        random: ClassVar[Random] = {"share": Uniform("strength")}

        strength: Annotated[
            tuple[float, float], validation.Interval(low=0, high=1, example="(0.2, 0.4)")
        ] = (0.2, 0.4)
        _: KW_ONLY
        to: Literal["black", "white"] = "black"
        p: float = 0.5

    @torch_step
    def fade_torch(operation: Fade, x, params):
        share = torch.from_numpy(params["share"].astype(np.float32))[:, None, None, None]
        return x * (1 - share) + (operation.to == "white") * share

    @numpy_step
    def fade_numpy(operation: Fade, image, params, row):
        share = np.float32(params["share"][row])
        return image * (1 - share) + np.float32(operation.to == "white") * share

    yield Fade
    Operation._classes.pop("Fade")


def test_all_engines_carry_it_out(operation):
    """The same images come out of every engine, and the images differ from those that went in."""
    recipe = Recipe([operation((0.3, 0.6), to="white", p=0.7)])
    samples = [{"image": np.full((12, 10, 3), 40 * number, np.uint8)} for number in range(1, 7)]
    before, *results = (
        np.stack([one["image"] for one in apply(recipe, samples, seed=1, engine=engine)])
        for recipe, engine in (
            (Recipe([Identity()]), "kornia"),
            *((recipe, engine) for engine in ("kornia", "albumentations", "fused")),
        )
    )

    changed = (results[0] != before).reshape(len(samples), -1).any(axis=1)
    assert 0 < changed.sum() < len(samples)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_its_fields_are_checked(operation):
    """The errors name the operation, the field, and what is allowed."""
    with pytest.raises(RecipeError, match=r"Fade strength must be \(smallest, largest\) .* 0.*1"):
        operation((0.2, 1.4))
    with pytest.raises(RecipeError, match="Fade to must be 'black' or 'white'"):
        operation(to="gray")
    with pytest.raises(RecipeError, match="Fade p must be a probability"):
        operation(p=2)


def test_it_is_stored_by_name(operation):
    """A recipe with it survives being written and read."""
    recipe = Recipe([operation((0, 1), p=0.25)])

    assert Recipe.from_dict(recipe.to_dict()) == recipe


def test_its_numbers_are_counted(operation):
    """One number for the gate, and those of its columns; without a field p there is no gate."""

    class Ungated(Operation, abstract=True):
        random: ClassVar[Random] = {"key": Key(), "more": Numbers(lambda one: one.count)}
        count = 3

    assert operation().num_uniforms == 2
    assert Ungated().num_uniforms == 5
    drawn = Ungated().draw(np.full((4, 5), 0.5), np.full((4, 2), 9))
    assert drawn["apply"].all()
    assert (drawn["key"].shape, drawn["more"].shape) == ((4, 2), (4, 3))


def test_a_name_of_this_package_is_taken():
    """Recipe files and fingerprints know operations by their names, so one name is one operation."""
    with pytest.raises(TypeError, match="HorizontalFlip is an operation of gpu_aug: give yours"):
        type("HorizontalFlip", (Operation,), {"__module__": "mine"})
    assert Operation._classes["HorizontalFlip"] is HorizontalFlip
