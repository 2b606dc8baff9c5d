"""Measure a loader over data that was read before: later epochs, a full cache, stored seek points."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from bench.tune.limits import Limit
from bench.tune.search import AFTER, BEFORE, Tried
from bench.tune.trial import Pace, Trial
from dali_pipes import Loader
from readers import Dataset
from readers.storage.paths import is_url

_ROUNDS = 5
_BATCHES_MIN, _BATCHES_MAX = 4, 100
_PARTS_MIN = 4  # with smaller data, a loader reads the same samples again within a trial anyway
_LEAST_GAIN = 1.15  # the part has other samples, whose mean size may differ by some percent


def can_repeat(limit: Limit, loader: Loader, dataset: Any, clips: bool) -> bool:
    """Return whether reading samples a second time can be faster, and a part of the data can be selected."""
    # Only our own JPEG decoders use seek points.
    decodes = limit.stage == "decode" and loader.decoder in ("cpu", "cuda") and not clips
    return (limit.stage == "read" or decodes) and hasattr(dataset, "take")


def measure_repeated(
    base: Trial,
    dataset: Any,
    make: Callable[[Dataset], Loader],
    *,
    rate: float,
    pace: Pace,
) -> Tried | None:
    """Measure a loader over some samples that it has read before, alternately with the loader over all data.

    Args:
        base: The loader over all data.
        dataset: The data.
        make: A function that makes a loader over a part of the data.
        rate: Samples per second of `base`.
        pace: The time for measurements.

    Returns:
        The measurement; None if the data is too small for it.
    """
    batch_size = base.loader.steps.largest
    wanted = int(4 * pace.turn_seconds * rate / batch_size)
    num_rows = batch_size * min(max(wanted, _BATCHES_MIN), _BATCHES_MAX)
    if len(dataset) < _PARTS_MIN * num_rows:
        return None
    rows = np.arange(num_rows, dtype=np.int64) * len(dataset) // num_rows
    pace.progress("reading a part of the data")
    with closing(Trial(make(dataset.take(rows)))) as part:
        part.take_batches(len(part.loader))
        contestants = {BEFORE: base.free_turn, AFTER: part.free_turn}
        measured = pace.measure(contestants, _ROUNDS, "data that were read before")
    return Tried.of({}, measured)


def help_of_repeated(
    tried: Tried, limit: Limit, source: str | None, total_bytes: float
) -> list[str]:
    """Return a sentence about what the user can do to profit from repeated reading; empty without a clear gain.

    Args:
        tried: The result of `measure_repeated`.
        limit: The bottleneck of the loader.
        source: Path or URL of the data.
        total_bytes: Approximate size of all samples in bytes.
    """
    gain = tried.gain.median
    if not tried.is_kept or gain < _LEAST_GAIN:
        return []
    name = source or "DATA"
    if limit.stage == "decode":
        return [
            f"gpu-aug index {name} --seek-points stores seek points of JPEGs beforehand, else the first epoch finds "
            f"them: measured {gain:.2f} times on samples that have them."
        ]
    size = f"{total_bytes / 1e9:.1f} GB"
    if source is None or not is_url(source):
        return [
            f"Memory that holds the data ({size}): measured {gain:.2f} times on samples in memory, as from the second epoch on."
        ]
    # 10 % more than the samples, because the cache stores blocks, which extend beyond them.
    return [
        f"open_dataset(..., cache_bytes={int(1.1 * total_bytes)}) has room for all data ({size}) on the local disk: "
        f"measured {gain:.2f} times on samples in the cache, as from the second epoch on."
    ]
