"""A loader's statistics as a few numbers to draw over the steps of a training."""

from dali_pipes.monitoring.stats import Stats


class Since:
    """What happened since the last call, as numbers by name."""

    def __init__(self) -> None:
        self._before: Stats | None = None

    def scalars(self, stats: Stats) -> dict[str, float]:
        """Return the numbers of the time since the last call.

        Args:
            stats: Of the scope "run".
        """
        between = stats if self._before is None else stats - self._before
        self._before = stats
        return scalars(between)


def scalars(stats: Stats) -> dict[str, float]:
    """Return rates and shares as numbers by name.

    Returns:
        images_per_second, the start of loops included, in which work is done ahead; wait_share, of the training loop's time, and late/STAGE, the part of it for each stage;
        queue_empty_share, how often no batch lay ready; busy/STAGE, how many threads worked on it on average;
        bad_samples. Nothing where there were only first batches, which pay for the start.
    """
    if not stats.seconds:
        return {}
    seconds = stats.seconds + stats.start_seconds
    found = {
        "images_per_second": stats.samples / seconds,
        "wait_share": stats.wait_share,
        "queue_empty_share": stats.queue.empty / stats.queue.asked if stats.queue.asked else 0.0,
        "bad_samples": float(stats.bad_samples),
    }
    found |= {f"late/{stage}": spent / stats.seconds for stage, spent in stats.late.items()}
    working = {name: one for name, one in stats.stages.items() if one.calls}
    return found | {f"busy/{name}": one.busy_seconds / seconds for name, one in working.items()}
