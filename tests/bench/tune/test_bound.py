"""What limits, as it follows from ceilings that are given: the right cause, two of them, and none."""

from dataclasses import replace

import pytest

from bench.output.errors import BenchError
from bench.tune.bound import Wanted, find_bound
from bench.tune.ceilings import Setting
from bench.tune.ceilings_cores import Cores
from tests.support.ceilings import ceilings, cost, facts, reading, storage

FAST_READS = storage(reading("cold", {1: 50_000.0}))


def test_cores_allow_what_the_stages_take_together():
    """8 cores and 2 + 1 + 1 ms per image are 2000 images per second, by arithmetic."""
    bound = find_bound(ceilings(cost("decode", 2), cost("augment", 1), cost("draw", 1)))
    assert bound.images_per_second == pytest.approx(2000)
    assert bound.causes == ("decode",)
    assert list(bound.shares.items()) == [
        ("decode", 0.5),
        ("augment", 0.25),
        ("draw", 0.25),
        ("read", 0),
    ]


@pytest.mark.parametrize("heavy", ["decode", "augment", "targets", "header"])
def test_the_stage_that_takes_most_of_the_cores_is_the_cause(heavy):
    """Whichever stage it is."""
    stages = [
        cost(name, 20 if name == heavy else 1)
        for name in ("header", "decode", "targets", "augment")
    ]
    assert find_bound(ceilings(*stages, reads=FAST_READS)).causes == (heavy,)


def test_two_stages_that_take_alike_are_two_causes():
    """Within 15 % of one another."""
    near = ceilings(cost("decode", 10), cost("augment", 9), reads=FAST_READS)
    far = ceilings(cost("decode", 10), cost("augment", 8), reads=FAST_READS)
    assert find_bound(near).causes == ("decode", "augment")
    assert find_bound(far).causes == ("decode",)


def test_a_part_of_a_stage_is_not_counted_twice():
    """Resizing is told beside decoding, which holds it."""
    parts = ceilings(cost("decode", 4), cost("resize", 3, part_of="decode"), reads=FAST_READS)
    assert find_bound(parts).images_per_second == pytest.approx(2000)


def test_slow_storage_is_the_cause_and_cores_come_next():
    """300 images per second of storage, 4000 of the cores."""
    slow = storage(reading("cold", {1: 200.0, 2: 300.0, 4: 900.0}))
    bound = find_bound(ceilings(cost("decode", 2), reads=slow))
    assert bound.causes == ("storage",)
    assert bound.images_per_second == 300  # three fetches at once: four were not asked for
    assert bound.next_limit is not None
    assert bound.next_limit.name in ("threads", "cores")
    assert bound.headroom["cores"] == pytest.approx(4000 / 300)
    assert "30.0 MB/s cold with 2 fetches in flight" in bound.resources[0].why


def test_storage_and_cores_that_limit_alike_are_two_causes():
    """Within 15 %."""
    both = storage(reading("cold", {1: 1000.0}))
    found = find_bound(ceilings(cost("decode", 7.5), reads=both))  # 1067 images per second
    assert set(found.causes) == {"storage", "decode"}
    assert find_bound(ceilings(cost("decode", 5), reads=both)).causes == ("storage",)


def test_later_epochs_are_told_where_the_data_stay_near():
    """Storage limits the first epoch, decoding those that find 1 GB in the page cache; 1 TB stays nowhere."""
    reads = storage(reading("cold", {1: 100.0}), reading("warm", {1: 50_000.0}))
    small = find_bound(ceilings(cost("decode", 4), reads=reads, facts=facts(total_bytes=10**9)))
    large = find_bound(ceilings(cost("decode", 4), reads=reads, facts=facts(total_bytes=10**12)))
    assert (small.causes, small.temperature) == (("storage",), "cold")
    assert small.later is not None
    assert (small.later.causes, small.later.temperature) == (("decode",), "warm")
    assert large.later is None


def test_the_cache_of_remote_blocks_decides_for_remote_data():
    """10 GB of memory do not help where the cache holds 1 GB."""
    reads = storage(reading("cold", {1: 100.0}), reading("warm", {1: 50_000.0}))
    remote = facts(total_bytes=5 * 10**9, cache_bytes=10**9)
    assert find_bound(ceilings(cost("decode", 4), reads=reads, facts=remote)).later is None
    remote = facts(total_bytes=5 * 10**9, cache_bytes=10**10)
    assert find_bound(ceilings(cost("decode", 4), reads=reads, facts=remote)).later is not None


def test_other_processes_are_a_cause_where_they_take_the_cores():
    """Half of the cores are another loader's; a tenth is nothing to speak of."""
    stages = cost("decode", 4), cost("augment", 1)
    half = find_bound(ceilings(*stages, reads=FAST_READS, cores=Cores(8, 4.0, 4.0)))
    tenth = find_bound(ceilings(*stages, reads=FAST_READS, cores=Cores(8, 7.2, 0.8)))
    assert half.causes == ("other processes", "decode")
    assert half.images_per_second == pytest.approx(800)
    assert "4.0 of 8 cores" in half.resources[0].why
    assert tenth.causes == ("decode",)


def test_taken_cores_do_not_matter_where_storage_limits():
    """They are no cause then."""
    slow = storage(reading("cold", {1: 10.0}))
    assert find_bound(ceilings(cost("decode", 4), reads=slow, cores=Cores(8, 4.0))).causes == (
        "storage",
    )


def test_too_few_threads_are_the_cause_on_many_cores():
    """One thread on 8 cores."""
    setting = Setting(64, 1, 2, "cpu", "cpu", "fused")
    bound = find_bound(ceilings(cost("decode", 4), reads=FAST_READS, setting=setting))
    assert bound.causes == ("threads",)
    assert bound.images_per_second == pytest.approx(1 / (0.004 + 1 / 50_000))


@pytest.mark.parametrize(
    ("wanted", "verdict", "causes"),
    [
        (100.0, "enough", ("training step",)),
        (1900.0, "tight", ("training step", "decode")),
        (2200.0, "tight", ("training step", "decode")),
        (4000.0, "short", ("decode",)),
        (None, "no aim", ("decode",)),
    ],
)
def test_the_verdict_on_training_that_asks_for_so_much(wanted, verdict, causes):
    """The pipeline gives 2000 images per second."""
    bound = find_bound(ceilings(cost("decode", 4), reads=FAST_READS), Wanted(wanted))
    assert (bound.verdict, bound.causes) == (verdict, causes)
    assert bound.images_per_second == pytest.approx(2000)
    assert bound.limit == pytest.approx(min(2000, wanted or 2000))


def test_a_step_of_so_many_milliseconds_asks_for_a_rate():
    """64 images every 100 ms are 640 per second."""
    assert Wanted.of_step(100, 64).images_per_second == pytest.approx(640)


def test_a_gpu_works_beside_the_cores():
    """What it does costs cores only what its thread takes; its own rate is a resource of its own."""
    base = cost("augment", 0.01, on_device=True)
    gpu = replace(base, together=replace(base.together, runs=(500.0,)))
    slow_copy = replace(gpu, name="transfer", together=replace(base.together, runs=(100.0,)))
    alone = find_bound(ceilings(cost("decode", 1), gpu, reads=FAST_READS))
    both = find_bound(ceilings(cost("decode", 1), gpu, slow_copy, reads=FAST_READS))
    assert (alone.causes, alone.images_per_second) == (("gpu",), 500)
    assert (both.causes, both.images_per_second) == (("transfer",), 100)


def test_one_thread_hands_over_for_all():
    """However many cores there are."""
    slow = cost("hand_over", 2, one_thread=True)
    bound = find_bound(ceilings(cost("decode", 0.1), slow, reads=FAST_READS))
    assert (bound.causes, bound.images_per_second) == (("hand_over",), pytest.approx(500))


def test_what_cannot_be_asked_for():
    """One sentence each."""
    with pytest.raises(BenchError, match="images_per_second must be greater than 0, got 0"):
        Wanted(0)
    with pytest.raises(
        BenchError, match="step_ms and batch_size must be greater than 0, got -1 and 64"
    ):
        Wanted.of_step(-1, 64)
    with pytest.raises(BenchError, match="no stage was measured"):
        find_bound(ceilings(reads=storage()))
