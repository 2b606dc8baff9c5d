"""What a loader and its first stages give, and which stage limits it."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from bench.timing import Measurement
from bench.tune.limits import DECODING, LOADING, READING, Limit, find_limit
from bench.tune.pace import Contestant, Pace, reason_of
from bench.tune.trial import Reading, Trial
from dali_pipes import Loader
from dali_pipes.variants import make_variants
from dali_pipes.video.source import find_clips
from gpu_aug import Recipe
from readers import Dataset

WITH_STEP = "the loader with the training step"

_ROUNDS = 3
_SHARE = 0.3  # of the time that there is


@dataclass(frozen=True)
class Stages:
    """The measurements of one set of settings.

    Attributes:
        measured: By READING, DECODING, LOADING and WITH_STEP, as far as there was something to measure.
        failed: By name why a stage was not measured.
        bytes_per_sample: Mean encoded size; 0 if reading was not measured.
        limit: What limits the loader.
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
    """Measure a loader, and in turns with it what its first stages give alone.

    Args:
        trial: The loader. All turns that it had until the end of this call tell what limits it.
        dataset: What it reads.
        recipe: As for Loader.
        make: Makes a loader with further settings, and with another `recipe`.
        pace: How long turns are. Each contestant has at least one turn, even if no time is left.

    Raises:
        Exception: What the loader itself raises.
    """
    failed: dict[str, str] = {}
    contestants: dict[str, Contestant] = {}
    reading: Reading | None = None

    def on_failure(name: str, error: Exception) -> None:
        # Without the loader there is nothing to measure; without one of its stages there is.
        if name in (LOADING, WITH_STEP):
            raise error
        failed[name] = reason_of(error)

    with ExitStack() as stack:
        # A loader reads only those parts of a video that its clip needs; `fetch` would read all of it.
        if find_clips(dataset) is None:
            in_flight = min(trial.num_ahead, trial.loader.stats("run").num_threads)
            request = trial.loader.steps.largest
            reading = Reading(dataset, request=request, in_flight=max(in_flight, 1))
            contestants[READING] = stack.enter_context(closing(reading)).turn
        try:
            # Only those operations that are carried out while an image is decoded.
            decodes = Recipe(make_variants(recipe, None).first.decode_operations)
            decoding = Trial(make({"targets": ()}, recipe=decodes))
            contestants[DECODING] = stack.enter_context(closing(decoding)).turn
        except Exception as error:  # noqa: BLE001 - bad samples are raised again
            on_failure(DECODING, error)
        contestants[LOADING] = trial.free_turn
        if trial.step_seconds:
            contestants[WITH_STEP] = trial.turn
        affordable = int(_SHARE * pace.turns_left / len(contestants))
        rounds = max(1, min(_ROUNDS, affordable))
        measured = pace.measure(contestants, rounds, "stages", on_failure)
    num_bytes = reading.bytes_per_sample if reading else 0.0
    return Stages(measured, failed, num_bytes, find_limit(trial.record, measured))
