"""Monitoring: what a loader writes down and reports while it runs."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.metrics import Metric, as_metrics
from dali_pipes.monitoring.ranks.heartbeat import HeartbeatChoice, as_heartbeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """What a loader writes down and reports while it runs: ``Loader(monitoring=Monitoring(...))``.

    Args:
        heartbeat: How the ranks tell each other their progress, so that a warning names the late rank and the reason, and
            when a loop that gets no batch is reported, with what its threads do; as warnings of the logger ``gpu_aug``.
            "auto" uses torch's process group if it has several ranks; a folder that all ranks share
            needs no group; a `Heartbeat` sets times as well; None turns this off.
        metrics: A callable that gets the statistics of the epoch every 10 seconds, and when the loop ends; or an
            `Every`, which sets the interval, an adapter of `dali_pipes.integrations.metrics`, or a list of these. Called
            in the training thread after a batch. An exception is logged once, as a warning, and does not stop the run.
        audit: A file that gets one line of JSON for every step, with hashes of its samples; "{rank}" in its
            name stands for the rank. ``gpu-aug audit`` compares such files of two runs, on any number of ranks.
            None keeps only the latest hashes, in `Loader.audit`.
        ledger: A file that gets one line of JSON for every bad sample, and for every damaged clip that was kept
            (see Clips); "{rank}" in its name stands for the rank. None keeps them in memory only.

    Raises:
        LoaderError: A value that is not allowed.

    Example:
        >>> photos, recipe = open_dataset("photos/"), Recipe.imagenet_train(size=64)
        >>> files = Monitoring(audit="audit-{rank}.jsonl", ledger="bad-{rank}.jsonl")
        >>> loader = Loader(photos, recipe, batch_size=8, monitoring=files)
    """

    heartbeat: HeartbeatChoice = "auto"
    metrics: Metric | Sequence[Metric] | None = None
    audit: str | os.PathLike[str] | None = None
    ledger: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        as_heartbeat(self.heartbeat)
        as_metrics(self.metrics)
        if self.audit is None or self.ledger is None:
            return
        if os.path.abspath(self.audit) == os.path.abspath(self.ledger):  # noqa: PTH100 - str or bytes paths as well
            raise LoaderError(
                f"audit and ledger are both {os.fspath(self.audit)!r}; give each a file of its own"
            )
