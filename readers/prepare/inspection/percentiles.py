"""Summarise the distribution of integers, in memory that does not grow with their count."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

# Each bin is 1 % wide: close enough for a report, and 2,000 bins cover 1 to 10^9.
_STEP = math.log(1.01)
# Number of different integers that are counted exactly, in about 1 MB.
_MOST_EXACT = 10_000


@dataclass
class Spread:
    """A summary of added integers >= 0: count, sum, minimum, maximum and percentiles.

    All values are exact, but percentiles are only within 1 % if more than 10,000 different integers were added.

    Attributes:
        count: Number of added integers.
        total: Sum of the added integers.
        lowest: The smallest added integer; 0 if there is none.
        highest: The largest added integer; 0 if there is none.
        is_exact: Whether the percentiles are exact.
    """

    count: int = 0
    total: int = 0
    lowest: int = 0
    highest: int = 0
    is_exact: bool = True
    _counts: Counter[int] = field(default_factory=Counter, repr=False)

    def add(self, number: int, times: int = 1) -> None:
        """Add an integer, `times` times."""
        self.lowest = min(self.lowest, number) if self.count else number
        self.highest = max(self.highest, number)
        self.count += times
        self.total += number * times
        self._counts[number if self.is_exact else _rounded(number)] += times
        if self.is_exact and len(self._counts) > _MOST_EXACT:
            self._round()

    def extend(self, other: "Spread") -> None:
        """Add all integers of another summary; the result is as if they had been added here one by one."""
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
        """Return the smallest integer that at least `percent` % of the added integers do not exceed; 0 if there are none."""
        left = percent / 100 * self.count
        for number in sorted(self._counts):
            left -= self._counts[number]
            if left <= 0:
                return min(max(number, self.lowest), self.highest)
        return self.highest

    @property
    def about(self) -> str:
        """Prefix for displaying percentiles: "~" if they are approximate, "" if they are exact."""
        return "" if self.is_exact else "~"

    def to_dict(self) -> dict[str, int | bool]:
        """Return count, sum, minimum, maximum and some percentiles for reports, in a form that JSON can store."""
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
        """Return the full state in a form that JSON can store, for `from_json`."""
        counts = list(map(list, self._counts.items()))
        return [self.count, self.total, self.lowest, self.highest, self.is_exact, counts]

    @classmethod
    def from_json(cls, stored: list[Any]) -> "Spread":
        """Return the summary that `to_json` has stored."""
        count, total, lowest, highest, is_exact, counts = stored
        return cls(count, total, lowest, highest, is_exact, Counter(dict(counts)))


def _rounded(number: int) -> int:
    """Return the middle of the 1 % bin that an integer falls into."""
    return round(math.exp(round(math.log(number) / _STEP) * _STEP)) if number else 0
