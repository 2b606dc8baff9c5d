"""Weights that change at a position of a run: each group continues, as a simulation with lists says."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers.order.proportion import EpochWeights, ProportionalOrder, WeightChange
from readers.order.shuffle import make_order

NUM_EPOCHS = 4


def share(weights: list[int]) -> tuple[float, ...]:
    return tuple(weight / sum(weights) for weight in weights)


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    """Sizes of groups, the length of an epoch, and weights with the positions from which they hold."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    length = draw(st.integers(1, 300))
    shares = st.lists(st.integers(1, 20), min_size=len(sizes), max_size=len(sizes)).map(share)
    starts = st.tuples(st.integers(0, NUM_EPOCHS - 1), st.integers(0, length - 1))
    later = st.lists(st.tuples(st.integers(1, NUM_EPOCHS), shares), max_size=1)
    weights = st.builds(lambda first, more: ((0, first), *more), shares, later)
    found = draw(st.sets(starts, max_size=3))
    return {
        "sizes": sizes,
        "length": length,
        "seed": draw(st.integers(0, 3)),
        "shuffle": draw(st.sampled_from(["global", "block", "none"])),
        "first": draw(weights),
        "changes": [WeightChange(*start, draw(weights)) for start in sorted(found - {(0, 0)})],
    }


def order_of(run: dict[str, Any], weights: EpochWeights, changes: Any = ()) -> ProportionalOrder:
    blocks = run["shuffle"] == "block"
    within = [make_order(n, n, "block", block_size=3, shuffle_window=6) for n in run["sizes"]]
    (_, first), *later = weights
    return ProportionalOrder(
        run["length"],
        run["seed"],
        np.array(run["sizes"]),
        first,
        orders=tuple(within) if blocks else (),
        shuffled=run["shuffle"] != "none",
        later=tuple(later),
        changes=tuple(changes),
    )


def indices_of(order: ProportionalOrder, num_epochs: int = NUM_EPOCHS) -> list[int]:
    positions = np.arange(len(order))
    return [
        index for epoch in range(num_epochs) for index in order.places(epoch, positions)[0].tolist()
    ]


def simulate(run: dict[str, Any]) -> list[int]:
    """Take, position by position, the group that the present weights have there, and the group's next sample."""
    ends = np.cumsum(run["sizes"])
    size = len(run["sizes"])
    weights = [run["first"], *(change.weights for change in run["changes"])]
    groups = [np.searchsorted(ends, indices_of(order_of(run, one)), "right") for one in weights]
    starts = [epoch * run["length"] + position for epoch, position, _ in run["changes"]]
    # Which samples of a group follow each other does not depend on weights: an order of that group alone has them.
    alone = {**run, "length": run["length"] * NUM_EPOCHS}
    sequences = []
    for group in range(size):
        shares = [1e-9] * size
        shares[group] = 1.0
        found = np.array(indices_of(order_of(alone, ((0, tuple(shares)),)), 1))
        sequences.append(found[np.searchsorted(ends, found, "right") == group])
    taken = [0] * size
    result = []
    for position in range(NUM_EPOCHS * run["length"]):
        group = int(groups[int(np.searchsorted(starts, position, "right"))][position])
        result.append(int(sequences[group][taken[group]]))
        taken[group] += 1
    return result


@settings(max_examples=40, deadline=None)
@given(runs())
def test_groups_continue(run: dict[str, Any]) -> None:
    """The order is that of the simulation, so no sample of a group is repeated or left out."""
    assert indices_of(order_of(run, run["first"], run["changes"])) == simulate(run)


@settings(max_examples=40, deadline=None)
@given(runs(), st.randoms(use_true_random=False))
def test_any_positions_and_their_repeats(run: dict[str, Any], random: Any) -> None:
    """Positions that are asked in any order have the same samples, and repeats differ within an epoch."""
    order = order_of(run, run["first"], run["changes"])
    positions = np.arange(run["length"])
    for epoch in range(NUM_EPOCHS):
        indices, repeats = order.places(epoch, positions)
        picked = np.array(random.choices(range(run["length"]), k=7))
        some, of_some = order.places(epoch, picked)

        assert np.array_equal(some, indices[picked])
        assert np.array_equal(of_some, repeats[picked])
        assert max(Counter(zip(indices.tolist(), repeats.tolist(), strict=True)).values()) == 1


def test_before_and_after() -> None:
    """Before a change the order is that of the old weights; behind it every section has the new ones."""
    run = {"sizes": [50, 70, 20], "length": 1000, "seed": 1, "shuffle": "global"}
    old, new = ((0, (0.8, 0.1, 0.1)),), ((0, (0.1, 0.2, 0.7)),)
    changed = order_of(run, old, [WeightChange(2, 333, new)])
    found, unchanged = indices_of(changed), indices_of(order_of(run, old))
    groups = np.searchsorted([50, 120], found[2333:], "right")

    assert found[:2333] == unchanged[:2333]
    assert found[2333:] != unchanged[2333:]
    for start, stop in pairwise(range(0, len(groups), 128)):
        counts = np.bincount(groups[start:stop], minlength=3)
        assert abs(counts - 128 * np.array([0.1, 0.2, 0.7])).max() < 8
        assert abs(counts - 128 * np.array([0.8, 0.1, 0.1])).max() > 8


def test_far_from_the_start() -> None:
    """Changes after 10**9 epochs of 10**6 samples are found without walking there, and groups still continue."""
    sizes = np.array([10**6, 10**5])
    changes = [WeightChange(10**9, 500_000, ((0, (0.5, 0.5)),))]
    order = ProportionalOrder(10**6, 0, sizes, (0.9, 0.1), shuffled=False, changes=tuple(changes))
    indices, _ = order.places(10**9, np.arange(499_000, 501_000))

    for start, size in ((0, 10**6), (10**6, 10**5)):
        own = indices[(indices >= start) & (indices < start + size)]
        assert set(np.diff(own) % size) == {1}


@pytest.mark.parametrize("start", [(0, 1), (1, 0), (1, 63), (1, 64), (2, 299)])
def test_a_change_to_the_same_weights_changes_nothing(start: tuple[int, int]) -> None:
    """Two sections with the same weights are the order without a change."""
    run = {"sizes": [50, 70, 20], "length": 300, "seed": 1, "shuffle": "global"}
    weights = ((0, (0.8, 0.1, 0.1)), (2, (0.2, 0.2, 0.6)))
    changed = order_of(run, weights, [WeightChange(*start, weights)])

    assert indices_of(changed) == indices_of(order_of(run, weights))
