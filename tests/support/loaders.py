"""Small loaders on the CPU: what the tests of loaders have in common."""

from collections.abc import Callable
from typing import Any

from dali_pipes import Loader

USUAL: dict[str, Any] = {"batch_size": 4, "device": "cpu", "decoder": "cpu", "num_threads": 1}
"""The arguments of every such loader, unless its test says otherwise."""


def loader_maker(recipe: Any = None, **usual: Any) -> Callable[..., Loader]:
    """Return a function `make(dataset, recipe, **options)` with the usual arguments of one test file.

    Args:
        recipe: The recipe where a call gives none.
        usual: Arguments on top of USUAL; those of a call go before them.
    """

    def make(dataset: Any, recipe: Any = recipe, **options: Any) -> Loader:
        return Loader(dataset, recipe, **{**USUAL, **usual, **options})

    return make
