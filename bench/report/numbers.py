"""Format numbers for people: three digits and a unit."""

import math
import re
from dataclasses import dataclass

from rich.filesize import decimal

NONE = "\N{EN DASH}"
"""Shown instead of a missing number."""

_UNITS = ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))

# Characters that XML 1.0 (section 2.2) forbids: control characters, and surrogates, which stand for invalid UTF-8 bytes.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Number(str):
    """The text of a number, which tables right-align."""

    __slots__ = ()


@dataclass(frozen=True)
class Share:
    """A table cell with a bar and a percentage: `part` of `total`."""

    part: float
    total: float

    @property
    def fraction(self) -> float:
        """Length of the bar, between 0 and 1."""
        return min(max(self.part / self.total, 0.0), 1.0) if self.total > 0 else 0.0

    def __str__(self) -> str:
        return share(self.part, self.total)


def count(number: float) -> Number:
    """Format a whole number with separators: "12,345"."""
    return Number(f"{round(number):,}")


def plain(number: float) -> Number:
    """Format with three digits, more for larger numbers, no decimals for integers: "2,165", "97.3", "0.0123", "3"."""
    if not math.isfinite(number):
        return Number(NONE)
    if abs(number) < 100:
        number = float(f"{number:.3g}")
    if abs(number) >= 100 or number.is_integer():
        return Number(f"{number:,.0f}")
    return Number(f"{number:.{max(0, 2 - math.floor(math.log10(abs(number))))}f}")


def seconds(number: float) -> Number:
    """Format a duration: "0.41 ms", "12.3 s", "2.5 h"."""
    if not math.isfinite(number):
        return Number(NONE)
    if number <= 0:
        return Number("0 s")
    # Minutes from two minutes on, hours from two hours on: 90 seconds are easier to read as seconds.
    scale, unit = next(
        (one for one in _UNITS if number >= one[0] * (2 if one[0] > 1 else 0.9995)), _UNITS[-1]
    )
    return Number(f"{plain(number / scale)} {unit}")


def share(part: float, total: float) -> Number:
    """Format `part` of `total` as a percentage, never rounded up to 100 % or down to 0 %."""
    if total <= 0:
        return Number(NONE)
    if part in (0, total):
        return Number("100 %" if part else "0 %")
    return Number(f"{min(max(100 * part / total, 0.1), 99.9):.1f} %")


def size(num_bytes: float) -> Number:
    """Format a size in bytes: "1.2 MB"."""
    return Number(decimal(round(num_bytes)).replace(".0 ", " "))


def cleaned(text: str) -> str:
    """Return a text with only the characters that HTML and SVG allow; others become U+FFFD."""
    return _FORBIDDEN.sub("\ufffd", text)
