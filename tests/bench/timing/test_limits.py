"""Limits while something is timed."""

import torch

from bench.timing import one_thread


def test_one_thread_is_given_back() -> None:
    """Torch has one thread inside and what it had before afterwards."""
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1

    assert torch.get_num_threads() == before
