"""The distribution of numbers, in memory that does not grow with their count."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_STEP = math.log(1.01)  # each bin is 1 % wide
_MOST_EXACT = 10_000  # different numbers that are kept as they are


@dataclass
class Spread:
    """Whole numbers >= 0: their count, sum, smallest, largest, and percentiles.

    All are exact but the percentiles of more than 10,000 different numbers, which are within 1 %.

    Attributes:
        is_exact: Whether the percentiles are exact, too.
    """

    count: int = 0
    total: int = 0
    lowest: int = 0
    highest: int = 0
    is_exact: bool = True
    _counts: Counter[int] = field(default_factory=Counter, repr=False)

    def add(self, number: int, times: int = 1) -> None:
        """Count a number in."""
        self.lowest = min(self.lowest, number) if self.count else number
        self.highest = max(self.highest, number)
        self.count += times
        self.total += number * times
        self._counts[number if self.is_exact else _rounded(number)] += times
        if self.is_exact and len(self._counts) > _MOST_EXACT:
            self._round()

    def extend(self, other: "Spread") -> None:
        """Count in the numbers of another spread: the outcome is that of all numbers, however they were divided."""
        if not other.count:
            return
        self.lowest = min(self.lowest, other.lowest) if self.count else other.lowest
        self.highest = max(self.highest, other.highest)
        self.count += other.count
        self.total += other.total
        if self.is_exact and not other.is_exact:
            self._round()
        for number, many in other._counts.items():
            rounded = other.is_exact and not self.is_exact
            self._counts[_rounded(number) if rounded else number] += many
        if self.is_exact and len(self._counts) > _MOST_EXACT:
            self._round()

    def _round(self) -> None:
        exact, self._counts, self.is_exact = self._counts, Counter(), False
        for number, many in exact.items():
            self._counts[_rounded(number)] += many

    def percentile(self, percent: float) -> int:
        """The number that so many percent do not exceed; 0 where there are none."""
        left = percent / 100 * self.count
        for number in sorted(self._counts):
            left -= self._counts[number]
            if left <= 0:
                return min(max(number, self.lowest), self.highest)
        return self.highest

    @property
    def about(self) -> str:
        """The prefix of a displayed percentile: "~" if it is approximate."""
        return "" if self.is_exact else "~"

    def to_dict(self) -> dict[str, int | bool]:
        """For JSON."""
        return {
            "count": self.count,
            "total": self.total,
            "lowest": self.lowest,
            "p5": self.percentile(5),
            "median": self.percentile(50),
            "p95": self.percentile(95),
            "highest": self.highest,
            "exact": self.is_exact,
        }

    def to_json(self) -> list[Any]:
        """All of it, with nothing but numbers and lists."""
        counts = list(map(list, self._counts.items()))
        return [self.count, self.total, self.lowest, self.highest, self.is_exact, counts]

    @classmethod
    def from_json(cls, told: list[Any]) -> "Spread":
        """What `to_json` told of."""
        count, total, lowest, highest, is_exact, counts = told
        return cls(count, total, lowest, highest, is_exact, Counter(dict(counts)))


def _rounded(number: int) -> int:
    """The middle of the bin that a number is in."""
    return round(math.exp(round(math.log(number) / _STEP) * _STEP)) if number else 0
