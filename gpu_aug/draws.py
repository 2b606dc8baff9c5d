"""All random numbers of the package, as a function of (seed, epoch, sample index, operation slot).

Numbers come from Philox 4x32-10, a counter-based generator: it has no state to advance, so the draw of a sample does not depend
on its batch, worker, rank, engine or device.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3",
https://doi.org/10.1145/2063384.2063405.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.compiled.first_call import CompiledAtFirstCall
from gpu_aug.errors import RecipeError
from gpu_aug.resampling.crops import Crops, columns_of, crops_of

Params = dict[str, NDArray[Any]]
"""The drawn parameters of one operation: name -> array whose first axis is the batch."""

_SLOTS_PER_VIEW = 1 << 16  # more than any recipe has operations; stored runs depend on it

SLOTS = {
    "operations of views": range(1 << 30),
    "starts of clips": range(1 << 30, (1 << 30) + 1),
    "frames that are lost": range(1 << 31, (1 << 31) + 1),
}
"""The slots, of the 2**32 of a sample, that each kind of draw takes. Nothing else draws; stored runs depend on the numbers."""

# The partners of a row: one in its pair of positions, three in its four; see Draws.
_GROUPS, _AHEAD = np.array([2, 4, 4, 4]), np.array([1, 1, 2, 3])

# The constants of Philox 4x32-10; see the source above.
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_NUM_ROUNDS = 10
_WORD_BITS = np.uint64(32)
_WORD_MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Draws:
    """The drawn parameters of a batch of B samples, in the order of the recipe.

    Attributes:
        crops: Crop and resize of each source image in the decode stage.
        params: Parameters of each leaf of the batch stage, with first axis B.
        decode_params: Parameters of each leaf of the decode stage, with first axis B. ``crops`` combines them; boxes,
            keypoints and masks need them one by one.
        sizes: Height and width of the source images, int64 [B, 2].
        partners: Rows of the batch that each row may be mixed with, int64 [B, 4]: its neighbour in a pair of positions, then
            its three neighbours in four positions. A row without such a neighbour in the batch is its own partner. If nothing
            is mixed, int64 [B, 0].
        temporal: Parameters of each temporal operation; see gpu_aug.frame_times.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(32), HorizontalFlip()])
        >>> draws = recipe.draw(seed=0, epoch=0, indices=np.array([7, 8]), sizes=np.array([[48, 64]] * 2))
        >>> len(draws)
        2
    """

    crops: Crops
    params: tuple[Params, ...]
    decode_params: tuple[Params, ...]
    sizes: NDArray[np.int64]
    partners: NDArray[np.int64]
    temporal: tuple[Params, ...] = ()

    def __len__(self) -> int:
        return len(self.crops)

    def rows(self, start: int, stop: int) -> "Draws":
        """Return the draws of samples ``start`` to ``stop`` (exclusive) as views.

        A row whose partner is not among them becomes its own partner.
        """
        partners = self.partners[start:stop]
        if partners.size:
            own = np.arange(stop - start)[:, None]
            inside = (partners >= start) & (partners < stop)
            partners = np.where(inside, partners - start, own)
        return self._changed(lambda values: values[start:stop], partners)

    def replaced(self, start: int, part: "Draws") -> "Draws":
        """Return these draws with the rows from ``start`` on replaced by those of ``part``; partners are unchanged."""
        crops = map(partial(_replaced, start), columns_of(self.crops), columns_of(part.crops))
        return Draws(
            crops_of(crops, self.crops.antialias),
            _replaced_params(start, self.params, part.params),
            _replaced_params(start, self.decode_params, part.decode_params),
            _replaced(start, self.sizes, part.sizes),
            self.partners,
            _replaced_params(start, self.temporal, part.temporal),
        )

    def repeat(self, times: int) -> "Draws":
        """Return draws for the frames of clips, [B * times]: all ``times`` frames of a clip get the draw of the clip.

        Frame t of clip b is row ``b * times + t``; the partner of a frame is the frame t of the partner clip.
        """
        if times == 1:
            return self
        frame = np.tile(np.arange(times), len(self))[:, None]
        partners = np.repeat(self.partners, times, axis=0) * times + frame
        return self._changed(lambda values: np.repeat(values, times, axis=0), partners)

    def _changed(
        self, change: Callable[[NDArray[Any]], NDArray[Any]], partners: NDArray[np.int64]
    ) -> "Draws":
        """Return draws in which every array but the partners is changed by one function."""
        params, decode_params, temporal = (
            tuple({name: change(values) for name, values in drawn.items()} for drawn in part)
            for part in (self.params, self.decode_params, self.temporal)
        )
        crops = crops_of(map(change, columns_of(self.crops)), self.crops.antialias)
        return Draws(crops, params, decode_params, change(self.sizes), partners, temporal)


def _replaced(start: int, values: NDArray[Any], part: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of ``values`` with the rows from ``start`` on replaced by ``part``.

    Larger images have longer lists of rectangles; shorter lists are padded with zeros, which are empty rectangles.
    """
    inner = np.maximum(values.shape[1:], part.shape[1:]).tolist()
    copy = np.zeros((len(values), *inner), values.dtype)
    copy[(slice(None), *map(slice, values.shape[1:]))] = values
    rows = slice(start, start + len(part))
    copy[rows] = 0
    copy[(rows, *map(slice, part.shape[1:]))] = part
    return copy


def _replaced_params(
    start: int, params: tuple[Params, ...], part: tuple[Params, ...]
) -> tuple[Params, ...]:
    return tuple(
        {name: _replaced(start, values, new[name]) for name, values in mine.items()}
        for mine, new in zip(params, part, strict=True)
    )


def find_partners(positions: NDArray[np.int64], length: int | None = None) -> NDArray[np.int64]:
    """Return the rows that each row may be mixed with, int64 [B, 4]; see Draws.

    Positions 2k and 2k + 1 are a pair, 4k to 4k + 3 are four; the last ones of an epoch may be fewer.

    Args:
        positions: Positions in the epoch's order, int64 [B].
        length: Number of positions in the epoch; None means one more than the largest of ``positions``.
    """
    if length is None:
        length = int(positions.max(initial=-1)) + 1
    within = positions[:, None] % _GROUPS
    first = positions[:, None] - within
    wanted = first + (within + _AHEAD) % np.minimum(_GROUPS, length - first)
    order = np.argsort(positions, kind="stable")
    place = np.searchsorted(positions[order], wanted, side="right") - 1
    row = order[np.maximum(place, 0)]
    return np.where(positions[row] == wanted, row, np.arange(len(positions))[:, None])


def slots_of_view(view: int) -> range:
    """Return the slots from which the operations of a view draw.

    Raises:
        RecipeError: The index of the view is too large for the slots of views.
    """
    slots = SLOTS["operations of views"]
    first = slots.start + view * _SLOTS_PER_VIEW
    if first not in slots:
        raise RecipeError(
            f"view must be from 0 to {len(slots) // _SLOTS_PER_VIEW - 1}, got {view}: make fewer views"
        )
    return range(first, first + _SLOTS_PER_VIEW)


def uniforms(
    seed: int,
    epoch: int,
    indices: NDArray[np.int64],
    needs: Sequence[int],
    *,
    slots: range = range(_SLOTS_PER_VIEW),
) -> list[NDArray[np.float64]]:
    """Return uniform numbers in [0, 1) for every sample and every slot.

    A number depends on (seed, epoch, sample index, slot, its index in the slot), and on nothing else.

    Args:
        seed: Seed, not negative.
        epoch: Epoch, not negative.
        indices: Sample indices, int64 [B], not negative.
        needs: How many numbers each slot needs, beginning with the first of ``slots``.
        slots: Range of slots, from `SLOTS` or `slots_of_view`.

    Returns:
        For each slot, numbers that are multiples of 2**-32, float64 [B, n].

    Raises:
        RecipeError: More slots are needed than ``slots`` has.
    """
    if len(needs) > len(slots):
        raise RecipeError(
            f"a recipe must have at most {len(slots)} operations, those in others included, got {len(needs)}: "
            "make it shorter"
        )
    slot_and_block, columns = _layout(tuple(needs), slots.start)
    index = np.ascontiguousarray(indices, np.int64)
    counter = np.empty((4, len(index), slot_and_block.shape[1]), np.uint32)
    counter[:2] = index.view(np.uint32).reshape(-1, 2).T[:, :, None]  # the lower word comes first
    counter[2:] = slot_and_block[:, None]
    # SeedSequence mixes the pair; a sum would give (1, 0) and (0, 1) the same numbers.
    key = np.random.SeedSequence(seed, spawn_key=(epoch,)).generate_state(2)

    words = philox4x32(counter, key).transpose(1, 2, 0)
    numbers = words.reshape(len(index), 4 * counter.shape[2]) * np.float64(2.0**-32)
    return [numbers[:, column] for column in columns]


@lru_cache(maxsize=256)  # one entry per recipe and view: 40 us less for each batch
def _layout(needs: tuple[int, ...], start: int) -> tuple[NDArray[np.uint32], tuple[slice, ...]]:
    """Return the last two words of every counter of a sample, uint32 [2, S], and the columns of numbers that belong to each slot."""
    num_blocks = [-(-needed // 4) for needed in needs]
    first = [0, *accumulate(num_blocks)]
    words = [(start + slot, block) for slot, num in enumerate(num_blocks) for block in range(num)]
    columns = (slice(4 * at, 4 * at + needed) for at, needed in zip(first, needs, strict=False))
    return np.array(words, np.uint32).reshape(-1, 2).T.copy(), tuple(columns)


def philox4x32(counter: NDArray[np.uint32], key: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the words of Philox 4x32 with ten rounds for every counter.

    Args:
        counter: Counters, uint32 [4, ...].
        key: Two words below 2**32.

    Returns:
        Statistically independent words, uint32 [4, ...]. The four words of a counter are neighbours in memory.
    """
    words = np.empty((*counter.shape[1:], 4), np.uint32)
    flat = np.ascontiguousarray(counter).reshape(4, -1)
    _philox(flat, np.uint64(key[0]), np.uint64(key[1]), words.ravel())
    return np.moveaxis(words, -1, 0)


@CompiledAtFirstCall
def _philox(counter: Any, k0: Any, k1: Any, words: Any) -> None:
    """Write the words of n counters, uint32 [4, n], to ``words``, uint32 [4 n].

    Compiled, because NumPy took six times as long for 2,304 counters.
    """
    for n in range(counter.shape[1]):
        c0, c1 = np.uint64(counter[0, n]), np.uint64(counter[1, n])
        c2, c3 = np.uint64(counter[2, n]), np.uint64(counter[3, n])
        key0, key1 = k0, k1
        for _ in range(_NUM_ROUNDS):
            first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
            c0, c1 = (second >> _WORD_BITS) ^ c1 ^ key0, second & _WORD_MASK
            c2, c3 = (first >> _WORD_BITS) ^ c3 ^ key1, first & _WORD_MASK
            key0, key1 = (key0 + _KEY_STEPS[0]) & _WORD_MASK, (key1 + _KEY_STEPS[1]) & _WORD_MASK
        words[4 * n], words[4 * n + 1], words[4 * n + 2], words[4 * n + 3] = c0, c1, c2, c3
