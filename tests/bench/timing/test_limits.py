"""Limits while something is timed."""

import signal
import time

import pytest
import torch

from bench.timing import at_most, one_thread


def test_too_long_is_broken_off() -> None:
    """A long sleep is ended, a short one is left alone, and no alarm is left over."""
    with (
        pytest.raises(TimeoutError, match=r"sleeping takes more than 0\.05 s"),
        at_most(0.05, "sleeping"),
    ):
        time.sleep(10)
    with at_most(5, "sleeping"):
        time.sleep(0.001)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_one_thread_is_given_back() -> None:
    """Torch has one thread inside and what it had before afterwards."""
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1

    assert torch.get_num_threads() == before
