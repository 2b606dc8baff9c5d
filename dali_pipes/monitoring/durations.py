"""How long calls took, in few numbers: a histogram whose buckets grow by a constant factor."""

import math
from collections.abc import Mapping

_PER_OCTAVE = 8  # buckets between a duration and its double: a bucket's middle is at most 4.4 % off
_SMALLEST_SECONDS = 1e-7
_OFFSET = -math.log2(_SMALLEST_SECONDS) * _PER_OCTAVE

Durations = dict[int, int]
"""How many calls fell into each bucket; only buckets that have one."""


def bucket_of(seconds: float) -> int:
    """The bucket of a duration."""
    return int(math.log2(seconds) * _PER_OCTAVE + _OFFSET) if seconds > _SMALLEST_SECONDS else 0


def quantiles(durations: Mapping[int, int], *shares: float) -> tuple[float, ...]:
    """Return for each share the duration in seconds that this part of all calls did not exceed; 0 without calls.

    Args:
        durations: The histogram.
        shares: In (0, 1), ascending.
    """
    total = sum(durations.values())
    if not total:
        return (0.0,) * len(shares)
    found, seen, buckets = [], 0, iter(sorted(durations.items()))
    bucket = 0
    for share in shares:
        while seen < math.ceil(share * total):
            bucket, count = next(buckets)
            seen += count
        found.append(_SMALLEST_SECONDS * 2 ** ((bucket + 0.5) / _PER_OCTAVE))
    return tuple(found)
