"""What has turns: a loader with a training step, and reading alone."""

from contextlib import closing
from pathlib import Path
from typing import Any

from bench.tune.limits import DECODING, LOADING, READING, WITH_STEP, measure_stages
from bench.tune.trial import Pace, Reading, Trial
from dali_pipes import Execution, Loader
from dali_pipes.arguments.names import with_settings
from gpu_aug import HorizontalFlip, Recipe
from readers import open_dataset
from tests.support.slow_datasets import Repeated, slow_fetch

RECIPE = Recipe.imagenet_train(size=32)


def make(data: Path, recipe: Recipe = RECIPE, **options: Any) -> Loader:
    """Make a loader of two threads."""
    return Loader(open_dataset(data), recipe, batch_size=2, num_threads=2, **options)


def test_a_training_step_paces_a_trial(data: Path) -> None:
    """A loader that is fast enough gives what the step takes, and does not let it wait."""
    with closing(Trial(make(data, execution=Execution(prefetch=3)), step_seconds=0.05)) as trial:
        paced, free = trial.turn(0.5), trial.free_turn(0.2)

        assert trial.num_ahead == 4
        assert paced.rate <= 2 / 0.05
        assert free.rate > paced.rate
        assert paced.wait_seconds < 0.5 * paced.seconds
        [(turn, stats)] = trial.record
        assert turn is paced
        assert stats.samples == paced.items


def test_reading_counts_samples_and_bytes(data: Path) -> None:
    """In requests of a batch; a slow storage shows."""
    dataset = Repeated(open_dataset(data), 100, slow_fetch(0.02))
    sizes = [path.stat().st_size for path in data.rglob("*.jpg")]

    reading = Reading(dataset, request=4, in_flight=2)
    turn = reading.turn(0.3)

    assert turn.items % 4 == 0
    assert turn.rate <= 2 * 4 / 0.02 * 1.1
    assert min(sizes) <= reading.bytes_per_sample <= max(sizes)


def test_stages_are_measured_in_turns(data: Path) -> None:
    """Each of them gives a rate; what cannot be measured alone is named, and the loader itself is measured."""
    dataset = open_dataset(data)
    with closing(Trial(make(data), step_seconds=0.01)) as trial:
        pace = Pace(0.05, 1.0, 1000.0, clock=lambda: 0.0)
        stages = measure_stages(
            trial,
            dataset,
            RECIPE,
            lambda more, recipe: make(data, recipe, **with_settings({}, more)),
            pace,
        )
        flip = Recipe([HorizontalFlip()])
        others = measure_stages(trial, dataset, flip, lambda _, recipe: make(data, recipe), pace)

    assert list(stages.measured) == [READING, DECODING, LOADING, WITH_STEP]
    assert all(len(one.turns) == 3 for one in stages.measured.values())
    assert stages.bytes_per_sample > 0
    assert list(others.measured) == [READING, LOADING, WITH_STEP]
    assert "different sizes" in others.failed[DECODING]
