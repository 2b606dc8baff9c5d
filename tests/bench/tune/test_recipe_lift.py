"""What a recipe costs without its most expensive operation."""

from types import SimpleNamespace

import pytest
import torch

from bench.tune.recipe_lift import _left_without, operation_costs
from gpu_aug import ElasticTransform, HorizontalFlip, Normalize, RandomResizedCrop, Recipe

RECIPE = Recipe(
    [RandomResizedCrop(64), HorizontalFlip(), ElasticTransform(alpha=30.0), Normalize()]
)
CEILINGS = SimpleNamespace(setting=SimpleNamespace(engine="fused", num_threads=2, batch_size=16))


def test_the_dearest_is_known() -> None:
    """A field of displacements takes longer than a flip, and what decodes is none of them."""
    costs = operation_costs(RECIPE, "fused")
    assert max(costs, key=lambda name: costs[name]) == "ElasticTransform"
    assert "RandomResizedCrop" not in costs


@pytest.mark.parametrize(
    ("name", "least", "most"), [("ElasticTransform", 0.0, 0.5), ("HorizontalFlip", 0.5, 1.0)]
)
def test_what_is_left_without_it(name: str, least: float, most: float) -> None:
    """Little without the dearest, most without a cheap one; and torch has as many threads as before."""
    before = torch.get_num_threads()
    assert least <= _left_without(name, RECIPE, CEILINGS) <= most  # type: ignore[arg-type]
    assert torch.get_num_threads() == before
