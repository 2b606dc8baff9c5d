"""A loader's rates and shares in TensorBoard."""

from collections.abc import Callable
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.integrations.metrics.scalars import Since
from dali_pipes.monitoring.stats import Stats


class TensorBoard:
    """Draws what happened between reports, for ``Monitoring(metrics=...)``: loader/images_per_second and so on.

    Args:
        writer: A ``torch.utils.tensorboard.SummaryWriter``, or anything with its `add_scalar`.
        name: Stands before the names: ``loader/wait_share``.
        step: Returns the step to draw at; None is the number of steps since the loader was made.

    Raises:
        LoaderError: The writer has no add_scalar.

    Example:
        >>> from torch.utils.tensorboard import SummaryWriter
        >>> from dali_pipes.integrations.metrics import TensorBoard
        >>> photos = open_dataset("photos/")
        >>> recipe = Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, monitoring=Monitoring(metrics=TensorBoard(SummaryWriter("runs"))))
    """

    scope = "run"

    def __init__(
        self, writer: Any, name: str = "loader", *, step: Callable[[], int] | None = None
    ) -> None:
        if not callable(getattr(writer, "add_scalar", None)):
            raise LoaderError(
                f"TensorBoard(writer={writer!r}) has no add_scalar; give a torch.utils.tensorboard.SummaryWriter"
            )
        self._writer, self._name, self._step, self._since = writer, name, step, Since()

    def __call__(self, stats: Stats) -> None:
        """Draw a point of each number."""
        step = stats.steps if self._step is None else self._step()
        for name, value in self._since.scalars(stats).items():
            self._writer.add_scalar(f"{self._name}/{name}", value, step)
