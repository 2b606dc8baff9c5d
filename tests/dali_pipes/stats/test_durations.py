"""Quantiles of a histogram of durations."""

import numpy as np
import pytest

from dali_pipes.stats.durations import bucket_of, quantiles


def histogram(seconds: np.ndarray) -> dict[int, int]:
    found: dict[int, int] = {}
    for one in seconds.tolist():
        found[bucket_of(one)] = found.get(bucket_of(one), 0) + 1
    return found


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_quantiles_are_numpys(spread: float) -> None:
    """Within the 5 % that the buckets allow, and no closer than they can be."""
    seconds = np.exp(np.random.default_rng(0).normal(-6, spread, 20_001))
    shares = (0.5, 0.9, 0.99)
    ours = np.array(quantiles(histogram(seconds), *shares))
    numpys = np.quantile(seconds, shares, method="inverted_cdf")
    assert np.abs(ours / numpys - 1).max() < 0.05
    assert (
        not np.abs(np.array(quantiles(histogram(1.12 * seconds), *shares)) / numpys - 1).max()
        < 0.05
    )


def test_no_calls() -> None:
    """Nothing is no time, and so is what the clock cannot tell from it."""
    assert quantiles({}, 0.5, 0.9) == (0.0, 0.0)
    assert bucket_of(0.0) == 0
