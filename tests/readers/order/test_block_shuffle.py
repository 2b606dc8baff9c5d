"""The block shuffle: a bijection at every length, blocks read together, and mixed as well as can be."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import BlockShuffle, Loader, StateMismatchError
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, Order
from readers.order.permutation import make_keys, permute, scale
from tests.readers.order.test_shuffle import block_order, chi_square, epoch_of
from tests.support.shuffle_quality import block_openings, entropies
from tests.support.slow_datasets import Repeated
from tests.support.small import HugeDataset, SmallDataset, make_small

RECIPE = Recipe([RandomResizedCrop(16), HorizontalFlip()])
LENGTHS = [*range(20), *sorted({2**k + d for k in range(5, 11) for d in (-1, 0, 1)})]


@pytest.mark.parametrize("block_size", [1, 2, 3, 7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("window_blocks", [1, 2, 3, 8, 17])
def test_every_epoch_holds_every_index_once(block_size: int, window_blocks: int) -> None:
    """The order is a bijection at every length around a power of two, with a short block and without."""
    for length in LENGTHS:
        found = epoch_of(block_order(length, block_size, window_blocks), epoch=length % 3)
        assert np.array_equal(np.sort(found), np.arange(length)), length


def test_golden_orders() -> None:
    """Orders are the same in every version: runs that were saved depend on these numbers."""
    ten = block_order(10, 3, 2, seed=3).indices(2, np.arange(10))
    imagenet = block_order(1_281_167, 75, 64).indices(5, np.array([0, 1, 2, 640_583, 1_281_166]))
    huge = block_order(10**12, 1000, 16).indices(0, np.array([0, 1, 10**12 - 1]))

    assert ten.tolist() == [3, 1, 7, 4, 8, 9, 2, 6, 0, 5]
    assert imagenet.tolist() == [66658, 1131338, 536785, 139641, 183962]
    assert huge.tolist() == [47209095752, 938079239249, 437306208860]


def test_epochs_seeds_blocks_and_windows_make_other_orders() -> None:
    """Everything the name and the state of an order tell apart is another order."""
    settings = [(8, 4, 0), (8, 4, 1), (9, 4, 0), (8, 5, 0)]
    orders = {
        epoch_of(block_order(300, block, window, seed), epoch).tobytes()
        for block, window, seed in settings
        for epoch in range(3)
    }

    assert len(orders) == 12
    assert block_order(300, 8, 4).name == "block(block_size=8, window_blocks=4)"


def test_a_window_of_everything_is_the_global_order() -> None:
    """Where all blocks may be open at once, nothing is held back."""
    assert np.array_equal(epoch_of(block_order(100, 10, 10)), epoch_of(Order(100, seed=1)))
    assert not np.array_equal(epoch_of(block_order(100, 10, 9)), epoch_of(Order(100, seed=1)))


@pytest.mark.parametrize(("block_size", "window_blocks"), [(64, 8), (50, 16), (128, 4)])
def test_few_blocks_are_open(block_size: int, window_blocks: int) -> None:
    """A stretch of the order touches its window and the blocks that begin meanwhile; the global one far more."""
    length, stretch = 20_011, 256
    order = block_order(length, block_size, window_blocks)
    blocks = epoch_of(order) // block_size
    touched = [
        len(set(blocks[start : start + stretch].tolist()))
        for start in range(0, length - stretch, stretch)
    ]

    assert max(touched) <= window_blocks + stretch // block_size + 2
    of_global = epoch_of(Order(length)) // block_size
    assert len(set(of_global[:stretch].tolist())) > window_blocks + stretch // block_size + 2


def test_blocks_begin_evenly() -> None:
    """In the middle of an epoch no batch has to wait for more than a block or two beyond its share."""
    length, block_size, window_blocks = 50_000, 100, 16
    order = epoch_of(block_order(length, block_size, window_blocks))
    begun = block_openings(order // block_size)
    per_batch = np.bincount(begun // 200, minlength=length // 200)[5:-25]

    assert per_batch.max() <= 4
    assert abs(per_batch.mean() - 2) < 0.1
    assert len(begun) <= length / block_size + 2 * window_blocks


@pytest.mark.parametrize("length", [5, 7, 16])
def test_salts_make_unrelated_permutations(length: int) -> None:
    """Under one key, over many salts, every number goes everywhere, whatever the salt before did with it."""
    num_salts = 20_000
    salts = np.repeat(np.arange(num_salts), length)
    values = np.tile(np.arange(length), num_salts)
    found = permute(values, length, make_keys(1, 2), salts).reshape(num_salts, length)
    everywhere = [np.bincount(column, minlength=length) for column in found.T]
    pairs = np.bincount(found[:-1, 0] * length + found[1:, 0], minlength=length**2)
    same = found[:, 0] * length + found[:, 0]  # what a salt without effect would give

    limit = (length - 1) ** 2 + 4.5 * np.sqrt(2) * (length - 1)
    assert chi_square(np.concatenate(everywhere)) < limit
    assert chi_square(pairs) < limit + 2 * (length - 1)  # its freedom is length**2 - 1
    assert chi_square(np.bincount(same, minlength=length**2)) > 10 * limit


def test_it_mixes_better_than_a_buffer_of_the_same_memory() -> None:
    """The entropy of neighbours' distances is near that of the global order; a buffer's is further off.

    py1e of MosaicML Streaming spreads blocks over a window; here a buffer of as many samples stands for
    such methods, since that library is not there for tests.
    """
    length, block_size, window_blocks = 60_000, 50, 8
    blocks = np.arange(length) // block_size
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(length // block_size)
    stored = (shuffled[:, None] * block_size + np.arange(block_size)).ravel()
    shifts = rng.uniform(-0.5, 0.5, length) * block_size * window_blocks
    buffered = stored[np.argsort(np.arange(length) + shifts)]
    ours, theirs, best, worst = (
        sum(entropies(order, blocks))
        for order in (
            epoch_of(block_order(length, block_size, window_blocks)),
            buffered,
            epoch_of(Order(length)),
            np.arange(length),
        )
    )

    assert worst < 1 < theirs < ours < best
    assert best - ours < 0.5 * (best - theirs)


@pytest.mark.parametrize("round_up", [False, True])
def test_scale_is_exact(round_up: bool) -> None:
    """Products of 82 bits are divided as Python's whole numbers are."""
    rng = np.random.default_rng(0)
    for denominator in (1, 3, 10**12, 2**41 - 1, 2**41):
        values = rng.integers(0, denominator + 1, 200)
        for numerator in (*rng.integers(0, denominator + 1, 20).tolist(), denominator):
            expected = [
                (value * numerator + (denominator - 1) * round_up) // denominator
                for value in values.tolist()
            ]
            found = scale(values, numerator, denominator, round_up=round_up)
            assert found.tolist() == expected


class TestLoader:
    @pytest.fixture(scope="class")
    @staticmethod
    def dataset(jpeg: Callable[..., bytes]) -> SmallDataset:
        """45 images in blocks of 4."""
        return make_small(jpeg, 45)

    @staticmethod
    def load(dataset: Dataset, **options: Any) -> Loader:
        """Three blocks are open unless told otherwise."""
        usual = {"batch_size": 8, "device": "cpu", "decoder": "cpu", "dtype": torch.float32}
        usual |= {"shuffle": BlockShuffle(window=12), "last_batch": "partial", "seed": 2}
        return Loader(dataset, RECIPE, **{**usual, **options})

    def test_order_and_explanation(self, dataset: SmallDataset) -> None:
        """An epoch is the block order by the dataset's blocks; explain says so."""
        loader = self.load(dataset)
        found = torch.cat([batch.indices for batch in loader]).tolist()

        assert found == epoch_of(block_order(45, 4, 3, seed=2)).tolist()
        assert "shuffle: block(block_size=4, window_blocks=3)" in loader.explain()

    def test_state_pins_block_and_window(self, dataset: SmallDataset) -> None:
        """Another window, another block size and another kind of shuffle are refused, with both named."""
        state = self.load(dataset).state_dict()
        other_blocks = SmallDataset(dataset.images, dataset.labels, block_size=5)
        cases: list[tuple[SmallDataset, dict[str, Any]]] = [
            (dataset, {"shuffle": BlockShuffle(window=16)}),
            (other_blocks, {}),
            (dataset, {"shuffle": "global"}),
        ]
        for data, options in cases:
            with pytest.raises(StateMismatchError, match=r"shuffle is 'block\(block_"):
                self.load(data, **options).load_state_dict(state)
        self.load(dataset, shuffle=BlockShuffle(window=11)).load_state_dict(
            state
        )  # 3 blocks as well

    def test_usual_window(self) -> None:
        """Without a window there are 4096 samples, or 16 blocks."""
        small, large = HugeDataset(10**8), HugeDataset(10**8)
        assert small.order(shuffle="block").name == "block(block_size=256, window_blocks=16)"
        assert large.take(range(0, 10**8, 8)).order(shuffle="block").name == (
            "block(block_size=32, window_blocks=128)"
        )

    def test_datasets_of_others_have_blocks_too(self, dataset: SmallDataset) -> None:
        """Whatever has the interface of a dataset is shuffled by blocks of 256, without an order of its own."""
        loader = self.load(Repeated(dataset, 10**6), shuffle="block")
        assert "block(block_size=256, window_blocks=16)" in loader.explain()
