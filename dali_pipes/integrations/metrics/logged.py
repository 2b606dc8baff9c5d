"""A loader's rates and shares for anything that logs a dictionary, such as a run of Weights & Biases."""

from collections.abc import Callable
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.integrations.metrics.scalars import Since
from dali_pipes.monitoring.stats import Stats


class Logged:
    """Hands what happened between reports over as a dictionary, for ``Monitoring(metrics=...)``.

    Args:
        log: An object with a method `log` that takes a dictionary, such as ``wandb.init()``, or such a function. Where
            each call makes a step of its own, as with W&B: ``lambda values: run.log(values, commit=False)``.
        name: Stands before the names: ``loader/wait_share``.

    Raises:
        LoaderError: It has no such method.

    Example:
        >>> from dali_pipes.integrations.metrics import Logged
        >>> photos = open_dataset("photos/")
        >>> recipe = Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, monitoring=Monitoring(metrics=Logged(print)))
    """

    scope = "run"

    def __init__(self, log: Any, name: str = "loader") -> None:
        found: Callable[[dict[str, float]], object] | None = getattr(log, "log", log)
        if not callable(found):
            raise LoaderError(
                f"Logged(log={log!r}) has no method log; give an object that has one, or a function of a dictionary"
            )
        self._log, self._name, self._since = found, name, Since()

    def __call__(self, stats: Stats) -> None:
        """Hand over the numbers."""
        self._log({f"{self._name}/{key}": one for key, one in self._since.scalars(stats).items()})
