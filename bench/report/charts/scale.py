"""Where a number lies on an axis, and which numbers stand beside it."""

import math
from dataclasses import dataclass

_WIDE = 8  # times from the smallest to the largest number, from which on an axis is logarithmic
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
_DAY = 86400


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`, linear or logarithmic.

    Example:
        >>> from bench.report.charts.scale import Scale
        >>> scale = Scale.from_zero(870)
        >>> scale.place(435), scale.ticks()
        (0.5, [0, 200, 400, 600, 800])
    """

    low: float
    high: float
    is_log: bool = False

    @classmethod
    def from_zero(cls, high: float) -> "Scale":
        """A linear axis that begins with 0; up to 1 where there is nothing above."""
        return cls(0.0, float(high) if high > 0 else 1.0)

    @classmethod
    def around(cls, low: float, high: float) -> "Scale":
        """An axis that holds two positive numbers, logarithmic where they are far apart."""
        if low > 0 and high / low >= _WIDE:
            return cls(float(low), float(high), is_log=True)
        room = 0.5 if low == high else 0.0  # one number alone lies in the middle
        return cls(low - room, high + room)

    def place(self, number: float) -> float:
        """The share of the axis that lies below a number, 0 to 1."""
        low, high = self.low, self.high
        if self.is_log:
            number, low, high = math.log(max(number, low)), math.log(low), math.log(high)
        return min(max((number - low) / (high - low), 0.0), 1.0)

    def number_at(self, place: float) -> float:
        """The number at a share of the axis: the opposite of `place`."""
        if self.is_log:
            return float(self.low * (self.high / self.low) ** place)
        return self.low + (self.high - self.low) * place

    def edges(self, num_bins: int) -> list[float]:
        """The ends of bins that look equally wide; of whole numbers no bin is narrower than 1."""
        if not self.is_log:
            num_bins = max(1, min(num_bins, round(self.high - self.low)))
        return [self.number_at(number / num_bins) for number in range(num_bins + 1)]

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers along the axis."""
        if self.is_log:
            return _log_ticks(self.low, self.high, most)
        step = _round_step((self.high - self.low) / most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [_whole(number * step) for number in range(first, last + 1)]

    def time_ticks(self, most: int = 5) -> list[float]:
        """Times in seconds at which a clock is read: every 30 seconds, every 2 hours."""
        width = (self.high - self.low) / most
        if width <= 1:
            return self.ticks(most)
        days = math.ceil(width / _DAY) * _DAY
        step = next((one for one in _TIME_STEPS if one >= width), days)
        return [float(at) for at in range(0, math.floor(self.high) + 1, step) if at >= self.low]


def clock(seconds: float) -> str:
    """A time on an axis: "45 s", "2:30", "3:00 h"."""
    if seconds < 1 and seconds > 0:
        return f"{seconds:.2g} s"
    if seconds < 60:
        return f"{seconds:g} s"
    minutes, rest = divmod(round(seconds), 60)
    if seconds < 3600:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"


def _round_step(width: float) -> float:
    power = 10.0 ** math.floor(math.log10(width))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= width * (1 - 1e-9))


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [
            _whole(factor * 10.0**power)
            for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for factor in factors
        ]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most + 1:
            break
    every = -(-len(ticks) // (most + 1)) or 1
    return ticks[::every]


def _whole(number: float) -> float:
    """A number without the noise of its last bits, an int where it is one."""
    number = float(f"{number:.12g}")
    return int(number) if number.is_integer() else number
