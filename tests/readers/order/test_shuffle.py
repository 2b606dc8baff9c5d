import numpy as np
import pytest

from readers import Order, part

EDGES = sorted({2**k + d for k in range(15) for d in (-1, 0, 1)} | {2**20 + 1})


def epoch_of(order: Order, epoch: int = 0) -> np.ndarray:
    return order.indices(epoch, np.arange(order.length))


def block_order(length: int, block_size: int, window_blocks: int, seed: int = 1) -> Order:
    return Order(length, seed, "block", block_size, window_blocks)


@pytest.mark.parametrize("length", EDGES)
def test_every_epoch_holds_every_index_once(length: int) -> None:
    """The order is a bijection at every length around a power of two."""
    found = epoch_of(Order(length, seed=3), epoch=1)

    assert found.dtype == np.int64
    assert np.array_equal(np.sort(found), np.arange(length))


@pytest.mark.parametrize(
    "order", [Order(1003, seed=1), block_order(1003, 10, 7)], ids=["global", "block"]
)
def test_slices_of_positions_agree_with_the_whole(order: Order) -> None:
    """What stands at a position does not depend on what else was asked for; no positions give no indices."""
    whole = epoch_of(order, 4)
    positions = np.array([1002, 0, 500, 500, 17])

    assert np.array_equal(order.indices(4, positions), whole[positions])
    assert order.indices(0, np.arange(0)).size == 0


def test_golden_orders() -> None:
    """Orders are the same in every version: runs that were saved depend on these numbers."""
    ten = Order(10, seed=3).indices(2, np.arange(10))
    imagenet = Order(1_281_167, seed=1).indices(5, np.array([0, 1, 2, 640_583, 1_281_166]))
    huge = Order(2**40 + 1).indices(0, np.array([0, 1, 2**40]))

    assert ten.tolist() == [9, 7, 3, 4, 0, 5, 2, 6, 1, 8]
    assert imagenet.tolist() == [13159, 1053964, 137161, 797436, 634216]
    assert huge.tolist() == [1042021208762, 505495440774, 495229261913]


def test_seed_and_epoch_are_not_added_up() -> None:
    """All pairs of a small seed and epoch give different orders, above all (0, 1) and (1, 0)."""
    orders = {
        epoch_of(Order(50, seed=seed), epoch).tobytes() for seed in range(8) for epoch in range(8)
    }

    assert len(orders) == 64


def test_no_shuffle_keeps_the_order_of_the_dataset() -> None:
    """Without shuffling every epoch runs from first to last, in an array of its own."""
    positions = np.arange(5)
    found = Order(5, seed=9, shuffle="none").indices(3, positions)
    found[0] = 100

    assert (found.tolist(), positions.tolist()) == ([100, 1, 2, 3, 4], [0, 1, 2, 3, 4])


def chi_square(counts: np.ndarray) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize(
    "order",
    [
        *(Order(length, seed=11) for length in (3, 7)),
        block_order(11, 4, 2, seed=11),
        *(
            pytest.param(order, marks=pytest.mark.long)
            for order in (
                *(Order(length, seed=11) for length in (8, 16, 33)),
                block_order(12, 3, 2, seed=11),
                block_order(17, 4, 3, seed=11),
            )
        ),
    ],
    ids=lambda order: f"{order.name} of {order.length}",
)
def test_every_index_is_as_likely_at_every_position(order: Order) -> None:
    """Over many epochs, indices spread evenly over positions, those of a short block included."""
    length = order.length
    # Of many cells, a single wrong one shows in more epochs only.
    num_epochs = 1000 if length < 12 else 300 * length
    counts = np.zeros((length, length))
    for epoch in range(num_epochs):
        counts[np.arange(length), epoch_of(order, epoch)] += 1
    freedom = (length - 1) ** 2
    limit = freedom + 4.5 * np.sqrt(2 * freedom)

    assert chi_square(counts) < limit
    counts[0, 0] += num_epochs / length  # one index twice as often at one position
    assert chi_square(counts) > limit


def test_neighbours_are_unrelated() -> None:
    """The step from one index to the next takes every value equally often."""
    length, num_epochs = 1000, 100
    steps = np.zeros(length)
    for epoch in range(num_epochs):
        found = epoch_of(Order(length, seed=2), epoch)
        steps += np.bincount(np.diff(found) % length, minlength=length)
    freedom = length - 2
    limit = freedom + 4.5 * np.sqrt(2 * freedom)

    assert steps[0] == 0
    assert chi_square(steps[1:]) < limit
    assert chi_square(np.bincount([1] * 999 + [2], minlength=length)[1:]) > limit


@pytest.mark.parametrize("positions", [[-1], [10], [0, 5, 10]])
def test_positions_outside_the_epoch_are_refused(positions: list[int]) -> None:
    """A position that the epoch does not have is an error, with the range in its text."""
    with pytest.raises(IndexError, match=r"positions must be in 0 <= position < 10, got"):
        Order(10).indices(0, np.array(positions))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": -1}, "length and seed must be >= 0, got length=-1"),
        ({"length": 5, "seed": -2}, "length and seed must be >= 0, got length=5, seed=-2"),
        ({"length": 5, "shuffle": "all"}, "shuffle must be 'global', 'block' or 'none', got 'all'"),
        ({"length": 5, "block_size": 0}, "must be >= 1, got block_size=0, window_blocks=16"),
    ],
)
def test_wrong_settings_are_refused(arguments: dict[str, object], message: str) -> None:
    """Settings are checked when the order is made."""
    with pytest.raises(ValueError, match=message):
        Order(**arguments)


@pytest.mark.parametrize("world_size", [1, 2, 3, 7, 8, 100])
@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 64), (10, 75), (5, 6), (0, 99)])
def test_shares_of_all_ranks_cover_the_slice_once(start: int, stop: int, world_size: int) -> None:
    """Shares follow one another without gap or overlap and are of nearly one size."""
    shares = [part(start, stop, rank, world_size) for rank in range(world_size)]
    covered = [position for first, last in shares for position in range(first, last)]
    sizes = [last - first for first, last in shares]

    assert covered == list(range(start, stop))
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10, 2, 2), "rank must be in 0 <= rank < world_size, got rank=2"),
        ((3, 2, 0, 1), "stop must not be before start, got start=3, stop=2"),
    ],
)
def test_impossible_shares_are_refused(arguments: tuple[int, int, int, int], message: str) -> None:
    """A rank outside the world, or a slice that ends before it begins, is an error."""
    with pytest.raises(ValueError, match=message):
        part(*arguments)
