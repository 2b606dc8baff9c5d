"""Resume of batches of several sizes: every sample once, one size in a step, the same steps with the same batches."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_pipes import Buckets, MultiScale, StateMismatchError
from dali_pipes.steps.schedule import BucketSteps, Consumed, LastBatch, Plan, Steps, total
from dali_pipes.steps.variants import Variants, make_variants
from gpu_aug import HorizontalFlip, MixUp, RandomResizedCrop, Recipe, Schedule
from readers import Dataset, open_dataset
from readers.order.bucket_order import BucketOrder
from tests.support.adapters import write_tar
from tests.support.extent import trials
from tests.support.loaders import Fleet

few = settings(deadline=None, max_examples=trials(25), derandomize=True, database=None)
NUM_IMAGES = 41
BUCKETS = Buckets([(8, 8), (6, 12), (12, 6)])
SCALES = [8, 12, (8, 16)]
GOLDEN_SCALES = [
    [1, 0, 2, 0, 2, 0, 1, 1, 0, 1, 0, 0],
    [0, 1, 2, 2, 2, 2, 1, 0, 0, 0, 0, 0],
    [0, 1, 0, 1, 0, 0, 2, 0, 1, 0, 0, 1],
]


def recipe_of(size: tuple[int, int]) -> Recipe:
    return Recipe([RandomResizedCrop(size), HorizontalFlip()])


BUCKETED, SCALED = (
    make_variants(recipe_of, BUCKETS),
    make_variants(recipe_of, MultiScale(SCALES, every=24)),
)


class Stage(NamedTuple):
    """A time with one number of ranks and batches of these sizes; None takes what is left of the epoch."""

    world_size: int
    batches: tuple[int, int, int]
    steps: int | None


def order_of(lengths: Sequence[int]) -> BucketOrder:
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(3), lengths))
    return BucketOrder(BUCKETS, codes.astype(np.uint8), seed=3)


def taken(ranks: Sequence[Iterator[Plan]], steps: int | None) -> Iterator[tuple[list[int], Plan]]:
    """The valid positions of each step, over all ranks and in their order, and the plan of the first rank."""
    for plans in itertools.islice(zip(*ranks, strict=True), steps):
        shares = [plan.positions[plan.rows][plan.valid].tolist() for plan in plans]
        first = plans[0]
        told = {(plan.consumed, plan.bucket, plan.variant, plan.step) for plan in plans}
        assert len(told) == 1  # the ranks agree
        yield list(itertools.chain(*shares)), first


def bucket_steps(
    order: BucketOrder,
    batches: tuple[int, ...],
    rank: int,
    world: int,
    last_batch: LastBatch,
    variants: Variants,
) -> BucketSteps:
    largest = max(batches)
    return BucketSteps(len(order), largest, rank, world, last_batch, variants, order, batches)


def steps_of(
    order: BucketOrder,
    stage: Stage,
    consumed: Consumed,
    last_batch: LastBatch = "partial",
    variants: Variants = BUCKETED,
) -> Iterator[tuple[list[int], Plan]]:
    world, batches = stage.world_size, stage.batches
    ranks = [
        bucket_steps(order, batches, rank, world, last_batch, variants) for rank in range(world)
    ]
    count = {rank.num_steps(consumed) for rank in ranks}
    plans = [rank.plans(1, consumed) for rank in ranks]
    got = list(taken(plans, stage.steps))
    assert stage.steps is not None or count == {len(got)}
    return iter(got)


class TestBucketSteps:
    @few
    @given(
        st.tuples(*[st.integers(0, 30)] * 3).filter(any),
        st.lists(
            st.tuples(st.integers(1, 4), st.tuples(*[st.integers(1, 5)] * 3), st.integers(0, 4)),
            max_size=4,
        ),
    )
    def test_every_sample_once(
        self, lengths: tuple[int, ...], stages: list[tuple[int, tuple[int, int, int], int]]
    ) -> None:
        """Whatever ranks and batches an epoch is gone through with, each position comes exactly once."""
        order = order_of(lengths)
        consumed: Consumed = 0
        received: list[int] = []
        for stage in [*itertools.starmap(Stage, stages), Stage(2, (3, 2, 1), None)]:
            for positions, plan in steps_of(order, stage, consumed):
                start, stop = order.stretch(plan.bucket)
                assert all(start <= position < stop for position in positions)
                assert len(positions) <= stage.world_size * stage.batches[plan.bucket]
                received += positions
                consumed = plan.consumed
                assert total(consumed) == len(received)
        assert sorted(received) == list(range(sum(lengths)))

    @pytest.mark.parametrize("worlds", list(itertools.permutations((1, 2, 4), 2)), ids=str)
    def test_one_global_batch_is_one_run(self, worlds: tuple[int, int]) -> None:
        """With the same global batch the steps are the same on any number of ranks, and after a resume at any step."""
        order = order_of((30, 17, 9))
        stages = [Stage(world, (8 // world, 4 // world, 4 // world), None) for world in worlds]
        whole = list(steps_of(order, stages[0], 0))
        for stop in range(len(whole)):
            rest = steps_of(order, stages[1], whole[stop - 1][1].consumed if stop else 0)
            assert [positions for positions, _ in rest] == [
                positions for positions, _ in whole[stop:]
            ]

    def test_drop_and_pad(self) -> None:
        """What does not fill a step is left out, or filled up with samples of its bucket that are not valid."""
        order = order_of((10, 3, 7))
        stage = Stage(2, (2, 2, 2), None)
        dropped = list(steps_of(order, stage, 0, "drop"))
        assert sorted(len(positions) for positions, _ in dropped) == [4, 4, 4]
        assert dropped[-1][1].consumed == (10, 3, 7)  # the epoch is over
        steps = bucket_steps(order, (2, 2, 2), 0, 2, "drop", BUCKETED)
        assert (steps.left_out, steps.num_steps()) == (8, 3)
        for rank in range(2):
            padded = bucket_steps(order, (2, 2, 2), rank, 2, "pad", BUCKETED).plans(0, 0)
            for plan in padded:
                start, stop = order.stretch(plan.bucket)
                assert len(plan.rows) == 2
                assert all(start <= position < stop for position in plan.positions.tolist())
        padded_positions = [one for one, _ in steps_of(order, stage, 0, "pad")]
        assert sorted(itertools.chain(*padded_positions)) == list(range(20))

    def test_sees_a_loss(self) -> None:
        """Negative control: a state that is off by one sample doubles or loses one."""
        order = order_of((12, 9, 6))
        got = list(steps_of(order, Stage(2, (2, 2, 2), 3), 0))
        counts = got[-1][1].consumed
        assert not isinstance(counts, int)
        had = [positions for positions, _ in got]
        for bucket in range(3):
            wrong = tuple(count + (number == bucket) for number, count in enumerate(counts))
            rest = [one for one, _ in steps_of(order, Stage(1, (4, 4, 4), None), wrong)]
            assert sorted(itertools.chain(*had, *rest)) != list(range(27))

    def test_groups_are_of_one_bucket(self) -> None:
        """Partners in mixing are neighbours within the bucket, on any number of ranks and after any resume."""
        mixed = make_variants(lambda size: Recipe([RandomResizedCrop(size), MixUp()]), BUCKETS)
        order = order_of((11, 7, 3))
        for world, counts in itertools.product((1, 2, 3), ((0, 0, 0), (1, 4, 2))):
            for rank in range(world):
                for plan in bucket_steps(order, (2, 3, 1), rank, world, "partial", mixed).plans(
                    0, counts
                ):
                    start, stop = order.stretch(plan.bucket)
                    local = plan.positions - start
                    assert 0 <= local.min(initial=0) <= local.max(initial=0) < stop - start
                    assert set(local) == {
                        one
                        for position in local[plan.rows].tolist()
                        for one in (position - position % 2, position - position % 2 + 1)
                        if one < stop - start
                    }


class TestChangingSizes:
    @few
    @given(
        st.integers(1, 90),
        st.lists(
            st.tuples(
                st.sampled_from([(1, 1), (1, 6), (2, 2), (2, 6), (3, 1), (3, 2), (4, 2), (4, 6)]),
                st.integers(0, 5),
            ),
            max_size=4,
        ),
    )
    def test_a_size_is_that_of_its_position(
        self, length: int, stages: list[tuple[tuple[int, int], int]]
    ) -> None:
        """No step has two sizes, however it was resumed; the positions come once, and in order.

        A stage is (number of ranks, batch size) and its steps; a loader takes only batches that divide the samples of a size.
        """
        scales = SCALED.sizes
        consumed: Consumed = 0
        received: list[int] = []
        for (world, batch), num in [*stages, ((2, 3), None)]:
            assert scales.every % (world * batch) == 0
            ranks = [
                Steps(length, batch, rank, world, "partial", SCALED, 7) for rank in range(world)
            ]
            count = ranks[0].num_steps(consumed)
            got = list(taken([rank.plans(2, consumed) for rank in ranks], num))
            assert num is not None or count == len(got)
            for positions, plan in got:
                expected = {scales.at(7, 2, position) for position in positions}
                assert expected == {plan.variant}
                received += positions
                consumed = plan.consumed
        assert received == list(range(length))

    def test_golden(self) -> None:
        """Stored runs depend on these numbers."""
        scales = MultiScale(SCALES, every=24)
        for epoch, expected in enumerate(GOLDEN_SCALES):
            assert [scales.at(5, epoch, 24 * number) for number in range(12)] == expected
            assert [scales.at(5, epoch, 24 * number + 23) for number in range(12)] == expected


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """A shard of small images of several shapes."""
    pictures = [
        jpeg(9 + 3 * (number % 4), 9 + 5 * (number % 3), seed=number)
        for number in range(NUM_IMAGES)
    ]
    return open_dataset(write_tar(tmp_path_factory.mktemp("tar") / "train.tar", pictures))


RUNS: dict[str, dict[str, Any]] = {
    "buckets": {"recipe": recipe_of, "buckets": BUCKETS},
    "sizes": {"recipe": recipe_of, "sizes": MultiScale(SCALES, every=24)},
    "schedule": {"recipe": Schedule({0: recipe_of((8, 8)), 1: recipe_of((10, 6))})},
    "both": {
        "recipe": lambda size: Schedule({0: recipe_of(size), 1: Recipe([RandomResizedCrop(size)])}),
        "buckets": BUCKETS,
    },
}


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(RUNS["buckets"], id="buckets", marks=pytest.mark.long),
        pytest.param(RUNS["sizes"], id="sizes"),
        pytest.param(RUNS["schedule"], id="schedule", marks=pytest.mark.long),
        pytest.param(RUNS["both"], id="both"),
    ],
)
class TestLoaders:
    def test_from_every_step_into_any_world(self, dataset: Dataset, run: dict[str, Any]) -> None:
        """Two epochs, left at a step and gone on with on other ranks and batches, give each sample once, to the bit."""
        alone = Fleet(dataset, 1, batch_size=8, **run)
        alone.run()
        alone.run()
        expected = [dict(alone.rows[:NUM_IMAGES]), dict(alone.rows[NUM_IMAGES:])]
        assert all(sorted(epoch) == list(range(NUM_IMAGES)) for epoch in expected)
        for stop, world in ((1, 3), (4, 1)):
            first = Fleet(dataset, 2, batch_size=3, **run)
            first.run(stop)
            then = Fleet(dataset, world, batch_size={1: 4, 3: 2}[world], **run)
            then.load(first.state())
            then.run()
            then.run()
            rest = NUM_IMAGES - len(first.rows)
            same(first.rows + then.rows[:rest], expected[0])
            same(then.rows[rest:], expected[1])


def same(got: list[tuple[int, torch.Tensor]], expected: dict[int, torch.Tensor]) -> None:
    """Each sample came once, and is to the bit what was expected."""
    assert sorted(index for index, _ in got) == sorted(expected)
    for index, image in got:
        assert torch.equal(image, expected[index])


def test_states_do_not_fit_other_sizes(dataset: Dataset) -> None:
    """A state of other buckets, of other sizes, or of one recipe alone is refused, and says why."""
    loader = Fleet(dataset, 1, batch_size=4, **RUNS["buckets"]).ranks[0]
    state = loader.state_dict()
    assert state["buckets"] == [0, 0, 0]
    others: list[dict[str, Any]] = [
        {"recipe": recipe_of((8, 8))},
        {"recipe": recipe_of, "buckets": Buckets([(8, 8), (6, 12), (12, 7)])},
        RUNS["sizes"],
    ]
    for other in others:
        ours = Fleet(dataset, 1, batch_size=4, **other).ranks[0]
        with pytest.raises(StateMismatchError, match=r"recipe is .* in the state"):
            ours.load_state_dict(state)
    damaged: list[tuple[dict[str, Any], str]] = [
        ({"buckets": [0, 0]}, "allowed are 3 whole numbers"),
        ({"buckets": [0, 0, -1]}, "none larger than its bucket"),
        ({"buckets": [0, 0, True], "consumed": 1}, "none larger than its bucket"),
        ({"buckets": None}, "buckets=None"),
        ({"buckets": [1, 0, 2], "consumed": 2}, r"none larger than its bucket, 2 together"),
    ]
    for change, said in damaged:
        with pytest.raises(StateMismatchError, match=said):
            loader.load_state_dict({**state, **change})
