"""How many threads a loader takes where it is not told."""

import os
from collections.abc import Callable

import pytest

from dali_pipes import Loader
from gpu_aug import Recipe, Resize
from readers import Dataset
from tests.support.small import make_small


@pytest.fixture
def explained(
    jpeg: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """Returns what a loader says of its threads on a machine of 16 cores."""

    def explain(ranks: str | None, *, bound_to: int = 16, given: int | None = None) -> list[str]:
        monkeypatch.setattr(os, "cpu_count", lambda: 16)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(bound_to)))
        if ranks is None:
            monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
        else:
            monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
        dataset: Dataset = make_small(jpeg, 4)
        recipe = Recipe([Resize((8, 8))])
        loader = Loader(dataset, recipe, batch_size=2, device="cpu", num_threads=given)
        return [line for line in loader.explain().splitlines() if line.startswith("threads: ")]

    return explain


@pytest.mark.parametrize("ranks", [None, "", "0", "all", "1"])
def test_alone(explained: Callable[..., list[str]], ranks: str | None) -> None:
    """A process that nobody shares the machine with takes all cores."""
    assert explained(ranks) == ["threads: 16, prefetch: auto"]


@pytest.mark.parametrize(("ranks", "threads"), [("8", 2), ("3", 5), ("64", 1)])
def test_ranks_share_the_cores(
    explained: Callable[..., list[str]], ranks: str, threads: int
) -> None:
    """Ranks of a machine take equal parts, rounded down, of at least one core."""
    shared = f"of 16 cores, which {ranks} ranks share"
    assert explained(ranks) == [f"threads: {threads} {shared}, prefetch: auto"]


def test_bound_ranks_keep_their_cores(explained: Callable[..., list[str]]) -> None:
    """What a process is bound to has been divided already."""
    assert explained("8", bound_to=2) == ["threads: 2, prefetch: auto"]


def test_what_is_given_stays(explained: Callable[..., list[str]]) -> None:
    """A number of threads that is given is that of each rank."""
    assert explained("8", given=6) == ["threads: 6, prefetch: auto"]
