"""What every stage costs alone: seconds of a core, which a busy machine does not change much, on work of known size."""

import time

import cv2
import numpy as np
import pytest

from bench.micro.turns import Turns
from bench.tune.ceilings_measure import measure_ceilings
from bench.tune.facts_kinds import kind_of
from bench.tune.stages_decode import Maker, find_changes
from bench.tune.stages_held import Held, make_parts
from bench.tune.stages_measure import StageTurns, mixed
from bench.tune.stages_turns import Threads, Timed
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Sample, from_arrays, open_dataset
from tests.support.bottlenecks import encode, heavy_recipe, light_recipe, photograph
from tests.support.ceilings import cost

SMALL = [Sample(at, str(at), {"jpg": photograph(240, 320, seed=at)}) for at in range(4)]
DATA = from_arrays(np.zeros((4, 8, 8, 3), np.uint8))
HOW = {"batch_size": 4, "device": "cpu", "decoder": "cpu", "num_threads": 2}


def costs_of(samples, recipe):
    """Costs by name, of a tenth of a second."""
    parts = make_parts(DATA, samples, recipe, HOW)
    maker = Maker(DATA, recipe, HOW, 0.05)
    kinds = {"baseline JPEG": maker.decoding(samples)}
    with Threads(2) as threads:
        turns = StageTurns(parts, kinds, {}, threads)
        turns.prepare()
        turns.measure(0.1, lambda _: None)
        return {one.name: one for one in turns.costs({"baseline JPEG": 1.0})}


@pytest.fixture(scope="module")
def light():
    """What a light recipe costs on small photographs."""
    return costs_of(SMALL, light_recipe())


def test_every_stage_of_the_cpu_is_measured(light):
    """In the order of a batch; resizing is a part of decoding, and one thread hands over."""
    assert list(light) == ["header", "draw", "decode", "resize", "augment", "hand_over"]
    assert all(one.cpu_seconds.median > 0 for one in light.values())
    assert [one.name for one in light.values() if one.part_of] == ["resize"]
    assert [one.name for one in light.values() if one.one_thread] == ["hand_over"]
    assert not any(one.on_device for one in light.values())
    decode = light["decode"]
    assert decode.pixels == 240 * 320
    assert decode.image_bytes == pytest.approx(np.mean([len(one.image or b"") for one in SMALL]))
    assert decode.megapixels_per_second == pytest.approx(decode.together.median * 0.0768)


def test_a_heavy_recipe_costs_more_than_decoding(light):
    """The warps and blurs of one image take many times what decoding a small photograph does."""
    heavy = costs_of(SMALL, heavy_recipe())
    assert heavy["augment"].cpu_seconds.median > 2 * heavy["decode"].cpu_seconds.median
    assert light["augment"].cpu_seconds.median < light["decode"].cpu_seconds.median


def test_a_large_photograph_costs_many_times_a_small_one(light):
    """3 megapixels have 40 times the pixels of 320x240."""
    large = [Sample(0, "0", {"jpg": photograph(1500, 2000)})]
    parts = Maker(DATA, light_recipe(), HOW, 0.05).decoding(large)
    with Threads(1) as threads:
        parts.prepare(threads)
        parts.turn(threads, 0.1)
    assert parts.cost.cpu_seconds.median > 4 * light["decode"].cpu_seconds.median


def test_the_clock_of_a_thread_does_not_count_waiting():
    """Sleeping takes next to no core, of which computing has as much as the thread's own clock says."""
    timed, computing, own = Timed(), Timed(), []

    def compute(_):
        began = time.thread_time()
        while time.thread_time() - began < 0.01:
            pass
        own.append(time.thread_time() - began)
        return 1

    with Threads(2) as threads:
        threads.turn(lambda _: time.sleep(0.05) or 1, timed, 0.1)
        threads.turn(compute, computing, 0.03)
    assert timed.alone[0] < 21
    assert timed.together[0] < 42
    assert timed.cpu_seconds < 0.025
    assert computing.cpu_seconds >= min(own) >= 0.01


def test_kinds_are_mixed_as_they_are_in_the_data():
    """Three quarters at 1 ms and one at 9 ms are 3 ms in the mean, 333 images per second."""
    found = mixed({"a": cost("decode", 1), "b": cost("decode", 9)}, {"a": 0.75, "b": 0.25})
    assert found.cpu_seconds == Turns((pytest.approx(0.003),))
    assert found.together.median == pytest.approx(1000 / 3)
    without = mixed({"a": cost("decode", 1)}, {"a": 0.75, "b": 0.25})
    assert without.cpu_seconds.median == pytest.approx(0.001)


def test_other_ways_to_store_images_are_made_in_memory():
    """Smaller ones are smaller; what cannot be done is said."""
    large = [Sample(at, str(at), {"jpg": photograph(600, 800, seed=at)}) for at in range(2)]
    maker = Maker(DATA, light_recipe(64), HOW, 0.05)
    changes, skipped = find_changes(maker, large, {"baseline JPEG": 1.0})
    assert list(changes) == ["fast", "smaller"]
    assert not skipped
    images = {name: [one.image for one in _held(change.after)] for name, change in changes.items()}
    assert sorted(images["fast"]) == sorted(one.image for one in large)
    assert changes["fast"].after.parts.fast
    assert not changes["fast"].before.parts.fast
    sizes = [
        tuple(size) for batch in changes["smaller"].after.parts.batches for size in batch.sizes
    ]
    assert sizes == [(128, 171)] * 2
    assert changes["smaller"].size_factor < 0.2
    assert all(change.share == 1.0 for change in changes.values())
    progressive = [encode(decode(one.image), 90, cv2.IMWRITE_JPEG_PROGRESSIVE, 1) for one in large]
    held = [Sample(at, str(at), {"jpg": data}) for at, data in enumerate(progressive)]
    others, _ = find_changes(maker, held, {"progressive JPEG": 0.5})
    assert list(others) == ["smaller"]
    assert (others["smaller"].share, others["smaller"].parts) == (0.5, {"progressive JPEG": 1.0})
    assert [kind_of(one.image) for one in _held(others["smaller"].after)] == ["baseline JPEG"] * 2
    few, why = find_changes(
        Maker(DATA, light_recipe(224), HOW, 0.05), SMALL, {"baseline JPEG": 1.0}
    )
    assert "smaller" not in few
    assert "not much larger than 448 pixels" in why["smaller"]


def decode(data):
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)


def _held(decoding):
    return [one for batch in decoding.parts.batches for one in batch.samples]


def test_samples_in_memory_are_those_of_the_dataset():
    """Labels, names of classes and fields come with them; each gets the index of its place."""
    data = from_arrays(np.zeros((3, 8, 8, 3), np.uint8), [2, 0, 1], class_names=("a", "b", "c"))
    held = Held(data, [data[1], data[2]])
    assert len(held) == 2
    assert [(one.index, one.label) for one in held.fetch([1, 0])] == [(1, 1), (0, 0)]
    assert held.class_names == ("a", "b", "c")
    assert held.label_shape == ()
    with pytest.raises(AttributeError):
        held.keys  # noqa: B018


def test_targets_are_a_stage_where_samples_have_them(tmp_path):
    """A mask of each picture is read and turned over with it."""
    _, mask = cv2.imencode(".png", np.ones((64, 64), np.uint8))
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(photograph(64, 64))
        (tmp_path / f"{number}.mask.png").write_bytes(mask.tobytes())
    samples = open_dataset(tmp_path).fetch(range(4))
    found = costs_of(samples, Recipe([RandomResizedCrop(32), HorizontalFlip()]))
    assert found["targets"].cpu_seconds.median > 0


@pytest.mark.needs_dali
def test_a_pipeline_of_dali_is_measured_whole():
    """DALI's decoder has no parts that could be run alone; what it takes is told as decoding."""
    samples = from_arrays(np.zeros((4, 240, 320, 3), np.uint8))
    found = measure_ceilings(
        samples, light_recipe(), seconds=0.2, batch_size=4, device="cpu", decoder="dali"
    )
    decode = found.stage("decode")
    assert decode is not None
    assert decode.cpu_seconds.median > 0
    assert decode.pixels == 240 * 320
    assert list(found.decode_kinds) == ["raw pixels"]
    assert not found.stored
    assert "DALI resizes" in found.skipped["resize"]
