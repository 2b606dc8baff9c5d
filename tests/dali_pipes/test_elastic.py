"""Resume into other numbers of ranks and other batch sizes: every sample once, in one order, with the same pixels.

Two levels. `Steps` alone, which is all that decides who gets which positions, for big worlds and whole tables
of them; and real loaders that decode, for the numbers of ranks 1, 2, 3, 4, 7 and 8. Scenarios whose
names say so follow those of other projects' tests of elastic resume.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
import torch

from dali_pipes.steps.schedule import LastBatch, Steps
from dali_pipes.steps.variants import make_variants
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from tests.support.adapters import write_tar
from tests.support.loaders import Fleet

Rows = list[tuple[int, torch.Tensor]]

NUM_IMAGES = 29
RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])
VARIANTS = make_variants(RECIPE, None)


WORLDS = [((1, 4), 7), ((2, 3), 1), ((2, 3), 4), ((3, 2), 2)]
"""Ranks and batch size before, and ranks afterwards."""
MORE_WORLDS = [
    pytest.param(*case, marks=pytest.mark.long)
    for case in itertools.product([(1, 4), (2, 3), (3, 2)], (1, 2, 3, 4, 7, 8))
    if case not in WORLDS
]


class Stage(NamedTuple):
    """A time with one number of ranks and one batch size; None takes what is left of the epoch."""

    world_size: int
    batch_size: int
    steps: int | None


def steps_of(
    length: int, stage: Stage, consumed: int, last_batch: LastBatch = "partial"
) -> Iterator[tuple[list[int], int]]:
    """The positions of each step of a stage, over all ranks and in their order, and the state after it."""
    ranks = [
        Steps(length, stage.batch_size, rank, stage.world_size, last_batch, VARIANTS).plans(
            0, consumed
        )
        for rank in range(stage.world_size)
    ]
    for plans in itertools.islice(zip(*ranks, strict=True), stage.steps):
        shares = [plan.positions[plan.rows][plan.valid].tolist() for plan in plans]
        assert max(map(len, shares)) <= stage.batch_size
        assert len({plan.consumed for plan in plans}) == 1
        yield list(itertools.chain(*shares)), plans[0].consumed


def run_stages(
    length: int, stages: Sequence[Stage], last_batch: LastBatch = "partial"
) -> list[list[int]]:
    """The positions that each stage of an epoch received."""
    consumed, received = 0, []
    for stage in stages:
        got = list(steps_of(length, stage, consumed, last_batch))
        received.append(list(itertools.chain(*(positions for positions, _ in got))))
        consumed = got[-1][1] if got else consumed
    return received


SCENARIOS = {
    "LitData, 2 to 8 to 2 workers": [Stage(2, 4, 5), Stage(8, 4, 3), Stage(2, 4, None)],
    "LitData, world 2 to 1": [Stage(2, 4, 7), Stage(1, 4, None)],
    "LitData, second elastic save": [
        Stage(4, 2, 3),
        Stage(2, 2, 4),
        Stage(8, 2, 2),
        Stage(1, 2, None),
    ],
    "LitData, cursor between global batches": [Stage(3, 5, 1), Stage(7, 4, 1), Stage(2, 9, None)],
    "Grain, 32 to 16 to 32 hosts": [Stage(32, 3, 2), Stage(16, 3, 3), Stage(32, 3, None)],
    "Grain, 16 to 32 to 16 hosts": [Stage(16, 2, 3), Stage(32, 2, 2), Stage(16, 2, None)],
    "Energon, 2 ranks to 1": [Stage(2, 4, 6), Stage(1, 8, None)],
    "Energon, 1 rank to 2": [Stage(1, 8, 6), Stage(2, 4, None)],
    "Energon, 4 ranks to 2": [Stage(4, 2, 6), Stage(2, 4, None)],
    "Energon, 2 ranks to 4": [Stage(2, 4, 6), Stage(4, 2, None)],
    "Energon, 8 ranks to 1 to 8": [Stage(8, 1, 6), Stage(1, 8, 5), Stage(8, 1, None)],
    "what Energon refuses, ranks times workers not constant": [Stage(3, 2, 5), Stage(5, 7, None)],
    "one by one": [Stage(1, 1, 1), Stage(8, 1, 1), Stage(1, 1, 1), Stage(7, 1, None)],
    "more ranks than samples": [Stage(2, 1, 3), Stage(1000, 4, None)],
}


class TestSchedule:
    @pytest.mark.parametrize("stages", SCENARIOS.values(), ids=SCENARIOS.keys())
    @pytest.mark.parametrize("length", [301, 384])
    def test_every_position_once_and_in_order(self, stages: list[Stage], length: int) -> None:
        """What the stages received, one after the other, is the epoch; so no two of them share a sample."""
        received = run_stages(length, stages)

        assert list(itertools.chain(*received)) == list(range(length))

    @pytest.mark.parametrize("worlds", list(itertools.permutations((1, 2, 3, 4, 7, 8), 2)), ids=str)
    def test_from_every_step_into_every_world(self, worlds: tuple[int, int]) -> None:
        """Whatever step a state is of, other ranks with another batch size take up exactly the rest."""
        before, after = worlds
        length = 101
        whole = list(steps_of(length, Stage(before, 3, None), 0))
        for stop in range(len(whole) + 1):
            had = list(itertools.chain(*(positions for positions, _ in whole[:stop])))
            consumed = whole[stop - 1][1] if stop else 0
            rest = [positions for positions, _ in steps_of(length, Stage(after, 2, None), consumed)]
            assert had + list(itertools.chain(*rest)) == list(range(length))

    @pytest.mark.parametrize("world_size", [1, 2, 4, 8])
    def test_global_batches_do_not_depend_on_the_world(self, world_size: int) -> None:
        """Energon's invariance: with one global batch size, each step is the same set of samples in any world."""
        expected = [positions for positions, _ in steps_of(203, Stage(1, 16, None), 0)]
        found = [
            positions
            for positions, _ in steps_of(203, Stage(world_size, 16 // world_size, None), 0)
        ]

        assert found == expected

    def test_dropped_and_padded_rests(self) -> None:
        """With "drop" and "pad" a resume repeats nothing, either, and leaves less than a global batch."""
        for stages in SCENARIOS.values():
            if stages[-1].world_size == 1000:
                continue
            padded = list(itertools.chain(*run_stages(301, stages, "pad")))
            dropped = list(itertools.chain(*run_stages(301, stages, "drop")))
            assert padded == list(range(301))
            assert dropped == list(range(len(dropped)))
            assert len(dropped) > 301 - stages[-1].world_size * stages[-1].batch_size

    def test_sees_a_loss(self) -> None:
        """Negative control: a state that is off by one position doubles or loses a sample."""
        had = [positions for positions, _ in steps_of(50, Stage(2, 4, 2), 0)]
        for wrong in (15, 17):
            rest = [positions for positions, _ in steps_of(50, Stage(3, 4, None), wrong)]
            assert list(itertools.chain(*had, *rest)) != list(range(50))


def fleet_of(dataset: Dataset, world_size: int, batch_size: int, **options: Any) -> Fleet:
    return Fleet(dataset, world_size, recipe=RECIPE, batch_size=batch_size, **options)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """A shard of small images."""
    pictures = [jpeg(12 + number % 5, 14, seed=number) for number in range(NUM_IMAGES)]
    return open_dataset(write_tar(tmp_path_factory.mktemp("tar") / "train.tar", pictures))


@pytest.fixture(scope="module")
def expected(dataset: Dataset) -> Rows:
    """Two epochs of an uninterrupted run."""
    alone = fleet_of(dataset, 1, NUM_IMAGES)
    alone.run()
    alone.run()
    assert alone.indices[:NUM_IMAGES] != alone.indices[NUM_IMAGES:]
    return alone.rows


def check(fleets: Sequence[Fleet], expected: Rows, start: int, count: int) -> None:
    """What fleets received one after the other is that part of the uninterrupted run, to the bit."""
    got = list(itertools.chain(*(fleet.rows for fleet in fleets)))
    wanted = expected[start : start + count]
    assert [index for index, _ in got] == [index for index, _ in wanted]
    assert all(torch.equal(one, other) for (_, one), (_, other) in zip(got, wanted, strict=True))


class TestLoaders:
    @pytest.mark.parametrize(("before", "after"), [*WORLDS, *MORE_WORLDS], ids=str)
    def test_at_every_step(
        self, dataset: Dataset, expected: Rows, before: tuple[int, int], after: int
    ) -> None:
        """From every step of a run, any number of ranks with another batch size goes on to the bit."""
        whole = fleet_of(dataset, *before)
        for stop in range(1, len(whole.ranks[0])):
            first = fleet_of(dataset, *before)
            first.run(stop)
            then = fleet_of(dataset, after, 5)
            then.load(first.state())
            then.run(None)
            check([first, then], expected, 0, NUM_IMAGES)

    @pytest.mark.parametrize(
        "worlds",
        [
            *((1, 2, 3), (7, 4, 1)),
            *(
                pytest.param(one, marks=pytest.mark.long)
                for one in ((2, 8, 2), (8, 1, 8), (3, 3, 3))
            ),
        ],
        ids=str,
    )
    def test_twice_in_a_row_and_into_the_next_epoch(
        self, dataset: Dataset, expected: Rows, worlds: tuple[int, int, int]
    ) -> None:
        """A run that was resumed is saved and resumed again, and goes on through its next epoch."""
        for steps in ((1, 1), (0, 2), (2, 0)):
            first, second, third = (
                fleet_of(dataset, world_size, batch_size)
                for world_size, batch_size in zip(worlds, (2, 1, 3), strict=True)
            )
            first.run(steps[0])
            second.load(first.state())
            if steps[1]:
                second.run(steps[1])
            third.load(second.state())
            for _ in range(third.state()["epoch"], 2):
                third.run()
            check([first, second, third], expected, 0, 2 * NUM_IMAGES)

    def test_resumed_again_without_a_step(self, dataset: Dataset, expected: Rows) -> None:
        """A state that is loaded and saved again and again without a step stays where it is."""
        first = fleet_of(dataset, 2, 3)
        first.run(2)
        state = first.state()
        for world_size in (1, 2, 8, 3, 1):
            fleet = fleet_of(dataset, world_size, 1)
            fleet.load(state)
            assert fleet.state() == state
            state = fleet.state()
        fleet.run()
        check([first, fleet], expected, 0, NUM_IMAGES)

    @pytest.mark.parametrize("last_batch", ["drop", "partial", "pad"])
    def test_state_of_the_end_of_an_epoch(
        self, dataset: Dataset, expected: Rows, last_batch: LastBatch
    ) -> None:
        """A state from behind the last batch stands at the next epoch, in any world, which is whole."""
        first = fleet_of(dataset, 2, 4, last_batch=last_batch)
        first.run()
        then = fleet_of(dataset, 3, 2)
        then.load(first.state())
        then.run()
        check([then], expected, NUM_IMAGES, NUM_IMAGES)
