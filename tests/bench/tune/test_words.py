"""What limits, in words, on ceilings that are given."""

from collections.abc import Mapping
from typing import Any

import pytest

from bench.tune.bound import Wanted, find_bound
from bench.tune.ceilings_cores import Cores
from bench.tune.words import doubt_of, number, sentence_of, sentence_without_ceilings
from dali_pipes.stats.counts import STAGES
from dali_pipes.stats.stats import Queue, Remote, Stats
from tests.support.ceilings import ceilings, cost, reading, storage


def stats(wait_seconds: float, late: Mapping[str, float]) -> Stats:
    """Ten seconds of a loop that waited for so long."""
    return Stats(
        epoch=0,
        steps=10,
        samples=640,
        seconds=10.0,
        start_seconds=1.0,
        images_per_second=64.0,
        wait_seconds=wait_seconds,
        late=late,
        queue=Queue(0, 0.5, 3, 8, 10),
        bad_samples=0,
        remote=Remote(0, 0, 0, 0),
        whole_images={},
        num_threads=16,
        stages={},
    )


def sentence(found: Any, made: float, seen: Stats | None = None, **more: Any) -> str:
    """The sentence on ceilings."""
    wanted = more.get("wanted")
    about = {"wanted": wanted, "unit": "images", "enough": False, **more}
    return sentence_of(find_bound(found, Wanted(wanted)), made, seen, **about)


def test_decoding_limits_with_its_numbers() -> None:
    """The stage, what it costs, what that allows, what is made and what was seen."""
    found = ceilings(cost("decode", 4), cost("augment", 1))

    text = sentence(found, 1500, stats(9, {"decode": 8.0, "augment": 0.9, "idle": 0.1}))

    assert text == (
        "Decoding limits: an image takes 5.00 ms of a core, and there are 8.0 cores (decoding 80% of that time), which "
        "allows 1600 images/s; the loader makes 1500. The training loop waited for 90% of its time, while threads worked on: "
        "decode 89%, augment 10%."
    )


def test_storage_limits_with_its_bytes() -> None:
    """85 MB/s of samples of 100 kB are 850 images per second."""
    slow = storage(reading("cold", {1: 850.0}))

    text = sentence(ceilings(cost("decode", 1), reads=slow), 800, wanted=5000)

    assert text.startswith("Storage limits: storage gives 85.0 MB/s cold")
    assert "allows 850 images/s; the loader makes 800, and the training step needs 5000." in text


def test_two_causes_are_both_named() -> None:
    """Stages that take as much are one limit."""
    text = sentence(ceilings(cost("decode", 2), cost("augment", 2)), 1900)

    assert text.startswith(("Decoding and augmenting limit: ", "Augmenting and decoding limit: "))


def test_other_processes_are_named() -> None:
    """A quarter of the cores is what this process got."""
    text = sentence(ceilings(cost("decode", 4), cores=Cores(8, 2.0, 6.0)), 480)

    assert text.startswith("Other processes and decoding limit: ")
    assert "2.0 of 8 cores" in text


def test_nothing_to_gain() -> None:
    """Where the training step does not wait that is said, and nothing else."""
    text = sentence(ceilings(cost("decode", 1)), 7900, wanted=320, enough=True)

    assert (
        text == "Nothing to gain: the training step needs 320 images/s and the loader makes 7900."
    )


def test_statistics_that_agree_raise_no_doubt() -> None:
    """Reading stands for storage, and a stage for itself."""
    slow = find_bound(ceilings(cost("decode", 1), reads=storage(reading("cold", {1: 100.0}))))
    busy = find_bound(ceilings(cost("decode", 4)))

    assert doubt_of(slow, 98, stats(9, {"read": 9.0}), enough=False) == ""
    assert doubt_of(busy, 1990, stats(9, {"decode": 9.0}), enough=False) == ""
    assert doubt_of(busy, 1990, None, enough=False) == ""


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "decode"])
def test_statistics_that_differ_are_explained(stage: str) -> None:
    """Whatever else the loader saw, a sentence names it."""
    bound = find_bound(ceilings(cost("decode", 4), cost("augment", 1)))

    text = doubt_of(bound, 1590, stats(9, {stage: 8.0, "decode": 1.0}), enough=False)

    assert text.startswith("The loader's own statistics name ")
    assert text.endswith(".")


def test_a_loop_that_did_not_wait_is_explained() -> None:
    """The bound says decoding and the loop hardly waited."""
    bound = find_bound(ceilings(cost("decode", 4)))

    text = doubt_of(bound, 2100, stats(0.2, {"decode": 0.2}), enough=False)

    assert "waited for 2% of its time" in text


def test_far_below_the_bound_is_said() -> None:
    """A loader that makes half of what its stages allow loses the rest between them."""
    bound = find_bound(ceilings(cost("decode", 4)))

    assert "1.50 times what follows" in doubt_of(bound, 3000, None, enough=False)
    assert "50% of what its stages allow" in doubt_of(bound, 1000, None, enough=False)


def test_enough_on_average_and_not_in_a_run_is_explained() -> None:
    """The ceilings suffice for the step, and yet the loop waited: the stage that comes next is named, and why."""
    bound = find_bound(ceilings(cost("decode", 4), cost("draw", 0.1)), Wanted(1500))

    text = sentence_of(bound, 1800, None, wanted=1500, unit="images", enough=False)

    assert bound.verdict == "enough"
    assert text.startswith("Decoding limits: ")
    assert "On its own each stage" in doubt_of(bound, 1800, None, enough=False)


def test_clips_go_by_what_the_loader_saw() -> None:
    """Without ceilings the statistics are the evidence."""
    seen = stats(9, {"decode": 8.0, "idle": 1.0})

    text = sentence_without_ceilings(4.25, seen, wanted=10, unit="clips", enough=False)

    assert text == (
        "Decoding limits; the loader makes 4.25 clips/s; the training step needs 10 clips/s; the training loop waited "
        "for 90% of its time, while threads worked on: decode 89%, idle threads 11%."
    )


@pytest.mark.parametrize(
    ("rate", "text"), [(1150.4, "1150"), (85.33, "85.3"), (0.2666, "0.267"), (100.2, "100")]
)
def test_rates_have_three_figures(rate: float, text: str) -> None:
    """No more digits than mean something."""
    assert number(rate) == text
