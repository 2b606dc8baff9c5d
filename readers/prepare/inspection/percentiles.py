"""The distribution of integers, in memory that does not grow with their count."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

# Each bin is 1 % wide: close enough for a report, and 2,000 bins cover 1 to 10^9.
_STEP = math.log(1.01)
# Different numbers that are counted exactly, in about 1 MB.
_MOST_EXACT = 10_000


@dataclass
class Spread:
    """Integers >= 0: their count, sum, lowest, highest, and percentiles.

    All are exact, except that the percentiles of more than 10,000 different numbers are within 1 %.

    Attributes:
        is_exact: Whether the percentiles are exact.
    """

    count: int = 0
    total: int = 0
    lowest: int = 0
    highest: int = 0
    is_exact: bool = True
    _counts: Counter[int] = field(default_factory=Counter, repr=False)

    def add(self, number: int, times: int = 1) -> None:
        """Add a number, once or several times."""
        self.lowest = min(self.lowest, number) if self.count else number
        self.highest = max(self.highest, number)
        self.count += times
        self.total += number * times
        self._counts[number if self.is_exact else _rounded(number)] += times
        if self.is_exact and len(self._counts) > _MOST_EXACT:
            self._round()

    def extend(self, other: "Spread") -> None:
        """Add the numbers of another spread; the result does not depend on how the numbers were divided."""
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
        """Return the smallest number that at least so many percent do not exceed; 0 for no numbers."""
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
        """Return the summary, for JSON."""
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
        """Return everything as numbers and lists, for `from_json`."""
        counts = list(map(list, self._counts.items()))
        return [self.count, self.total, self.lowest, self.highest, self.is_exact, counts]

    @classmethod
    def from_json(cls, stored: list[Any]) -> "Spread":
        """Return the spread that `to_json` stored."""
        count, total, lowest, highest, is_exact, counts = stored
        return cls(count, total, lowest, highest, is_exact, Counter(dict(counts)))


def _rounded(number: int) -> int:
    """Return the middle of the bin of a number."""
    return round(math.exp(round(math.log(number) / _STEP) * _STEP)) if number else 0
