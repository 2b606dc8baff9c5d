"""Statistics are handed to callables when they are due, and whatever these do, the run goes on."""

import gc
import math
import re
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dali_pipes import Every, LoaderError, Monitoring, Stats
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from tests.support.loaders import loader_maker
from tests.support.small import SmallDataset, make_small

RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])
NUM_STEPS = 5


@pytest.fixture
def dataset(jpeg: Callable[..., bytes]) -> SmallDataset:
    """Small pictures for five steps."""
    return make_small(jpeg, 4 * NUM_STEPS)


load = loader_maker(RECIPE)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (5, [5]), (7, [5])],
)
def test_every_so_many_steps(dataset: SmallDataset, steps: int, expected: list[int]) -> None:
    """Also once when the loop ends, but not twice for one step."""
    seen: list[int] = []
    list(
        load(
            dataset,
            monitoring=Monitoring(
                metrics=Every(lambda stats: seen.append(stats.steps), steps=steps)
            ),
        )
    )
    assert seen == expected


def test_every_so_many_seconds(dataset: SmallDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted from the first batch, then from the last call."""
    now: Iterator[int] = iter(range(100, 10_000, 4))
    clock = SimpleNamespace(monotonic=lambda: next(now))  # each look at it takes four seconds
    monkeypatch.setattr("dali_pipes.monitoring.metrics.time", clock)
    seen: list[int] = []
    list(
        load(
            dataset,
            monitoring=Monitoring(
                metrics=Every(lambda stats: seen.append(stats.steps), seconds=7.5)
            ),
        )
    )
    assert seen == [2, 4, 5]


def test_scopes(dataset: SmallDataset) -> None:
    """Of the epoch or since the loader was made, as `Every` or the callable itself says; in the loop's thread."""
    seen: dict[str, list[Any]] = {"epoch": [], "run": [], "own": [], "bare": []}

    class Own:
        scope = "run"

        def __call__(self, stats: Stats) -> None:
            seen["own"].append(stats.steps)

    def note(stats: Stats) -> None:
        seen["bare"].append((stats.epoch, stats.steps, stats.samples, threading.get_ident()))

    metrics = [
        Every(lambda stats: seen["epoch"].append(stats.steps), steps=9),
        Every(lambda stats: seen["run"].append(stats.steps), steps=9, scope="run"),
        Own(),
        note,
    ]
    loader = load(dataset, monitoring=Monitoring(metrics=metrics))
    for _ in range(2):
        list(loader)
    me = threading.get_ident()
    bare = [(0, 5, 20, me), (1, 5, 20, me)]
    assert seen == {"epoch": [5, 5], "run": [5, 10], "own": [5, 10], "bare": bare}


@pytest.mark.parametrize(("leave", "expected"), [("break", [2]), ("close", [2]), ("collect", [])])
def test_a_loop_that_is_left(dataset: SmallDataset, leave: str, expected: list[int]) -> None:
    """What it had is handed over, too; but the garbage collector calls nobody, for it runs in the middle of anything."""
    seen: list[int] = []
    loader = load(dataset, monitoring=Monitoring(metrics=lambda stats: seen.append(stats.steps)))
    batches = iter(loader)
    cycle: list[Any] = [next(batches), next(batches)]
    assert seen == []
    if leave == "close":
        loader.close()
    if leave == "collect":
        cycle += [batches, cycle]
    del batches, cycle
    gc.collect()
    assert seen == expected


def test_an_exception(dataset: SmallDataset) -> None:
    """It is told once, with the place; the run goes on, and so do the calls and those of others."""
    calls: list[int] = []
    seen: list[int] = []

    def fail(stats: Stats) -> None:
        calls.append(stats.steps)
        raise ConnectionError("nobody listens")

    loader = load(
        dataset,
        monitoring=Monitoring(
            metrics=[Every(fail, steps=1), lambda stats: seen.append(stats.steps)]
        ),
    )
    with pytest.warns(UserWarning, match="metrics=") as told:
        assert [len(batch) for batch in loader] == [4] * NUM_STEPS
    list(loader)
    assert (calls, seen) == ([1, 2, 3, 4, 5] * 2, [5, 5])
    (only,) = told
    text = str(only.message)
    assert re.search("fail raised ConnectionError: nobody listens in .*test_metrics.py, line", text)
    assert only.filename.endswith("test_metrics.py")


def test_an_interrupt(dataset: SmallDataset) -> None:
    """Ctrl-C is none of a callable's errors."""

    def interrupt(_: Stats) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(load(dataset, monitoring=Monitoring(metrics=Every(interrupt, steps=2))))


async def later(stats: Stats) -> None:
    """Nobody would await it."""


class Collector:
    def __call__(self, stats: Stats) -> None:
        """Collect nothing."""


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        (3, r"metrics=3 is of type int; give a callable"),
        ([print, "x"], r"metrics='x' is of type str"),
        (Collector, r"metrics=Collector is a class: give an object of it"),
        (later, r"coroutine function"),
    ],
)
def test_what_cannot_be_called(dataset: SmallDataset, metrics: Any, text: str) -> None:
    """It is refused when the loader is made."""
    with pytest.raises(LoaderError, match=text):
        load(dataset, monitoring=Monitoring(metrics=metrics))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, r"give one of both"),
        ({"steps": 2, "seconds": 1.0}, r"give one of both"),
        ({"steps": 0}, r"steps=0 is not allowed; give an integer of 1 or more"),
        ({"steps": 2.0}, r"steps=2\.0 is not allowed"),
        ({"steps": True}, r"steps=True is not allowed"),
        ({"seconds": 0}, r"seconds=0 is not allowed; give a number above 0"),
        ({"seconds": math.nan}, r"seconds=nan is not allowed"),
        ({"seconds": math.inf}, r"seconds=inf is not allowed"),
        ({"seconds": "5"}, r"seconds='5' is not allowed"),
        (
            {"steps": 2, "scope": "batch"},
            r'scope=\'batch\' is not known; allowed are None, "epoch", "run"',
        ),
    ],
)
def test_wrong_times(options: dict[str, Any], text: str) -> None:
    """They are refused when `Every` is made."""
    with pytest.raises(LoaderError, match=text):
        Every(print, **options)
