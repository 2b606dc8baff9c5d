"""Bottlenecks that were made are named by what is measured: storage, decoding, augmenting, cores that others take."""

import numpy as np
import pytest

from bench.output.errors import BenchError
from bench.tune.bound import Wanted, find_bound
from bench.tune.bound_lifts import find_lifts
from bench.tune.ceilings_cores import CoresMeter
from bench.tune.ceilings_measure import choose_held, measure_ceilings
from bench.tune.facts import look_at_facts
from dali_pipes.video.clips import Clips
from readers import from_arrays, open_dataset
from readers.cores import usable_cores
from tests.support.bottlenecks import (
    busy_cores,
    heavy_recipe,
    large_photographs,
    light_recipe,
    other_loader,
    photograph,
    slow_storage,
    small_photographs,
)
from tests.support.remote_data import set_up

HOW = {"batch_size": 16, "device": "cpu", "decoder": "cpu", "num_threads": 2}


def test_slow_storage_is_named(tmp_path, monkeypatch):
    """500 kB per second are a few dozen of these photographs; cores do hundreds, and so does the cache once it is warm."""
    set_up(monkeypatch, tmp_path)
    path = small_photographs(tmp_path / "data", 32)
    with slow_storage(tmp_path / "data", bytes_per_second=5e5) as url:
        source = f"{url}/{path.name}"
        data = open_dataset(source, block_bytes=1 << 16)
        found = measure_ceilings(data, light_recipe(), source=source, seconds=2.5, **HOW)
    bound = find_bound(found, Wanted(1000))
    assert (bound.causes, bound.verdict) == (("storage",), "short")
    assert bound.temperature == "cold"
    assert bound.later is not None
    assert bound.later.images_per_second > 3 * bound.images_per_second
    best = found.storage.best("cold")
    assert best is not None
    assert best.megabytes_per_second < 0.6


def test_large_photographs_are_named_and_what_helps(tmp_path):
    """12 megapixels: decoding limits, and smaller copies lift it."""
    folder = large_photographs(tmp_path, 1)
    found = measure_ceilings(
        open_dataset(folder), light_recipe(), source=str(folder), seconds=1, **HOW
    )
    bound = find_bound(found, Wanted(10_000))
    assert "decode" in bound.causes
    assert "augment" not in bound.causes
    assert bound.shares["decode"] > 0.7
    lifts = {lift.change: lift for lift in find_lifts(found, bound)}
    assert lifts["smaller"].own_factor > 2
    assert found.facts.megapixels.p50 == 12


def test_a_heavy_recipe_is_named_and_a_fast_enough_one_is_left_alone(tmp_path):
    """Warps and blurs limit; a step that asks for one image per second has nothing to gain."""
    path = small_photographs(tmp_path, 16)
    found = measure_ceilings(open_dataset(path), heavy_recipe(), source=str(path), seconds=1, **HOW)
    bound = find_bound(found, Wanted(100_000))
    assert "augment" in bound.causes
    assert "decode" not in bound.causes
    slow_training = find_bound(found, Wanted.of_step(16_000, 16))
    assert (slow_training.verdict, slow_training.causes) == ("enough", ("training step",))


def test_cores_that_other_processes_take_are_seen():
    """Three processes for each core leave this one about a quarter of them."""
    with busy_cores(3):
        meter = CoresMeter(usable_cores())
        for _ in range(3):
            meter.turn(0.2)
    assert meter.cores.taken
    assert meter.cores.got < 0.6 * usable_cores()
    assert meter.cores.others is None or meter.cores.others > 0.3 * usable_cores()


@pytest.mark.long
def test_a_loader_for_validation_beside_that_for_training_is_seen(tmp_path):
    """It has as many threads as there are cores, so that about half of them is left."""
    path = small_photographs(tmp_path, 16)
    with other_loader(path):
        found = measure_ceilings(
            open_dataset(path), heavy_recipe(), source=str(path), seconds=2, **HOW
        )
    bound = find_bound(found, Wanted(100_000))
    assert bound.causes[0] == "other processes"
    assert "augment" in bound.causes
    assert {lift.change for lift in find_lifts(found, bound)} >= {"cores"}


def test_damaged_images_are_left_out_and_told(tmp_path):
    """One of three ends in the middle; where none decodes there is nothing to measure."""
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(
            photograph(64, 64, seed=number)[: [None, 900][number == 1]]
        )
    samples = open_dataset(tmp_path).fetch(range(3))
    facts, _ = look_at_facts(open_dataset(tmp_path))
    held, told = choose_held(facts, samples, 1.0)
    assert [sample.key for sample in held] == ["0.jpg", "2.jpg"]
    assert told["damaged"].startswith(
        "1 of 3 images do not decode and were left out, for example 1.jpg"
    )
    with pytest.raises(BenchError, match="not one of 1 images decodes, for example 1"):
        choose_held(facts, samples[1:2], 1.0)


def test_what_cannot_be_measured_is_refused():
    """One sentence each."""
    data = from_arrays(np.zeros((4, 8, 8, 3), np.uint8))
    with pytest.raises(BenchError, match="batch_size must be a whole number from 1 on, got None"):
        measure_ceilings(data, light_recipe())
    with pytest.raises(BenchError, match="a stream is read forward only"):
        measure_ceilings(object(), light_recipe(), batch_size=4)
    with pytest.raises(BenchError, match="the stages of clips cannot be measured one by one"):
        measure_ceilings(Clips.__new__(Clips), light_recipe(), batch_size=4)
