"""How numbers are spread, in memory that does not grow with how many there are."""

import math
from collections import Counter
from dataclasses import dataclass, field

_STEP = math.log(1.01)  # each bin is 1 % wide


@dataclass
class Spread:
    """Whole numbers >= 0: how many, their sum, both ends (exact), and percentiles (within 1 %)."""

    count: int = 0
    total: int = 0
    lowest: int = 0
    highest: int = 0
    _bins: Counter[int] = field(default_factory=Counter, repr=False)

    def add(self, number: int, times: int = 1) -> None:
        """Count a number in."""
        self.lowest = min(self.lowest, number) if self.count else number
        self.highest = max(self.highest, number)
        self.count += times
        self.total += number * times
        self._bins[round(math.log(number) / _STEP) if number else -1] += times

    def percentile(self, percent: float) -> int:
        """The number that so many percent do not exceed; 0 where there are none."""
        left = percent / 100 * self.count
        for place in sorted(self._bins):
            left -= self._bins[place]
            if left <= 0:
                middle = round(math.exp(place * _STEP)) if place >= 0 else 0
                return min(max(middle, self.lowest), self.highest)
        return self.highest

    def to_dict(self) -> dict[str, int]:
        """For JSON."""
        return {
            "count": self.count,
            "total": self.total,
            "lowest": self.lowest,
            "p5": self.percentile(5),
            "median": self.percentile(50),
            "p95": self.percentile(95),
            "highest": self.highest,
        }
