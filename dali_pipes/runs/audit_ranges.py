"""Ranges of positions that a run handed over: what is there, what is lacking, and how to say it."""

from collections.abc import Sequence

from dali_pipes.runs.audit_history import History
from dali_pipes.runs.audit_lines import Part

Range = tuple[int, int]

_MOST_RANGES = 4


def ends_of(history: History) -> tuple[int, ...]:
    """Where the positions of an epoch end, or those of each bucket; empty where nobody says."""
    length = history.run.get("length")
    return history.buckets or (() if length is None else (int(length),))


def is_dropped(parts: Sequence[Part], missing: Sequence[Range], ends: tuple[int, ...]) -> bool:
    """Whether all that is missing lies at the epoch's end, or a bucket's, where less than another step is left."""
    if not ends or not parts or not missing:
        return False
    largest = max((part.stop - part.start) * part.world_size for part in parts)
    start = 0
    for end in ends:
        own = [part for part in parts if start <= part.start < end]
        lacking = [low for low, high in missing if low < end and high > start]
        last = own[-1] if own else None
        stop = start if last is None else last.stop
        step = largest if last is None else (last.stop - last.start) * last.world_size
        if lacking and (max(lacking[0], start) < stop or end - stop >= step):
            return False
        start = end
    return True


def coverage(parts: Sequence[Part]) -> tuple[list[Range], list[Range]]:
    """Return the positions that are there at all, and those that are there more than once."""
    covered: list[Range] = []
    doubled: list[Range] = []
    for part in parts:
        if covered and part.start <= covered[-1][1]:
            low, high = covered[-1]
            if part.start < high:
                doubled.append((part.start, min(high, part.stop)))
            covered[-1] = low, max(high, part.stop)
        else:
            covered.append((part.start, part.stop))
    return covered, doubled


def minus(ranges: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """Return what of some ranges lies in none of others; both ascend and do not touch."""
    left = []
    for low, high in ranges:
        for start, stop in others:
            if stop <= low or start >= high:
                continue
            if start > low:
                left.append((low, start))
            low = max(low, stop)
        if low < high:
            left.append((low, high))
    return left


def range_words(ranges: Sequence[Range]) -> str:
    """Say how many positions they hold, and the first of them."""
    merged: list[Range] = []
    for low, high in ranges:
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    count = sum(high - low for low, high in merged)
    shown = ", ".join(map(one_range, merged[:_MOST_RANGES]))
    more = f" and {len(merged) - _MOST_RANGES} more ranges" if len(merged) > _MOST_RANGES else ""
    return f"{count} positions: {shown}{more}"


def one_range(positions: Range) -> str:
    """Say which positions it holds."""
    return f"{positions[0]} to {positions[1] - 1}"
