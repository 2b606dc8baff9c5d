"""Philox, uniform numbers, and the independence of draws from the batch."""

from collections.abc import Iterator

import numpy as np
import pytest

from gpu_aug import CenterCrop, FrameDrop, OneOf, Operation, RandomApply, Recipe
from gpu_aug.draws import SLOTS, find_partners, philox4x32, slots_of_view, uniforms
from gpu_aug.errors import RecipeError
from gpu_aug.ops import (
    ColorJitter,
    GaussianBlur,
    HorizontalFlip,
    RandomAffine,
    RandomErasing,
    RandomResizedCrop,
)
from gpu_aug.views import Views

# The known answers for philox4x32-10 published with Random123 (file kat_vectors).
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip

EVERYTHING = Recipe(
    [
        RandomResizedCrop(64),
        HorizontalFlip(),
        RandomAffine(10, (0.1, 0.1), (0.9, 1.1), 5, p=0.5),
        ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        GaussianBlur(5, p=0.5),
        RandomErasing(0.5),
    ]
)


class Blend(Operation):
    """An operation that mixes four neighbours."""

    group = 4


MIXED = Recipe([CenterCrop(8), ColorJitter(hue=0.5), Blend()])


def words(text: str) -> np.ndarray:
    return np.array([int(word, 16) for word in text.split()], np.uint32)


def sizes_of(indices: np.ndarray) -> np.ndarray:
    """Made-up source sizes that belong to the sample, as a dataset's do."""
    return np.stack([200 + indices * 37 % 400, 150 + indices * 91 % 500], axis=1)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_published_words(counter, key, answer):
    """Philox 4x32-10 agrees with the vectors its authors published."""
    result = philox4x32(words(counter)[:, None], words(key))

    assert words(answer).tolist() == result[:, 0].tolist()


def test_golden_uniforms():
    """These numbers must never change: every stored run depends on them."""
    first, second = uniforms(7, 3, np.array([0, 123_456_789_012]), [2, 5])

    pinned = [[483565724, 1006898701], [104939544, 1730908288]]
    assert pinned == (first * 2**32).astype(np.int64).tolist()
    pinned = [3208497016, 25170779, 3302785316, 1061446914, 53073083]
    assert pinned == (second[1] * 2**32).astype(np.int64).tolist()


@pytest.mark.parametrize(("one", "other"), [((0, 1, 5), (1, 0, 5)), ((0, 0, 5), (0, 0, 5 + 2**32))])
def test_numbers_depend_on_seed_epoch_and_all_64_bits_of_the_index(one, other):
    """Seed and epoch are not added, and the upper half of the index counts."""
    [first], [second] = (uniforms(s, e, np.array([index]), [16]) for s, e, index in (one, other))

    assert not (first == second).any()


def test_slots_and_blocks_do_not_share_numbers():
    """No number occurs twice among the slots of a sample, nor among samples."""
    numbers = np.concatenate(uniforms(0, 0, np.arange(50), [5, 9, 1, 4]), axis=1)

    assert numbers.size == len(np.unique(numbers))


def test_a_slot_does_not_depend_on_what_other_slots_need():
    """Changing one operation leaves the numbers of the others as they were."""
    indices = np.arange(10)

    small, large = uniforms(0, 0, indices, [1, 6]), uniforms(0, 0, indices, [22, 6])

    np.testing.assert_array_equal(small[1], large[1])
    np.testing.assert_array_equal(small[0], large[0][:, :1])


def test_a_draw_does_not_depend_on_its_batch():
    """A sample gets the same draw alone, in another order, and among other samples."""
    indices = np.random.default_rng(0).permutation(500)[:60]
    whole = EVERYTHING.draw(5, 2, indices, sizes_of(indices))

    for picked in (np.array([17]), np.arange(60)[::-1], np.arange(20, 40)):
        part = EVERYTHING.draw(5, 2, indices[picked], sizes_of(indices[picked]))
        for name in ("start", "shape", "resize", "paste"):
            np.testing.assert_array_equal(
                getattr(whole.crops, name)[picked], getattr(part.crops, name)
            )
        for expected, actual in zip(whole.params, part.params, strict=True):
            for name, values in expected.items():
                np.testing.assert_array_equal(values[picked], actual[name])


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_partners_are_neighbours_in_aligned_groups(length):
    """A plain loop over the epoch finds the same pairs and fours, the last ones incomplete."""
    partners = find_partners(np.arange(length), length)

    for position in range(length):
        for column, (group, ahead) in enumerate(((2, 1), (4, 1), (4, 2), (4, 3))):
            first = position // group * group
            members = [place for place in range(first, first + group) if place < length]
            expected = members[(members.index(position) + ahead) % len(members)]
            assert partners[position, column] == expected


def test_partners_do_not_depend_on_the_batch():
    """Any part of an epoch, in any order, finds the same partners, or none where they are missing."""
    positions = np.array([9, 4, 5, 7, 6, 0])
    partners = find_partners(positions, 10)

    assert positions[partners[:, 0]].tolist() == [9, 5, 4, 6, 7, 0]  # 8 and 1 are not there
    assert positions[partners[1, 1:]].tolist() == [5, 6, 7]
    assert positions[partners[2, 1:]].tolist() == [6, 7, 4]


def test_rows_keep_the_partners_that_come_along():
    """In a part of a batch, partners are numbered anew; one who stayed behind is replaced by itself."""
    draws = MIXED.draw(0, 0, np.arange(8), np.full((8, 2), 9))

    parts = [draws.rows(*rows).partners[:, 0].tolist() for rows in ((2, 6), (1, 3))]
    assert parts == [[1, 0, 3, 2], [0, 1]]


def test_views_draw_each_for_itself():
    """No two operations of equal recipes as views draw alike; view 0 draws what the recipe alone draws."""
    recipe = Recipe([CenterCrop(8), *[ColorJitter(hue=0.5)] * 4])
    views = Views([recipe] * 3).draw(5, 1, np.arange(6), np.full((6, 2), 9))
    alone = recipe.draw(5, 1, np.arange(6), np.full((6, 2), 9))
    hues = np.array([[params["hue"] for params in draws.params] for draws in views])

    assert len(np.unique(hues)) == 3 * 4 * 6
    np.testing.assert_array_equal(hues[0], [params["hue"] for params in alone.params])


@pytest.fixture
def drawn_slots(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[set[int]]]:
    """The slots of every draw, in turn."""
    found: list[set[int]] = []

    def philox(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
        found.append(set(counter[2].ravel().tolist()))
        return philox4x32(counter, key)

    monkeypatch.setattr("gpu_aug.draws.philox4x32", philox)
    return found


def test_golden_slots():
    """They must never change, since every stored run depends on them; they neither overlap nor exceed 32 bits."""
    assert {
        "operations of views": range(1 << 30),
        "starts of clips": range(1 << 30, (1 << 30) + 1),
        "frames that are lost": range(1 << 31, (1 << 31) + 1),
    } == SLOTS
    assert [slots_of_view(view).start for view in (0, 1, 2)] == [0, 65536, 131072]


def test_views_and_frames_draw_from_slots_of_their_own(drawn_slots: list[set[int]]):
    """However many operations stand in combinators: no slot is drawn from twice."""
    many = [RandomApply([OneOf([ColorJitter(hue=0.5), HorizontalFlip()]), GaussianBlur(3)])] * 40
    recipe = Recipe([CenterCrop(8), FrameDrop(), *many])
    indices, sizes = np.arange(3), np.full((3, 2), 9)
    draws = [recipe.draw(5, 1, indices, sizes, view=view) for view in (0, 1, 2, 16383)]
    recipe.temporal_operations[0].order(draws[0].temporal[0], 4)

    assert [len(slots) for slots in drawn_slots] == [5 * 40 + 1] * 4 + [1]
    assert len(set.union(*drawn_slots)) == sum(map(len, drawn_slots))
    for slots, view in zip(drawn_slots, (0, 1, 2, 16383), strict=False):
        assert slots < set(slots_of_view(view))
    assert drawn_slots[-1] == set(SLOTS["frames that are lost"])


@pytest.mark.parametrize(
    ("view", "slots", "message"),
    [
        (1 << 14, 1 << 16, "view must be from 0 to 16383, got 16384"),
        (-1, 1 << 16, r"view must be from 0 .* got -1"),
        (0, 5, r"at most 5 operations.*got 6"),
    ],
)
def test_more_views_or_operations_than_slots_are_refused(monkeypatch, view, slots, message):
    """An error in words, before the numbers of another view are drawn."""
    monkeypatch.setattr("gpu_aug.draws._SLOTS_PER_VIEW", slots)
    with pytest.raises(RecipeError, match=message):
        EVERYTHING.draw(0, 0, np.arange(2), np.full((2, 2), 99), view=view)


def test_one_draw_is_replaced_in_a_batch():
    """A row that was replaced holds the draws of the other sample, and its neighbours theirs."""
    draws = MIXED.draw(0, 0, np.arange(4), np.full((4, 2), 9))
    other = MIXED.draw(0, 0, np.array([77]), np.array([[40, 50]]))
    before = [values.copy() for values in (draws.params[0]["hue"], draws.crops.start)]

    draws = draws.replaced(2, other)

    assert draws.params[0]["hue"][2] == other.params[0]["hue"][0]
    assert [*draws.crops.start[2], *draws.sizes[2]] == [*other.crops.start[0], 40, 50]
    np.testing.assert_array_equal(np.delete(before[0], 2), np.delete(draws.params[0]["hue"], 2))
