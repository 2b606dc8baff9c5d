"""Find the stage that limits a loader, what helps, and the speed of the loader over data that was read before."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from bench.timing import Measurement, Turn
from bench.tune.search import AFTER, BEFORE, Tried
from bench.tune.trial import Contestant, Pace, Reading, Trial, reason_of
from dali_pipes import Loader
from dali_pipes.monitoring import Stats
from dali_pipes.monitoring.counts import STAGE_GROUPS
from dali_pipes.monitoring.stats import ENOUGH_CORES, ENOUGH_WAITING
from dali_pipes.steps.variants import make_variants
from dali_pipes.video.source import find_clips
from gpu_aug import Recipe
from readers import Dataset
from readers.storage.paths import is_url

_REPEATED_ROUNDS = 5
_BATCHES_MIN, _BATCHES_MAX = 4, 100
_PARTS_MIN = 4  # with smaller data, a loader reads the same samples again within a trial anyway
_LEAST_GAIN = 1.15  # the part has other samples, whose mean size may differ by some percent

READING, DECODING, LOADING = "reading", "reading and decoding", "the loader"
"""Names of the trials without a training step. Each one includes the work of the previous one."""

WITH_STEP = "the loader with the training step"

TRAINING_STEP = "training step"

_DOING = {
    "read": "reading",
    "decode": "decoding",
    "augment": "augmenting",
    "copy": "copying",
    "idle": "nothing",
}

_ROUNDS = 3
_SHARE = 0.3  # share of the remaining time


_MOSTLY = 0.4  # share of the waiting time


@dataclass(frozen=True)
class Limit:
    """The bottleneck of a loader.

    Attributes:
        stage: "read", "decode", "augment", "copy" or "training step".
        wait_share: Share of the time that the consumer waited for a batch, 0 to 1.
        shares: For each stage, the share of the waiting time in which threads worked on it; "idle" for no work.
        core_share: Share of the threads' working time in which they had a core, 0 to 1.
    """

    stage: str
    wait_share: float
    shares: Mapping[str, float]
    core_share: float

    @property
    def sentence(self) -> str:
        """A sentence that names the bottleneck and the evidence."""
        waited = f"{self.wait_share:.0%} of the time"
        if self.stage == TRAINING_STEP:
            return f"The training step limits: it waits for batches for {waited}."
        ordered = sorted(self.shares.items(), key=lambda part: -part[1])
        parts = [f"{_DOING[name]} {share:.0%}" for name, share in ordered if share >= 0.05]
        doing = f", while the threads do: {', '.join(parts)}" if parts else ""
        found = f"{_DOING[self.stage].capitalize()} limits: the consumer waits for {waited}{doing}."
        if self.core_share < ENOUGH_CORES:
            found += f" They have a core for only {self.core_share:.0%} of their work: other processes take the cores."
        return found


def find_limit(record: Sequence[tuple[Turn, Stats]], alone: Mapping[str, Measurement]) -> Limit:
    """Find the stage that limits a loader.

    Args:
        record: Turns (timed intervals) of the loader, at least one, each with the loader's statistics.
        alone: Measurements of single stages by the names READING, DECODING and LOADING, as far as available.
    """
    # The statistics count the wait for an epoch's first batch as its start, so a short turn may have no other waiting.
    wait_share = Measurement(tuple(turn for turn, _ in record)).wait_share
    stats = [one for _, one in record]
    waited = sum(one.wait_seconds for one in stats)
    groups: dict[str, tuple[str, ...]] = {**STAGE_GROUPS, "idle": ("idle",)}
    shares = {
        name: sum(one.late.get(part, 0.0) for one in stats for part in parts) / max(waited, 1e-9)
        for name, parts in groups.items()
    }
    if wait_share < ENOUGH_WAITING:
        stage = TRAINING_STEP
    elif DECODING in alone and (not waited or shares["idle"] > _MOSTLY):
        # Threads that wait for a GPU or for each other are idle, so only the trials show the limit.
        stage = _dearest(alone)
    else:
        stage = max(STAGE_GROUPS, key=lambda name: shares[name])
    return Limit(stage, wait_share, shares, fmean(one.core_share for one in stats))


def _dearest(alone: Mapping[str, Measurement]) -> str:
    """Return the stage that adds most to the seconds per sample, by comparing the measurements."""
    read = alone[READING].seconds_per_item if READING in alone else 0.0
    decoded, loaded = alone[DECODING].seconds_per_item, alone[LOADING].seconds_per_item
    added = {"read": read, "decode": decoded - read, "augment": loaded - decoded}
    return max(added, key=lambda name: added[name])


def further_help(limit: Limit, *, device: str, clips: bool, is_packed: bool) -> list[str]:
    """Return sentences about untried measures, other than settings, that help against the bottleneck.

    Args:
        limit: The bottleneck of the loader.
        device: Type of the device: "cpu" or "cuda".
        clips: Whether samples are clips.
        is_packed: Whether neighbouring samples are in one file.
    """
    block = (
        "shuffle='block' reads neighbouring samples together; the order is then another one."
        if is_packed
        else "gpu-aug pack DATA OUT makes a few large files of many small ones, then shuffle='block'."
    )
    smaller = (
        ["Videos of a smaller size, or with more key frames."]
        if clips
        else [
            "Smaller copies of the images, if the recipe shrinks them much.",
            "decode='fast' decodes JPEGs at a smaller size; pixels then differ slightly.",
        ]
    )
    on_gpu = device == "cuda"
    found = {
        "read": [
            block,
            "Faster storage, or memory that holds all data from the second epoch on.",
        ],
        "decode": ["More cores." if on_gpu else "More cores, or a GPU that decodes.", *smaller],
        "augment": [
            *([] if on_gpu else ["More cores, or a GPU that augments."]),
            "A recipe without its most expensive operation; gpu-aug recipe show lists what each costs.",
        ],
        "copy": ["dtype=torch.bfloat16 or torch.uint8 halves or quarters the bytes of a batch."],
    }.get(limit.stage, [])
    if limit.core_share < ENOUGH_CORES and limit.stage in ("decode", "augment"):
        found.insert(0, "Leave the cores to the loader: other processes take them.")
    return found


@dataclass(frozen=True)
class Stages:
    """The measurements of a loader with one set of settings, and of its stages alone.

    Attributes:
        measured: Measurements by the names READING, DECODING, LOADING and WITH_STEP, as far as they apply.
        failed: For each name that was not measured, the reason.
        bytes_per_sample: Mean encoded size; 0 if reading was not measured.
        limit: The bottleneck of the loader.
    """

    measured: dict[str, Measurement]
    failed: dict[str, str]
    bytes_per_sample: float
    limit: Limit

    @property
    def alone(self) -> dict[str, Measurement]:
        """The measurements without a training step."""
        return {name: one for name, one in self.measured.items() if name != WITH_STEP}


def measure_stages(
    trial: Trial,
    dataset: Dataset,
    recipe: Any,
    make: Callable[..., Loader],
    pace: Pace,
) -> Stages:
    """Measure a loader and, alternately with it, its first stages alone.

    Args:
        trial: The loader. All of its turns until the end of this call are used to find its limit.
        dataset: The data.
        recipe: The recipe, as for Loader.
        make: A function that makes a loader with further settings, and with another `recipe`.
        pace: The time for measurements. Each stage is measured at least once, even if no time is left.

    Raises:
        Exception: Any error that the loader itself raises.
    """
    failed: dict[str, str] = {}
    contestants: dict[str, Contestant] = {}
    reading: Reading | None = None

    def on_failure(name: str, error: Exception) -> None:
        # A failure of the loader is fatal; a failure of one of its stages alone is not.
        if name in (LOADING, WITH_STEP):
            raise error
        failed[name] = reason_of(error)

    with ExitStack() as stack:
        # A loader reads only the needed parts of a video, but `fetch` would read all of it.
        if find_clips(dataset) is None:
            in_flight = min(trial.num_ahead, trial.loader.stats("run").num_threads)
            request = trial.loader.steps.largest
            reading = Reading(dataset, request=request, in_flight=max(in_flight, 1))
            contestants[READING] = reading.turn
        try:
            # Only the operations that run while an image is decoded.
            decodes = Recipe(make_variants(recipe, None).first.decode_operations)
            decoding = Trial(make({"targets": ()}, recipe=decodes))
            contestants[DECODING] = stack.enter_context(closing(decoding)).turn
        except Exception as error:  # noqa: BLE001 - bad samples are raised again
            on_failure(DECODING, error)
        contestants[LOADING] = trial.free_turn
        if trial.step_seconds:
            contestants[WITH_STEP] = trial.turn
        rounds = max(1, min(_ROUNDS, int(_SHARE * pace.turns_left / len(contestants))))
        measured = pace.measure(contestants, rounds, "stages", on_failure)
    num_bytes = reading.bytes_per_sample if reading else 0.0
    return Stages(measured, failed, num_bytes, find_limit(trial.record, measured))


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
        measured = pace.measure(contestants, _REPEATED_ROUNDS, "data that were read before")
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
