"""The sequence in which groups of samples come in fixed proportions, computed without state."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from readers.order.permutation import make_keys, permute

_SCATTERED = 6  # purpose of the keys, so that other uses of a seed get others
_BITS = 31  # of a share: products with either half of a slot, of 31 bits as well, fit into 64 bits
_PAGE = 4096  # positions that are computed and cached together, in 2 ms: the next batches will need them


class Proportions:
    """An endless sequence of slots that assigns each slot to a group, so that every section has the groups in their proportions.

    The d groups are the leaves of a binary tree. Each node divides the slots that reach it between its two children, so that
    in every section of these slots each child gets its share, up to one slot. The tree takes 8 bytes per group, and finding
    the group of a slot takes log2(d) steps.

    Args:
        weights: Relative frequency of each of the d groups, > 0.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        exact = [Fraction(weight) for weight in weights]
        unit = 2**60 / sum(exact)  # whole numbers add up much faster than fractions
        sums = [0]
        for weight in exact:
            sums.append(sums[-1] + max(1, round(weight * unit)))
        # The node of the groups low to high (half open) is known by its middle.
        self._shares = np.zeros(len(exact) + 1, np.int64)
        nodes = [(0, len(exact))]
        while nodes:
            low, high = nodes.pop()
            if high - low > 1:
                middle = (low + high) // 2
                left, both = sums[middle] - sums[low], sums[high] - sums[low]
                self._shares[middle] = ((left << _BITS) + both // 2) // both
                nodes += [(low, middle), (middle, high)]
        self._num_groups = len(exact)

    def count(self, slots: int) -> NDArray[np.int64]:
        """Return the number of slots of each group among the first `slots` slots, int64 [d]."""
        counts = np.zeros(self._num_groups, np.int64)
        nodes = [(0, self._num_groups, slots)]
        while nodes:
            low, high, both = nodes.pop()
            if high - low == 1:
                counts[low] = both
                continue
            middle = (low + high) // 2
            share = self._shares[middle : middle + 1]
            left = int(_count_left(np.array([both], np.int64), share)[0])
            nodes += [(low, middle, left), (middle, high, both - left)]
        return counts

    def locate(
        self, slots: NDArray[np.int64], since: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the group of each slot, and how many slots of that group come before each of k reference slots.

        Args:
            slots: int64 [n], >= 0.
            since: The k reference slots.

        Returns:
            Groups, int64 [n], 0 <= group < d; and counts, int64 [k, n].
        """
        low = np.zeros(slots.shape, np.int64)
        high = np.full(slots.shape, self._num_groups)
        others = np.repeat(np.array(since, np.int64)[:, None], len(slots), axis=1)
        while (high - low > 1).any():
            middle = (low + high) // 2
            inner = high - low > 1
            share = np.where(inner, self._shares[middle], 0)
            left_before = _count_left(slots, share)
            goes_left = _count_left(slots + 1, share) > left_before
            others_left = _count_left(others, share)
            slots = np.where(goes_left, left_before, slots - left_before)
            others = np.where(goes_left, others_left, others - others_left)
            high = np.where(inner & goes_left, middle, high)
            low = np.where(inner & ~goes_left, middle, low)
        return low, others


def _count_left(slots: NDArray[np.int64], share: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return round(slot * share / 2**31) for slots up to 2**62: how many of the first `slots` slots go to the left child."""
    upper, lower = slots >> _BITS, slots & ((1 << _BITS) - 1)
    counted: NDArray[np.int64] = upper * share + ((lower * share + (1 << (_BITS - 1))) >> _BITS)
    return counted


@dataclass(frozen=True, eq=False)
class Interleaving:
    """The sequence of groups over all epochs: the group at each position of each epoch.

    Attributes:
        length: Number of positions in an epoch.
        seed: Seed of the shuffle, >= 0.
        weights: Weight of each of the d groups; 0 leaves a group out.
        shuffled: Whether groups are shuffled among `stretch` neighbouring positions.
        first_epoch: The epoch with which the sequence begins.
    """

    length: int
    seed: int
    weights: tuple[float, ...]
    shuffled: bool
    first_epoch: int = 0
    _present: NDArray[np.int64] = field(init=False, repr=False)
    _proportions: Proportions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_present", np.flatnonzero(self.weights))
        own = Proportions([weight for weight in self.weights if weight])
        object.__setattr__(self, "_proportions", own)

    @property
    def stretch(self) -> int:
        """Number of neighbouring positions among which the groups are shuffled, a power of 2."""
        return max(64, 2 << (len(self._present) - 1).bit_length())

    def locate(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the group at each position of an epoch, and how often that group came before.

        Returns:
            int64 [3, n]: the group; the number of earlier positions of that group since the sequence began; and how many
            of these are in earlier epochs.
        """
        pages, slots = np.divmod(positions, self._page_size)
        located = np.empty((3, len(positions)), np.int64)
        for page in set(pages.tolist()):
            rows = pages == page
            located[:, rows] = _located_page(self, epoch, page)[:, slots[rows]]
        return located

    def locate_page(self, epoch: int, page: int) -> NDArray[np.int64]:
        """Return the result of `locate` for all positions of a page, int64 [3, positions].

        A page is computed as a whole, because counting within shuffled positions needs all of them.

        Args:
            epoch: Number of the epoch.
            page: Index of the page, a section of 4096 positions (or of `stretch`, if that is more).
        """
        first, since = page * self._page_size, (epoch - self.first_epoch) * self.length
        positions = np.arange(first, min(first + self._page_size, self.length))
        slots = since + self._scattered(epoch, positions)
        groups, (before_page, before_epoch) = self._proportions.locate(
            slots, (since + first, since)
        )
        groups = self._present[groups]
        by_group = np.argsort(groups, kind="stable")
        sizes = np.bincount(groups, minlength=len(self.weights))
        ranks = np.empty_like(groups)
        ranks[by_group] = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.stack([groups, before_page + ranks, before_epoch])

    def count(self, epoch: int, position: int = 0) -> NDArray[np.int64]:
        """Return how often each of the d groups comes in the sequence before a position of an epoch, int64 [d]."""
        first = position - position % self.stretch  # no slot leaves its stretch
        rest = self.locate(epoch, np.arange(first, position))[0]
        counts = np.bincount(rest, minlength=len(self.weights))
        slots = (epoch - self.first_epoch) * self.length + first
        counts[self._present] += self._proportions.count(slots)
        return counts

    @property
    def _page_size(self) -> int:
        return max(_PAGE, self.stretch)  # a multiple of it: both are powers of 2

    def _scattered(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self.shuffled:
            return positions
        stretches, within = np.divmod(positions, self.stretch)
        starts = stretches * self.stretch
        sizes = np.minimum(self.stretch, self.length - starts)
        return starts + permute(within, sizes, make_keys(self.seed, epoch, _SCATTERED), stretches)


class Phases:
    """The sequence of groups over all epochs if weights change: one sequence for each phase.

    The group at each position is the one that the sequence of its phase has there, and every group continues at the count
    that it had before the phase. So no sample of a group is repeated or left out.

    Args:
        phases: For each phase, ascending, the epoch and the position with which it begins, and its sequence. The first one
            begins with epoch 0, position 0.
    """

    def __init__(self, phases: "Sequence[tuple[int, int, Interleaving | Phases]]") -> None:
        nothing = np.zeros_like(phases[0][2].count(0))
        # Of each phase: its start, its sequence, what is added to the counts, and the counts at the start of that epoch.
        self._phases = [((0, 0), phases[0][2], nothing, nothing)]
        for epoch, position, sequence in phases[1:]:
            shift = self.count(epoch, position) - sequence.count(epoch, position)
            self._phases.append(((epoch, position), sequence, shift, self.count(epoch, 0)))

    def locate(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the group at each position of an epoch, and how often that group came before, counted from epoch 0.

        Returns:
            int64 [3, n], as `Interleaving.locate` returns it.
        """
        located = np.empty((3, len(positions)), np.int64)
        for start, sequence, shift, at_epoch in self._phases[self._number(epoch, 0) :]:
            if start[0] > epoch:
                break
            begins_here = start[0] == epoch
            rows = positions >= start[1] * begins_here  # the next phases overwrite their rows
            groups, counts, before = sequence.locate(epoch, positions[rows])
            before = at_epoch[groups] if begins_here else before + shift[groups]
            located[:, rows] = groups, counts + shift[groups], before
        return located

    def count(self, epoch: int, position: int = 0) -> NDArray[np.int64]:
        """Return how often each of the d groups comes before a position of an epoch, int64 [d]."""
        _, sequence, shift, _ = self._phases[self._number(epoch, position)]
        return sequence.count(epoch, position) + shift

    def _number(self, epoch: int, position: int) -> int:
        """Return the number of the phase to which a position belongs."""
        return bisect_right(self._phases, (epoch, position), key=lambda phase: phase[0]) - 1


@lru_cache(maxsize=8)
def _located_page(interleaving: Interleaving, epoch: int, page: int) -> NDArray[np.int64]:
    return interleaving.locate_page(epoch, page)
