"""What changes would do, on ceilings that are given: the numbers are arithmetic, and nothing is promised that cannot be."""

from dataclasses import replace

import pytest

from bench.tune.bound import find_bound
from bench.tune.bound_lifts import Lift, find_lifts
from bench.tune.ceilings import Ceilings, Setting, Stored
from bench.tune.ceilings_cores import Cores
from tests.support.ceilings import SAMPLE_BYTES, ceilings, cost, facts, reading, storage

FAST_READS = storage(reading("cold", {1: 50_000.0}))


def lifts_of(found: Ceilings) -> dict[str, Lift]:
    """By change, in their order."""
    return {lift.change: lift for lift in find_lifts(found, find_bound(found))}


def stored(before: float, after: float, *, share: float = 1.0, size_factor: float = 1.0) -> Stored:
    """Decoding takes so many milliseconds as it is, and then."""
    return Stored(cost("decode", after), cost("decode", before), size_factor, share, "made up")


def test_cheaper_decoding_lifts_by_what_it_takes_from_the_sum():
    """8 cores: 4 + 1 ms are 1600 images per second, 2 + 1 ms are 2667."""
    found = ceilings(
        cost("decode", 4), cost("augment", 1), reads=FAST_READS, stored={"fast": stored(4, 2)}
    )
    lift = lifts_of(found)["fast"]
    assert lift.factor == pytest.approx(5 / 3)
    assert lift.images_per_second == pytest.approx(8 / 0.003)
    assert (lift.settings, lift.lossy) == ({"decode": "fast"}, True)


def test_a_change_of_some_images_counts_for_these():
    """A tenth of the images take 20 of the 5.6 ms: 2 in the mean; the rest stays."""
    found = ceilings(
        cost("decode", 5.6), reads=FAST_READS, stored={"smaller": stored(20, 1, share=0.1)}
    )
    assert lifts_of(found)["smaller"].factor == pytest.approx(5.6 / (5.6 - 2 * 0.95))


def test_a_change_counts_by_what_the_kind_that_it_touches_costs():
    """One tenth at 11 ms, to a tenth: 2 ms become 0.9 + 0.11; the ones that were tried are smaller than most."""
    few = Stored(cost("decode", 0.5), cost("decode", 5), 1.0, 0.1, "", {"progressive JPEG": 1.0})
    kinds = {"baseline JPEG": cost("decode", 1), "progressive JPEG": cost("decode", 11)}
    found = ceilings(
        cost("decode", 2),
        reads=FAST_READS,
        facts=replace(facts(), kinds={"baseline JPEG": 90, "progressive JPEG": 10}),
        decode_kinds=kinds,
        stored={"smaller": few},
    )
    assert lifts_of(found)["smaller"].factor == pytest.approx(2 / 1.01)


def test_no_lift_where_something_else_limits():
    """Cheaper decoding is told, with a factor of 1, while storage limits."""
    slow = storage(reading("cold", {1: 100.0, 2: 100.0}))
    lift = lifts_of(ceilings(cost("decode", 4), reads=slow, stored={"fast": stored(4, 2)}))["fast"]
    assert (lift.factor, lift.own_factor) == (1.0, pytest.approx(2))


def test_what_gains_less_than_a_twentieth_is_not_told():
    """Nor what makes it slower."""
    for after in (3.9, 8):
        found = ceilings(cost("decode", 4), reads=FAST_READS, stored={"fast": stored(4, after)})
        assert "fast" not in lifts_of(found)


def test_more_fetches_in_flight_help_against_latency_and_not_against_bandwidth():
    """Eight at once give eight times as much, or no more than one."""
    latency = storage(reading("cold", {1: 100.0, 2: 200.0, 4: 400.0, 8: 800.0, 16: 810.0}))
    lift = lifts_of(ceilings(cost("decode", 1), reads=latency))["in flight"]
    assert lift.settings == {"prefetch": 7, "num_threads": 16}
    assert lift.factor == pytest.approx(4)  # now two: three fetches at once, and four were measured
    bandwidth = storage(reading("cold", {1: 100.0, 2: 101.0, 4: 100.0}))
    assert "in flight" not in lifts_of(ceilings(cost("decode", 1), reads=bandwidth))


def test_packing_gives_what_a_large_file_gave():
    """20 MB/s of single files against 200 MB/s: ten times the images, until the cores limit."""
    small = reading("cold", {1: 200.0})
    reads = storage(small, one_file_each=True, big_bytes_per_second=2000 * SAMPLE_BYTES)
    lift = lifts_of(ceilings(cost("decode", 1), reads=reads))["pack"]
    assert (lift.own_factor, lift.command) == (pytest.approx(10), "gpu-aug pack")
    in_shards = storage(small, big_bytes_per_second=2000 * SAMPLE_BYTES)
    assert "pack" not in lifts_of(ceilings(cost("decode", 1), reads=in_shards))


def test_neighbours_of_shards_are_what_block_shuffle_reads():
    """Three times as fast as random ones."""
    [near] = reading("cold", {2: 300.0})
    reads = storage(reading("cold", {1: 50.0, 2: 100.0}), sequential=near)
    lift = lifts_of(ceilings(cost("decode", 1), reads=reads))["block shuffle"]
    assert (lift.settings, lift.factor) == ({"shuffle": "block"}, pytest.approx(3))


def test_a_larger_cache_is_for_remote_data_that_do_not_fit():
    """5 GB and a cache of 1 GB; not 5 GB and one of 10, nor files on a disk."""
    reads = storage(reading("cold", {1: 100.0}), reading("warm", {1: 5000.0}))
    sizes = {"cache": 10**9, "no cache": 10**10, "no remote": None}
    for name, cache_bytes in sizes.items():
        about = facts(total_bytes=5 * 10**9, cache_bytes=cache_bytes)
        lifts = lifts_of(ceilings(cost("decode", 1), reads=reads, facts=about))
        assert ("cache" in lifts) == (name == "cache")
        if name == "cache":
            assert lifts["cache"].settings == {"cache_bytes": 5_500_000_000}


def test_threads_and_cores_that_are_not_used():
    """One thread of eight, and cores that others take."""
    setting = Setting(64, 1, 2, "cpu", "cpu", "fused")
    few = lifts_of(ceilings(cost("decode", 4), reads=FAST_READS, setting=setting))
    assert few["threads"].settings == {"num_threads": 8}
    assert few["threads"].factor == pytest.approx(8, rel=0.01)
    taken = lifts_of(ceilings(cost("decode", 4), reads=FAST_READS, cores=Cores(8, 2.0, 6.0)))
    assert taken["cores"].factor == pytest.approx(4)
    assert not lifts_of(ceilings(cost("decode", 4), reads=FAST_READS))


def test_the_greatest_effect_comes_first():
    """Whatever the order in which they were measured."""
    both = {"fast": stored(4, 3), "smaller": stored(4, 2)}
    found = lifts_of(ceilings(cost("decode", 4), reads=FAST_READS, stored=both))
    assert list(found) == ["smaller", "fast"]
