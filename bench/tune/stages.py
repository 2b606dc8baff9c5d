"""What the stages of a loader give alone."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from bench.timing import Measurement
from bench.tune.pace import Pace, reason_of
from bench.tune.trial import Contestant, Reading, Trial, WithoutStep
from dali_pipes import BadSampleError, Loader
from dali_pipes.variants import make_variants
from dali_pipes.video.source import find_clips
from gpu_aug import Recipe
from readers import Dataset

READING, DECODING, LOADING = "reading", "reading and decoding", "the loader"
"""Names of the trials without a training step. Each does what the one before it does, and more."""

WITH_STEP = "the loader with the training step"

_ROUNDS = 3
_SHARE = 0.3  # of the time that there is


@dataclass(frozen=True)
class Stages:
    """What was measured.

    Attributes:
        measured: By READING, DECODING, LOADING and WITH_STEP, as far as there was something to measure.
        failed: By name why a stage was not measured.
        bytes_per_sample: Mean encoded size; 0 if reading was not measured.
    """

    measured: dict[str, Measurement]
    failed: dict[str, str]
    bytes_per_sample: float = 0.0


def measure_stages(
    trial: Trial,
    dataset: Dataset,
    recipe: Any,
    make: Callable[..., Loader],
    pace: Pace,
) -> Stages:
    """Measure a loader, and in turns with it what its first stages give alone.

    Args:
        trial: The loader.
        dataset: What it reads.
        recipe: As for Loader.
        make: Makes a loader with further settings, and with another `recipe`.
        pace: How long turns are.

    Raises:
        Exception: What the loader itself raises.
    """
    failed: dict[str, str] = {}
    contestants: dict[str, Contestant] = {}
    with ExitStack() as stack:
        # A loader reads only those parts of a video that its clip needs; `fetch` would read all of it.
        if find_clips(dataset) is None:
            contestants[READING] = _reading(trial, dataset)
            stack.callback(contestants[READING].close)
        try:
            contestants[DECODING] = Trial(make({"targets": ()}, recipe=_decoding_of(recipe)))
            stack.callback(contestants[DECODING].close)
        except BadSampleError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the reason, the loader itself can still be measured
            failed[DECODING] = reason_of(error)
        contestants[LOADING] = WithoutStep(trial)
        if trial.step_seconds:
            contestants[WITH_STEP] = trial

        def on_failure(name: str, error: Exception) -> None:
            if name in (LOADING, WITH_STEP):
                raise error
            failed[name] = reason_of(error)

        affordable = int(_SHARE * pace.turns_left / len(contestants))
        rounds = max(1, min(_ROUNDS, affordable))
        measured = pace.measure(contestants, rounds, "stages", on_failure)
    reading = contestants.get(READING)
    return Stages(
        measured, failed, reading.bytes_per_sample if isinstance(reading, Reading) else 0.0
    )


def _reading(trial: Trial, dataset: Dataset) -> Reading:
    in_flight = min(trial.num_ahead, trial.loader.stats("run").num_threads)
    return Reading(dataset, request=trial.loader.steps.largest, in_flight=max(in_flight, 1))


def _decoding_of(recipe: Any) -> Recipe:
    """Return a recipe with only those operations that are carried out while an image is decoded."""
    return Recipe(make_variants(recipe, None).first.decode_operations)
