"""Which stage limits, from statistics and trials of stages; and what is said about it."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from bench.timing import Measurement, Turn
from bench.tune.limits import (
    DECODING,
    LOADING,
    READING,
    Limit,
    find_limit,
    further_help,
    help_of_repeated,
)
from bench.tune.search import Tried
from dali_pipes.monitoring import Stats


class Did:
    """Stands for the statistics of a turn of ten seconds."""

    def __init__(self, late: Mapping[str, float], core_share: float = 1.0) -> None:
        self.late, self.core_share = late, core_share
        self.seconds, self.wait_seconds = 10.0, sum(late.values())


def rates(*values: float) -> Measurement:
    """Return turns of a second."""
    return Measurement(tuple(Turn(round(1000 * value), 1000.0) for value in values))


def limit_of(late: Mapping[str, float], core_share: float = 1.0, waited: float = 0.0) -> Limit:
    """Find the limit of a loader whose augmenting costs most by the trials of stages."""
    alone = {READING: rates(1000), DECODING: rates(800), LOADING: rates(100)}
    turn = Turn(1, 10.0, wait_seconds=waited or sum(late.values()))
    stats = cast("Stats", Did(late, core_share))
    return find_limit([(turn, stats), (turn, stats)], alone)


@pytest.mark.parametrize(
    ("late", "stage"),
    [
        ({"decode": 5.0, "augment": 3.0}, "decode"),
        ({"read": 2.0, "header": 2.0, "decode": 3.0}, "read"),
        ({"augment": 2.0, "targets": 2.0, "decode": 3.0}, "augment"),
        ({"transfer": 3.0, "hand_over": 1.0, "decode": 2.0}, "copy"),
        ({"decode": 0.3, "read": 0.1}, "training step"),
        ({"idle": 8.0, "decode": 1.0}, "augment"),
    ],
)
def test_the_stage_that_is_waited_for_limits(late: dict[str, float], stage: str) -> None:
    """Only where threads mostly had nothing to do the trials of stages decide."""
    limit = limit_of(late)

    assert limit.stage == stage
    assert limit.wait_share == pytest.approx(sum(late.values()) / 10)


def test_a_wait_that_the_statistics_lack_counts() -> None:
    """They count the wait for the first batch of an epoch as its start; then the trials of stages decide."""
    limit = limit_of({}, waited=9.0)

    assert (limit.stage, limit.wait_share) == ("augment", 0.9)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (limit_of({"decode": 6.0, "augment": 2.0}), "Decoding limits: the consumer waits for 80% "),
        (limit_of({"decode": 6.0, "augment": 2.0}), "decoding 75%, augmenting 25%."),
        (limit_of({}, waited=9.0), "Augmenting limits: the consumer waits for 90% of the time."),
        (limit_of({"decode": 6.0}, 0.4), "a core for only 40% of their work"),
        (limit_of({}), "The training step limits: it waits for batches for 0% of the time."),
    ],
)
def test_the_limit_in_words(limit: Limit, expected: str) -> None:
    """With the numbers that show it."""
    assert expected in limit.sentence


@pytest.mark.parametrize(
    ("stage", "how", "expected"),
    [
        ("read", {"is_packed": False}, "gpu-aug pack"),
        ("read", {"is_packed": True}, "shuffle='block'"),
        ("decode", {}, "a GPU that decodes"),
        ("decode", {"clips": True}, "key frames"),
        ("augment", {"device": "cuda"}, "gpu-aug recipe show"),
        ("copy", {}, "dtype"),
    ],
)
def test_what_else_helps(stage: str, how: dict[str, Any], expected: str) -> None:
    """Each limit has advice of its own."""
    limit = Limit(stage, 0.9, {}, 1.0)

    found = further_help(limit, **{"device": "cpu", "clips": False, "is_packed": False, **how})

    assert expected in " ".join(found)


@pytest.mark.parametrize(
    ("stage", "expected"), [("training step", False), ("read", False), ("decode", True)]
)
def test_cores_are_asked_for_where_they_matter(stage: str, expected: bool) -> None:
    """Other processes that take the cores are named only where the limiting stage computes."""
    found = further_help(Limit(stage, 0.5, {}, 0.3), device="cpu", clips=False, is_packed=False)

    assert any("other processes" in sentence for sentence in found) is expected
    assert bool(found) is (stage != "training step")


@pytest.mark.parametrize(
    ("stage", "source", "gain", "expected"),
    [
        ("decode", "photos", 1.5, "gpu-aug index photos --seek-points"),
        ("read", "photos", 1.5, "Memory that holds the data (2.0 GB): measured 1.50 times"),
        ("read", "s3://bucket/photos", 1.5, "cache_bytes=2200000000"),
        ("read", "s3://bucket/photos", 1.1, ""),
    ],
)
def test_what_data_that_were_read_before_tell(
    stage: str, source: str, gain: float, expected: str
) -> None:
    """Seek points, memory or a cache of that size; nothing if the gain is small."""
    tried = Tried({}, rates(100, 100, 100), rates(*[100 * gain] * 3), is_kept=True)

    found = help_of_repeated(tried, Limit(stage, 0.9, {}, 1.0), source, 2e9)

    assert expected in " ".join(found)
    assert bool(found) == bool(expected)
