"""Numbers as people read them: three digits and a unit."""

import math

from rich.filesize import decimal

NONE = "\N{EN DASH}"
"""Stands where there is no number."""

_UNITS = ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))


def count(number: float) -> str:
    """A whole number with separators: "12,345"."""
    return f"{round(number):,}"


def plain(number: float) -> str:
    """Three digits, more where the number is larger, none behind a whole one: "2,165", "97.3", "0.0123", "3"."""
    if not math.isfinite(number):
        return NONE
    if abs(number) < 100:
        number = float(f"{number:.3g}")
    if abs(number) >= 100 or number.is_integer():
        return f"{number:,.0f}"
    return f"{number:.{max(0, 2 - math.floor(math.log10(abs(number))))}f}"


def seconds(number: float) -> str:
    """A duration: "0.41 ms", "12.3 s", "2.5 h"."""
    if not math.isfinite(number):
        return NONE
    if number <= 0:
        return "0 s"
    # Minutes from two of them on, hours likewise: 90 seconds are easier to read as such.
    scale, unit = next(
        (one for one in _UNITS if number >= one[0] * (2 if one[0] > 1 else 0.9995)), _UNITS[-1]
    )
    return f"{plain(number / scale)} {unit}"


def share(part: float, total: float) -> str:
    """Percent, never rounded up to all or down to none."""
    if total <= 0:
        return NONE
    if part in (0, total):
        return "100 %" if part else "0 %"
    return f"{min(max(100 * part / total, 0.1), 99.9):.1f} %"


def size(num_bytes: float) -> str:
    """A size in bytes: "1.2 MB"."""
    return decimal(round(num_bytes)).replace(".0 ", " ")
