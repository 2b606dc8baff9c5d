"""Mixtures whose weights change at a checkpoint: the run continues exactly, and what does not fit is refused."""

import itertools
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import Batch, BlockShuffle, Execution, Loader, Monitoring, StateMismatchError
from dali_pipes.runs.audit import sums
from dali_pipes.runs.audit_history import read_history
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers.datasets.mixture import Mixture, mix
from tests.support.loaders import loader_maker
from tests.support.small import SmallDataset, make_small

SIZES = (11, 7, 3)
LENGTH = 40
OLD, NEW, NEWEST = [0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [1, 1, 1]
BY_EPOCH = {0: [1, 1, 0], 1: [0, 1, 1], 2: [1, 0, 0]}
CHANGED = "the weights of the mixture changed"
Rows = list[tuple[int, torch.Tensor]]

load = loader_maker(Recipe([RandomResizedCrop(8), HorizontalFlip()]), seed=3, last_batch="partial")


@pytest.fixture(scope="module")
def members(jpeg: Callable[..., bytes]) -> list[SmallDataset]:
    return [make_small(jpeg, size, 2, name=f"member {number}") for number, size in enumerate(SIZES)]


def mixed(members: list[SmallDataset], weights: Any) -> Mixture:
    return mix(members, weights, length=LENGTH)


def resume(dataset: Mixture, state: Any, **options: Any) -> Loader:
    """A loader of another process, which gets the state from a file, with whatever weights."""
    loader = load(dataset, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", CHANGED)
        loader.load_state_dict(json.loads(json.dumps(state)))
    return loader


def take(loaders: list[Loader], num_steps: int | None = None) -> tuple[Rows, Any]:
    """Take steps of all ranks, to the end of their epoch if no number is given; return the rows and the state."""
    loops = [iter(loader) for loader in loaders]
    batches: list[Batch] = []
    for step in itertools.islice(zip(*loops, strict=True), num_steps):
        batches += step
    state = loaders[0].state_dict()
    for loop in loops:
        loop.close()
    rows = [pair for one in batches for pair in zip(one.indices.tolist(), one.images, strict=True)]
    return rows, state


def position_of(state: Any) -> int:
    """How many samples all ranks have received in all epochs together."""
    return int(state["epoch"] * LENGTH + state["consumed"])


def take_epochs(loader: Loader, last: int) -> Rows:
    rows: Rows = []
    while position_of(loader.state_dict()) < (last + 1) * LENGTH:
        rows += take([loader])[0]
    return rows


def are_equal(rows: Rows, others: Rows) -> bool:
    return len(rows) == len(others) and all(
        one == other and torch.equal(image, picture)
        for (one, image), (other, picture) in zip(rows, others, strict=True)
    )


@pytest.mark.parametrize("number", range(6))
def test_members_continue_on_any_ranks(members: list[SmallDataset], number: int) -> None:
    """Runs with two changes, stopped anywhere on any ranks, are the run that is not stopped in between."""
    random = np.random.default_rng(number)
    shuffle: Any = ["global", BlockShuffle(window=8), "none"][number % 3]
    weights = [OLD, [NEW, BY_EPOCH][number % 2], NEWEST]
    before: Rows = []
    state: Any = load(mixed(members, OLD), shuffle=shuffle).state_dict()
    for own in weights:
        dataset = mixed(members, own)
        stop = int(random.integers(1, 9))
        rows, after = take([resume(dataset, state, batch_size=3, shuffle=shuffle)], stop)
        through: Rows = []
        while left := position_of(after) - position_of(state):
            left = min(left, LENGTH - position_of(state) % LENGTH)
            world = int(random.integers(1, 1 + min(3, left)))
            size = int(random.integers(1, 1 + left // world))
            options: Any = {"world_size": world, "batch_size": size, "shuffle": shuffle}
            ranks = [resume(dataset, state, rank=rank, **options) for rank in range(world)]
            few, state = take(ranks, 1)
            through += few
        assert are_equal(through, rows)
        assert state["weights"] == after["weights"]
        before += rows
    rows = take_epochs(resume(dataset, state, batch_size=6, shuffle=shuffle), 2)

    indices = np.array([index for index, _ in before + rows])
    assert len(indices) == 3 * LENGTH
    for start, size in zip((0, 11, 18), SIZES, strict=True):
        own_rows = indices[(indices >= start) & (indices < start + size)]
        passes = np.split(own_rows, range(size, len(own_rows), size))
        assert all(len({*one.tolist()}) == len(one) for one in passes)
    assert len(state["weights"]) == 3


def test_before_the_change_the_run_is_the_old_one(members: list[SmallDataset]) -> None:
    """A loader that goes back to the first epoch has the old order to the change; one without the state has the new one."""
    old, new = load(mixed(members, OLD)), load(mixed(members, NEW))
    _, state = take([old], 3)
    changed = resume(mixed(members, NEW), state)
    changed.set_epoch(1)
    changed.set_epoch(0)
    again, first, other = (
        take([loader])[0] for loader in (changed, load(mixed(members, OLD)), new)
    )

    assert are_equal(again[:12], first[:12])
    assert not are_equal(again[12:], first[12:])
    assert not are_equal(again[:12], other[:12])


def test_the_change_is_told(members: list[SmallDataset]) -> None:
    """A warning says where and what; later states load in silence, and `explain` keeps the history."""
    _, state = take([load(mixed(members, OLD))], 5)
    loader = load(mixed(members, NEW))
    said = r"changed in epoch 0 after 20 samples: 0.7, 0.2, 0.1 -> 0.1, 0.1, 0.8; each dataset cont"
    with pytest.warns(UserWarning, match=said):
        loader.load_state_dict(state)
    again = load(mixed(members, NEW))
    again.load_state_dict(loader.state_dict())

    old, new = (
        "0.7, 0.2, 0.1 from epoch 0 after 0 samples",
        "0.1, 0.1, 0.8 from epoch 0 after 20 samples",
    )
    assert f"weights: {old}; {new}" in again.explain().splitlines()
    assert not any("weights: " in line for line in load(mixed(members, NEW)).explain().splitlines())


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (0, [[0, 0, [[0, NEW]]]]),
        (4, [[0, 0, [[0, OLD]]], [0, 16, [[0, NEW]]]]),
        (10, [[0, 0, [[0, OLD]]], [1, 0, [[0, NEW]]]]),
    ],
)
def test_the_state_holds_the_history(
    members: list[SmallDataset], steps: int, expected: list[Any]
) -> None:
    """Weights that were never used are dropped, and the end of an epoch is the start of the next one."""
    _, state = take([load(mixed(members, OLD))], steps)
    found = resume(mixed(members, NEW), state).state_dict()["weights"]

    assert [one[:2] for one in found] == [one[:2] for one in expected]
    for (_, _, own), (_, _, wanted) in zip(found, expected, strict=True):
        np.testing.assert_allclose(own[0][1], wanted[0][1])


def test_back_to_the_old_weights(members: list[SmallDataset]) -> None:
    """Weights that are changed and changed back without a step between are no change."""
    _, state = take([load(mixed(members, OLD))], 4)
    there = resume(mixed(members, NEW), state).state_dict()
    back = resume(mixed(members, OLD), there)

    assert {**back.state_dict(), "attempt": ""} == {**state, "attempt": ""}
    rest = take([back])[0]
    assert are_equal(rest, take([resume(mixed(members, OLD), state)])[0])


def test_a_state_without_weights(members: list[SmallDataset]) -> None:
    """States of earlier versions fit the same weights, and are refused with others."""
    _, state = take([load(mixed(members, OLD))], 4)
    old = {name: value for name, value in state.items() if name != "weights"}
    same = resume(mixed(members, OLD), old)

    assert are_equal(take([same])[0], take([resume(mixed(members, OLD), state)])[0])
    with pytest.raises(StateMismatchError, match=r"if an earlier version saved it .*save it again"):
        load(mixed(members, NEW)).load_state_dict(old)


@pytest.mark.parametrize("is_mixture", [True, False])
def test_a_state_of_no_weights(members: list[SmallDataset], is_mixture: bool) -> None:
    """A state of another kind of dataset is not taken for one of an earlier version."""
    dataset = mix(members) if is_mixture else members[0]
    _, state = take([load(dataset)], 2)

    with pytest.raises(StateMismatchError, match="shuffle is 'global' in the state") as refused:
        load(mixed(members, NEW)).load_state_dict(state)
    assert "earlier version" not in str(refused.value)
    assert f"- {dataset!r}; + " in str(refused.value)


def test_what_else_differs_is_named(jpeg: Callable[..., bytes]) -> None:
    """If more than the weights differs, the error shows the difference, and not the weights, which may change."""
    named = [
        SmallDataset([jpeg(40, 48)] * size, [0, 1] * size, ("a", "b"), name=f"of {size}")
        for size in (11, 7)
    ]
    _, state = take([load(mix(named, OLD[:2], length=LENGTH))], 4)

    with pytest.raises(StateMismatchError, match="dataset is") as refused:
        load(mix(named, NEW[:2], length=LENGTH, labels="offset")).load_state_dict(state)
    old, new = re.findall(r"[-+] (Mixture\(.*?\)), weights=([\d., ]+)\)", str(refused.value))
    assert new == (old[0].replace("18 samples", '18 samples, labels="offset"'), old[1])


@pytest.mark.parametrize("count", [2, 12], ids=["a late digit", "a late dataset"])
def test_small_changes_are_shown(jpeg: Callable[..., bytes], count: int) -> None:
    """The warning and `explain` show different weights as different texts."""
    data = [make_small(jpeg, 2, 1, name=f"{number}") for number in range(count)]
    old = [1.0] * (count - 1) + [0.25]
    new = [1.0, 0.2500001] if count == 2 else [*old[:-2], 0.25, 1.0]
    loader = load(mix(data, new, length=LENGTH))
    _, state = take([load(mix(data, old, length=LENGTH))], 4)
    with pytest.warns(UserWarning, match=CHANGED) as warned:
        loader.load_state_dict(state)
    [said] = [one for one in map(str, (one.message for one in warned)) if CHANGED in one]
    texts = re.search(r"samples: (.*) -> (.*); each", said)
    assert texts is not None

    for text, weights in zip(texts.groups(), (old, new), strict=True):
        np.testing.assert_allclose(
            np.array(text.split(", "), float), np.divide(weights, sum(weights)), rtol=1e-8
        )
    assert texts[1] != texts[2]
    assert f"{texts[1]} from epoch 0 after 0 samples; {texts[2]} from epoch 0" in loader.explain()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda all_: mix(all_[:2], [1, 1], length=LENGTH), {}, "dataset is .* in the state"),
        (lambda all_: mix([*all_[1:], all_[0]], NEW, length=LENGTH), {}, "dataset is"),
        (lambda all_: mix(all_, NEW, length=LENGTH + 1), {}, f"length is {LENGTH} in the state"),
        (lambda all_: mix(all_), {}, "shuffle is 'mixed global' in the state and 'global' here"),
        (lambda all_: mixed(all_, NEW), {"seed": 4}, "seed is 3 in the state and 4 here"),
        (lambda all_: mixed(all_, NEW), {"shuffle": "none"}, "shuffle is 'mixed global'"),
        (lambda all_: mixed(all_, NEW), {"recipe": Recipe([RandomResizedCrop(9)])}, "recipe is"),
    ],
    ids=["members", "their order", "length", "no weights", "seed", "shuffle", "recipe"],
)
def test_other_differences_are_refused(
    members: list[SmallDataset], change: Any, options: dict[str, Any], message: str
) -> None:
    """Only the weights may change: with any other difference the state is refused, and the loader stays as it was."""
    _, state = take([load(mixed(members, OLD))], 4)
    loader = load(change(members), **options)
    own = loader.state_dict()

    with pytest.raises(StateMismatchError, match=message):
        loader.load_state_dict(state)
    assert loader.state_dict() == own


@pytest.mark.parametrize(
    "weights",
    [
        [],
        "none",
        [[0, 0, [[0, ["a"]]]]],
        [[0, 0, [[0, OLD]]], [0, LENGTH, [[0, NEW]]]],
        [[0, 0, [[0, OLD]]], [1, 2, [[0, NEW]]], [1, 2, [[0, OLD]]]],
        [[0, 0, [[0, OLD]]], [10**30, 2, [[0, NEW]]]],
        [[0, 0, [[0, [0, 0, 0]]]]],
        [[0, 0, [[0, OLD]]], [0, 3, [[0, NEW]]]],
        [[0, 0, []]],
    ],
    ids=str,
)
def test_a_damaged_history_is_refused(members: list[SmallDataset], weights: Any) -> None:
    """Weights that were not those of the run, or are none, do not become its order."""
    _, state = take([load(mixed(members, OLD))], 4)

    with pytest.raises(StateMismatchError):
        load(mixed(members, OLD)).load_state_dict({**state, "weights": weights})


def test_audit_and_replay_follow_the_change(members: list[SmallDataset], tmp_path: Path) -> None:
    """The audit of both attempts is one run without gaps, and a replay makes the rows of both parts of the epoch."""
    monitoring = Monitoring(audit=tmp_path / "run.jsonl")
    first, state = take([load(mixed(members, OLD), monitoring=monitoring)], 4)
    loader = resume(mixed(members, NEW), state, monitoring=monitoring)
    rows = [*first, *take([loader])[0]]
    history = read_history(str(tmp_path / "run.jsonl"))
    hashes = sums(0, np.arange(LENGTH), np.array([index for index, _ in rows]))

    steps = history.epochs[0]
    assert [step.start for step in steps] == list(range(0, LENGTH, 4))
    mask = (1 << 64) - 1
    assert (sum(one.samples for one in steps) & mask, sum(one.places for one in steps) & mask) == (
        hashes[0] & mask,
        hashes[1] & mask,
    )
    repeats: dict[int, int] = {}
    for index, image in rows:
        repeat = repeats[index] = repeats.get(index, -1) + 1
        assert torch.equal(loader.replay(index, 0, repeat=repeat).row, image)


@pytest.mark.long
def test_helper_processes_have_the_new_order(members: list[SmallDataset]) -> None:
    """Processes that a loader had started before the state was loaded do not go on with the order of that time."""
    _, state = take([load(mixed(members, OLD))], 4)
    expected, _ = take([resume(mixed(members, NEW), state)])
    helped = load(mixed(members, NEW), execution=Execution(helper_process=True))
    take([helped])
    with pytest.warns(UserWarning, match=CHANGED):
        helped.load_state_dict(state)

    assert are_equal(take([helped])[0], expected)
    helped.close()
