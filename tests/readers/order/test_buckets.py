"""Buckets: which size suits an image, the order within them, and whose turn it is."""

import math
import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from readers import Buckets, SelectionError
from readers.order.bucket_order import BucketOrder, take_turns
from readers.order.buckets import MOST_BUCKETS, batches_of
from tests.support.extent import trials

few = settings(deadline=None, max_examples=trials(30), derandomize=True, database=None)
SIZES = [(16, 16), (12, 20), (20, 12)]
GOLDEN_ORDER = [0, 9, 18, 3, 6, 12, 15, 19, 7, 10, 13, 1, 16, 4, 17, 14, 8, 11, 2, 5]
GOLDEN_TURNS = [[2, 0], [0, 0], [1, 0], [0, 2], [2, 2], [0, 4], [1, 3], [0, 6], [1, 6], [2, 4]]


def make(
    codes: Sequence[int] | NDArray[np.integer], num_buckets: int = 3, seed: int = 3
) -> BucketOrder:
    sizes = [(16, 16 + number) for number in range(num_buckets)]
    return BucketOrder(Buckets(sizes), np.array(codes, np.uint8), seed)


def novelai(area: int, most: int, least: int, step: int) -> set[tuple[int, int]]:
    """The buckets as NovelAI describes them, without the square that it adds."""
    found = set()
    for first in range(least, most + 1, step):
        second = max(side for side in range(step, most + 1, step) if side * first <= area)
        found |= {(first, second), (second, first)}
    return {size for size in found if min(size) >= least}


class TestBuckets:
    def test_nearest_ratio(self) -> None:
        """An image goes where the logarithm of the aspect ratio is nearest."""
        buckets = Buckets.aspect(512 * 512, multiple_of=64, count=9)
        sizes = np.random.default_rng(0).integers(1, 3000, (3000, 2))
        ratios = [math.log(width / height) for height, width in buckets.sizes]
        expected = [
            min(
                range(len(ratios)),
                key=lambda number: abs(ratios[number] - math.log(width / height)),
            )
            for height, width in sizes.tolist()
        ]
        assert buckets.of(sizes).tolist() == expected

    def test_largest_that_is_not_larger(self) -> None:
        """Of sizes of one shape the image's own size decides."""
        buckets = Buckets([(64, 64), (16, 16), (32, 32), (16, 32)])
        images = np.array([[15, 15], [16, 16], [31, 40], [40, 40], [64, 64], [900, 900], [10, 30]])
        assert buckets.of(images).tolist() == [1, 1, 2, 2, 0, 0, 3]

    def test_one_size_for_all(self) -> None:
        """A single bucket takes everything."""
        assert Buckets([(8, 8)]).of(np.array([[1, 100], [100, 1]])).tolist() == [0, 0]

    def test_aspect_is_as_published(self) -> None:
        """Sizes for 512 x 768 pixels are those of NovelAI's description."""
        sizes = Buckets.aspect(512 * 768, multiple_of=64, count=99, largest_ratio=4).sizes
        expected = novelai(512 * 768, 1024, 256, 64)
        assert {size for size in sizes if max(size) < 1024} == {
            size for size in expected if max(size) < 1024
        }
        assert (384, 1024) in sizes  # from 1024 on its sides are cut off, and ours are not

    @pytest.mark.parametrize("count", [1, 3, 4, 5, 9, 40])
    def test_aspect_keeps_its_promises(self, count: int) -> None:
        """Multiples, area, ratio, and upright as well as lying sizes."""
        sizes = Buckets.aspect(512 * 512, multiple_of=32, count=count, largest_ratio=3).sizes
        assert 1 <= len(sizes) <= count
        for height, width in sizes:
            assert height % 32 == width % 32 == 0
            assert height * width <= 512 * 512
            assert max(height, width) <= 3 * min(height, width)
            assert (width, height) in sizes

    def test_batch_sizes(self) -> None:
        """As many images as have so many pixels together, at least one."""
        buckets = Buckets([(10, 10), (10, 20), (100, 100)])
        assert buckets.batch_sizes(pixels=999) == {(10, 10): 9, (10, 20): 4, (100, 100): 1}

    @pytest.mark.parametrize(
        ("sizes", "said"),
        [
            ([], r"give a list of sizes \(height, width\)"),
            ("512", "give a list of sizes"),
            ([512], r"the size 512; give \(height, width\), two whole numbers from 1"),
            ([(512, 0)], "two whole numbers"),
            ([(512, True)], "two whole numbers"),
            ([(1, 2, 3)], "two whole numbers"),
            ([(8, 8), (9, 8), (8, 8)], r"the size \(8, 8\) twice"),
            ([(8, 8 + one) for one in range(MOST_BUCKETS + 1)], "more than 255; give fewer"),
        ],
    )
    def test_refuses(self, sizes: object, said: str) -> None:
        """What is no list of sizes."""
        with pytest.raises(SelectionError, match=said):
            Buckets(sizes)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"area": 0}, "area=0; give a whole number from 1"),
            ({"area": 100, "count": 1.5}, "count=1.5; give a whole number"),
            ({"area": 100, "multiple_of": 64}, "finds no size of 100 pixels"),
            ({"area": 100 * 100, "count": 1}, "finds no square .* give count=2 or more"),
            ({"area": 100, "largest_ratio": 0.5}, "largest_ratio=0.5; give a number from 1"),
        ],
    )
    def test_aspect_refuses(self, options: dict[str, float], said: str) -> None:
        """Numbers of which no size can be made."""
        with pytest.raises(SelectionError, match=said):
            Buckets.aspect(**options)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("batch_size", "said"),
        [
            ({(16, 16): 4, (12, 20): 4}, r"batch_size has none for \(20, 12\)"),
            ({**dict.fromkeys(SIZES, 4), (1, 1): 2}, r"one for \(1, 1\), which is no bucket"),
            (
                {**dict.fromkeys(SIZES, 4), (12, 20): 0},
                r"batch_size=0 for \(12, 20\) is not allowed",
            ),
        ],
    )
    def test_batches_refuse(self, batch_size: dict[tuple[int, int], int], said: str) -> None:
        """Batch sizes that are not those of the buckets."""
        with pytest.raises(SelectionError, match=said):
            batches_of(Buckets(SIZES), batch_size)
        assert batches_of(Buckets(SIZES), {(20, 12): 1, (16, 16): 2, (12, 20): 3}) == (2, 3, 1)


class TestOrder:
    @few
    @given(st.lists(st.integers(0, 4), min_size=1, max_size=1200), st.integers(0, 3))
    def test_each_bucket_is_permuted(self, codes: list[int], epoch: int) -> None:
        """The positions of a bucket are its samples, each once; some buckets have none."""
        order = make(codes, num_buckets=6)
        indices, repeats = order.places(epoch, np.arange(len(codes)))
        assert not repeats.any()
        for bucket in range(6):
            start, stop = order.stretch(bucket)
            expected = [index for index, code in enumerate(codes) if code == bucket]
            assert sorted(indices[start:stop].tolist()) == expected
            assert order.lengths[bucket] == len(expected)

    def test_any_positions_in_any_order(self) -> None:
        """What stands at a position does not depend on what else is asked for."""
        order = make(np.random.default_rng(0).integers(0, 3, 5000))
        whole, _ = order.places(1, np.arange(5000))
        some = np.random.default_rng(1).permutation(5000)[:700]
        assert np.array_equal(order.places(1, some)[0], whole[some])
        assert order.places(1, np.array([], np.int64))[0].size == 0
        with pytest.raises(IndexError):
            order.places(0, np.array([5000]))

    def test_seeds_epochs_and_buckets_differ(self) -> None:
        """Another seed or epoch is another order, and two buckets of one size have orders of their own."""
        codes = np.arange(600) % 3
        orders = [
            make(codes, seed=seed).places(epoch, np.arange(600))[0].reshape(3, 200) // 3
            for seed, epoch in ((3, 0), (3, 1), (4, 0))
        ]
        rows = [tuple(row) for order in orders for row in order.tolist()]
        assert len(set(rows)) == 9

    def test_golden(self) -> None:
        """Stored runs depend on these numbers."""
        codes = np.arange(20) * 7 % 3
        order = make(codes, seed=5)
        assert order.lengths == (7, 7, 6)
        assert order.places(2, np.arange(20))[0].tolist() == GOLDEN_ORDER
        turns = take_turns(order, 2, (0, 0, 0), (2, 3, 2), drop=False)
        assert turns.tolist() == GOLDEN_TURNS

    def test_none_keeps_the_order(self) -> None:
        """Without a shuffle the samples of a bucket ascend, and the buckets follow one another."""
        order = BucketOrder(Buckets(SIZES), np.array([2, 0, 1, 0, 2, 0], np.uint8), 0, "none")
        assert order.places(9, np.arange(6))[0].tolist() == [1, 3, 5, 2, 0, 4]
        turns = take_turns(order, 9, (0, 0, 0), (2, 2, 2), drop=False)
        assert turns.tolist() == [[0, 0], [0, 2], [1, 0], [2, 0]]

    def test_names(self) -> None:
        """A name tells other sizes and shuffles apart, and stays short."""
        assert make([0]).name == "global in buckets 16x16 16x17 16x18"
        many = [make([0], num_buckets=number).name for number in (100, 101)]
        assert many[0] != many[1]
        assert all(len(name) < 200 for name in many)
        with pytest.raises(SelectionError, match='shuffle="block" is not possible with buckets'):
            BucketOrder(Buckets(SIZES), np.zeros(3, np.uint8), 0, "block")

    def test_small_and_picklable(self) -> None:
        """A sample takes a byte, and little more for counting."""
        order = make(np.random.default_rng(0).integers(0, 9, 100_000), num_buckets=9)
        data = pickle.dumps(order)
        assert len(data) < 1.3 * 100_000
        copy = pickle.loads(data)
        positions = np.arange(0, 100_000, 37)
        assert np.array_equal(copy.places(4, positions)[0], order.places(4, positions)[0])


class TestTurns:
    @few
    @given(
        st.lists(st.integers(0, 60), min_size=1, max_size=5),
        st.lists(st.integers(1, 9), min_size=5, max_size=5),
        st.booleans(),
        st.integers(0, 2),
    )
    def test_every_sample_once(
        self, lengths: list[int], batches: list[int], drop: bool, epoch: int
    ) -> None:
        """The steps of a bucket follow one another and cover it, but for what is dropped."""
        order = make(np.repeat(np.arange(len(lengths)), lengths), num_buckets=len(lengths))
        own = batches[: len(lengths)]
        turns = take_turns(order, epoch, [0] * len(lengths), own, drop=drop)
        for bucket, (length, batch) in enumerate(zip(lengths, own, strict=True)):
            starts = turns[turns[:, 0] == bucket, 1].tolist()
            stop = length - length % batch if drop else length
            assert starts == list(range(0, stop, batch))

    @few
    @given(
        st.lists(st.integers(0, 40), min_size=1, max_size=4),
        st.lists(st.integers(1, 7), min_size=4, max_size=4),
        st.data(),
    )
    def test_the_rest_comes_as_it_would_have(
        self, lengths: list[int], batches: list[int], data: st.DataObject
    ) -> None:
        """From any step of a run on, the same steps come in the same order, whatever batches it began with."""
        order = make(np.repeat(np.arange(len(lengths)), lengths), num_buckets=len(lengths))
        own = batches[: len(lengths)]
        begun = [data.draw(st.integers(0, length)) for length in lengths]
        whole = take_turns(order, 1, begun, own, drop=False)
        stop = data.draw(st.integers(0, len(whole)))
        had = list(begun)
        for bucket, start in whole[:stop].tolist():
            had[bucket] = min(start + own[bucket], lengths[bucket])
        rest = take_turns(order, 1, had, own, drop=False)
        assert rest.tolist() == whole[stop:].tolist()

    def test_buckets_keep_pace(self) -> None:
        """At any time every bucket is as far as the epoch is, give or take a step of each."""
        lengths, batches = (3000, 700, 90, 1200), (8, 8, 8, 4)
        order = make(np.repeat(np.arange(4), lengths), num_buckets=4)
        turns = take_turns(order, 0, (0, 0, 0, 0), batches, drop=False)
        had = np.zeros(4)
        for bucket, start in turns.tolist():
            had[bucket] = min(start + batches[bucket], lengths[bucket])
            shares = had / lengths
            steps = np.array(batches) / lengths
            assert (shares + steps >= shares.max() - steps.max()).all()
        first = turns[:200, 0]
        runs = np.diff(np.flatnonzero(np.diff(first) != 0))
        assert runs.max() > 1  # and not in a fixed rotation
        assert not np.array_equal(turns, take_turns(order, 1, (0, 0, 0, 0), batches, drop=False))
