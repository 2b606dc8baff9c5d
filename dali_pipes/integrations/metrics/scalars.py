"""Report a loader's rates and shares over training steps, to TensorBoard and loggers that take dictionaries."""

from collections.abc import Callable
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.stats import Stats


class _Scalars:
    """Base class of adapters that report rates and shares of the time since the last report.

    Args:
        name: Prefix of the reported names.
    """

    scope = "run"  # not "epoch", because a report can come after the end of an epoch

    def __init__(self, name: str) -> None:
        self._name = name
        self._before: Stats | None = None

    def _since_last(self, stats: Stats) -> dict[str, float]:
        between = stats if self._before is None else stats - self._before
        self._before = stats
        return {f"{self._name}/{key}": value for key, value in scalars(between).items()}


class TensorBoard(_Scalars):
    """Writes rates and shares since the last report, for ``Monitoring(metrics=...)``: loader/images_per_second and so on.

    Args:
        writer: A ``torch.utils.tensorboard.SummaryWriter``, or any object with its method `add_scalar`.
        name: Prefix of the names: ``loader/wait_share``.
        step: A function that returns the step of a point; None uses the count of steps since the loader was made.

    Raises:
        LoaderError: The writer has no add_scalar.

    Example:
        >>> from torch.utils.tensorboard import SummaryWriter
        >>> from dali_pipes.integrations.metrics import TensorBoard
        >>> photos = open_dataset("photos/")
        >>> recipe = Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, monitoring=Monitoring(metrics=TensorBoard(SummaryWriter("runs"))))
    """

    def __init__(
        self, writer: Any, name: str = "loader", *, step: Callable[[], int] | None = None
    ) -> None:
        if not callable(getattr(writer, "add_scalar", None)):
            raise LoaderError(
                f"TensorBoard(writer={writer!r}) has no add_scalar; give a torch.utils.tensorboard.SummaryWriter"
            )
        super().__init__(name)
        self._writer, self._step = writer, step

    def __call__(self, stats: Stats) -> None:
        """Write a point for each rate and share."""
        step = stats.steps if self._step is None else self._step()
        for name, value in self._since_last(stats).items():
            self._writer.add_scalar(name, value, step)


class Logged(_Scalars):
    """Logs rates and shares since the last report as a dictionary, for ``Monitoring(metrics=...)``.

    Args:
        log: A function that takes a dictionary, or an object with such a method `log`, such as ``wandb.init()``. If
            each call creates a step, as with W&B: ``lambda values: run.log(values, commit=False)``.
        name: Prefix of the names: ``loader/wait_share``.

    Raises:
        LoaderError: The object is not callable and has no such method.

    Example:
        >>> from dali_pipes.integrations.metrics import Logged
        >>> photos = open_dataset("photos/")
        >>> recipe = Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, monitoring=Monitoring(metrics=Logged(print)))
    """

    def __init__(self, log: Any, name: str = "loader") -> None:
        self._log: Callable[[dict[str, float]], object] = getattr(log, "log", log)
        if not callable(self._log):
            raise LoaderError(
                f"Logged(log={log!r}) has no method log; give an object that has one, or a function of a dictionary"
            )
        super().__init__(name)

    def __call__(self, stats: Stats) -> None:
        """Log the rates and shares since the last report."""
        self._log(self._since_last(stats))


def scalars(stats: Stats) -> dict[str, float]:
    """Return rates and shares by name.

    Returns:
        images_per_second, including the starts of loops, because work is done ahead in them; wait_share of the training
        loop's time, and late/STAGE, its part for each stage; queue_empty_share, the share of requests for which no
        batch was ready; busy/STAGE, the mean number of threads in a stage; bad_samples. Empty if there were only first
        batches, which include the start.
    """
    if not stats.seconds:
        return {}
    seconds = stats.seconds + stats.start_seconds
    values = {
        "images_per_second": stats.samples / seconds,
        "wait_share": stats.wait_share,
        "queue_empty_share": stats.queue.empty / stats.queue.asked if stats.queue.asked else 0.0,
        "bad_samples": float(stats.bad_samples),
    }
    values |= {f"late/{stage}": spent / stats.seconds for stage, spent in stats.late.items()}
    working = {name: one for name, one in stats.stages.items() if one.calls}
    return values | {f"busy/{name}": one.busy_seconds / seconds for name, one in working.items()}
