"""The shuffle of streams: a plain buffer, shards divided among lanes, and lanes that are joined anywhere."""

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

from dali_pipes import LoaderError
from dali_pipes.steps.streams.lane import Lane, LaneSpec, Mark
from dali_pipes.steps.streams.order import SHARD_BITS, shards_of, shuffled, slot_numbers
from readers import Sample


class Numbers:
    """Shards of numbered samples in memory; counts what is read."""

    samples_per_epoch, divide, divides_itself = None, "shards", False
    fingerprint, class_names = "numbers", ()

    def __init__(self, sizes: list[int]) -> None:
        self.sizes, self.num_shards, self.num_read = sizes, len(sizes), 0
        self.version = ""

    def read_shard(self, number: int, epoch: int = 0) -> Iterator[Sample]:
        """See `Stream.read_shard`."""
        del epoch
        for index in range(self.sizes[number]):
            self.num_read += 1
            yield Sample(index, f"{number}/{index}{self.version}", {})


def lane(stream: Any, place: int = 0, mark: Mark | None = None, **options: Any) -> Lane:
    given = {"seed": 1, "epoch": 2, "lane": 0, "num_lanes": 1, "window": 5, "repeats": False}
    return Lane(LaneSpec(stream, **{**given, **options}), place, mark)  # type: ignore[arg-type]


def keys(given: list[Any]) -> list[str]:
    return [one.sample.key for one in given]


def simple(items: list[int], window: int, numbers: Iterator[int]) -> list[int]:
    """What a shuffle buffer does, written down as plainly as can be."""
    buffer, out = items[:window], []
    for item in items[window:]:
        slot = next(numbers) % window
        out.append(buffer[slot])
        buffer[slot] = item
    while buffer:
        slot = next(numbers) % len(buffer)
        out.append(buffer[slot])
        buffer[slot] = buffer[-1]
        del buffer[-1]
    return out


@pytest.mark.parametrize("length", [0, 1, 4, 5, 6, 50])
def test_the_buffer_is_that_of_the_reference(length: int) -> None:
    """For streams shorter and longer than it, with the same numbers."""
    items = list(range(length))
    found = list(shuffled(iter(items), 5, slot_numbers(1, 2, 0, 0), []))

    assert (found, sorted(found)) == (simple(items, 5, slot_numbers(1, 2, 0, 0)), items)
    assert length < 6 or found != simple(items, 5, slot_numbers(1, 3, 0, 0))
    assert list(shuffled(iter(items), 0, count(), [])) == items


def test_the_buffer_mixes() -> None:
    """Samples leave it after about as many steps as it holds, from anywhere in the window: mean and spread."""
    window, length = 64, 20_000
    found = np.array(list(shuffled(iter(range(length)), window, slot_numbers(0, 0, 0, 0), [])))
    delay = np.arange(length)[:-window] - found[: length - window] + window

    assert abs(delay.mean() - window) < 3
    assert 0.85 < delay.std() / window < 1.15


def test_the_numbers_of_slots_are_pinned() -> None:
    """Another order in a later version would be refused nowhere: it must not come about unnoticed."""
    numbers = slot_numbers(3, 1, 0, 2)

    assert [next(numbers) % 1000 for _ in range(6)] == [168, 818, 733, 892, 528, 429]
    assert shards_of(9, 0, 1, (3, 1, 0)) == [3, 6, 1, 0, 8, 5, 2, 4, 7]


@pytest.mark.parametrize("num_lanes", [1, 2, 3, 4])
@pytest.mark.parametrize("key", [None, (0, 1, 0), (0, 2, 0)])
def test_lanes_divide_the_shards(num_lanes: int, key: Any) -> None:
    """Every shard once, whatever the number of lanes; their order differs from epoch to epoch."""
    parts = [shards_of(11, number, num_lanes, key) for number in range(num_lanes)]

    assert sorted(shard for part in parts for shard in part) == list(range(11))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert key is None or sorted(shards_of(11, 0, num_lanes, (*key[:2], 1))) == sorted(parts[0])
    assert (parts[0] == list(range(0, 11, num_lanes))) == (key is None)


def test_a_lane_gives_every_sample_once() -> None:
    """With the index that was promised: shard and number in the shard."""
    stream = Numbers([7, 3, 9])
    given = lane(stream).read(100)
    every = [f"{s}/{n}" for s, size in enumerate([7, 3, 9]) for n in range(size)]

    assert sorted(keys(given)) == sorted(every)
    for one in given:
        shard, _, number = one.sample.key.partition("/")
        assert one.sample.index == (int(shard) << SHARD_BITS) + int(number)
    assert keys(lane(stream, window=None).read(100)) == every


@pytest.mark.parametrize("window", [None, 1, 5, 40])
@pytest.mark.parametrize("repeats", [False, True])
def test_a_lane_goes_on_at_any_place(window: int | None, repeats: bool) -> None:
    """With its mark it gives what it would have given, and reads little before; without one, all the same."""
    sizes, total = [7, 3, 9, 4, 6], 29
    options = {"window": window, "repeats": repeats}
    whole = lane(Numbers(sizes), **options).read(total + 15)
    assert len(whole) == (total + 15 if repeats else total)
    for place in range(len(whole) + 1):
        first = lane(Numbers(sizes), **options)
        first.read(place)
        mark = Mark(*first.mark())
        for given in (mark, None):
            later = lane(Numbers(sizes), place, given, **options)
            assert later.place == place
            assert (later.read(3) + later.read(60))[: len(whole) - place] == whole[place:]


def test_a_mark_saves_reading() -> None:
    """A lane that goes on in the middle of many shards reads few of them again, and none that it does not need."""
    sizes = [10] * 50
    first = lane(Numbers(sizes))
    first.read(400)
    stream = Numbers(sizes)
    later = lane(stream, 400, first.mark())
    later.read(1)

    assert stream.num_read < 80
    without = Numbers(sizes)
    lane(without, 400).read(1)
    assert without.num_read > 400


def test_turns() -> None:
    """A lane that begins again has other turns, in another order, and goes through all before."""
    given = lane(Numbers([7, 3]), repeats=True).read(30)

    assert [one.turn for one in given] == [0] * 10 + [1] * 10 + [2] * 10
    turns = [keys(given[start : start + 10]) for start in (0, 10, 20)]
    assert sorted(turns[0]) == sorted(turns[1]) == sorted(turns[2])
    assert turns[0] != turns[1] != turns[2]


def test_a_changed_stream_is_noticed() -> None:
    """By the name of the last sample that was given; a mark that somebody edited by what it lacks."""
    stream = Numbers([7, 3, 9])
    first = lane(stream, window=None)
    first.read(9)
    changed = Numbers([7, 3, 9])
    changed.version = "b"

    with pytest.raises(LoaderError, match=r"other samples than .* sample 8 .* is now 1/1b"):
        lane(changed, 9, first.mark(), window=None)
    with pytest.raises(LoaderError, match="mark of a stream does not fit"):
        lane(stream, 5, Mark(0, 0, 2, 10, 0), window=None).read(3)
    with pytest.raises(LoaderError, match="reader 0 of 1 finds no sample"):
        lane(Numbers([0]), repeats=True).read(1)


def test_the_epoch_is_covered_by_any_number_of_lanes() -> None:
    """Together they give every sample once, each in its own order."""
    for num_lanes in (1, 2, 3, 4):
        found = Counter(
            key
            for number in range(num_lanes)
            for key in keys(lane(Numbers([4] * 12), lane=number, num_lanes=num_lanes).read(100))
        )
        assert (len(found), set(found.values())) == (48, {1})
