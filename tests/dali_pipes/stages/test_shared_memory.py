"""Pickled objects in shared memory: arrays are copied into no process."""

import os

import numpy as np
import pytest

from dali_pipes.stages.shared_memory import load_shared, pickle_parts, share_parts


def test_arrays_are_shared() -> None:
    """They lie outside the pickle, begin at cache lines, and a process that writes to one writes to its own copy."""
    numbers, names = np.arange(100_001), np.frombuffer(b"ab" * 5, np.uint8)
    parts = pickle_parts({"numbers": numbers, "names": names, "word": "x"})
    assert len(parts[0]) < 1000
    told = share_parts(parts)
    one, other = load_shared(os.dup(told)), load_shared(told)
    assert one["numbers"].ctypes.data % 64 == 0
    one["numbers"][5] = -1
    with pytest.raises(ValueError, match="read-only"):
        one["names"][0] = 0  # as it was
    np.testing.assert_array_equal(other["numbers"], numbers)
    np.testing.assert_array_equal(other["names"], names)
    assert numbers[5] == 5
    assert (one["word"], list(one)) == ("x", ["numbers", "names", "word"])


@pytest.mark.parametrize("value", [None, [], np.empty((0, 2)), np.arange(12).reshape(3, 4).T])
def test_what_has_no_memory_to_share(value: object) -> None:
    """Objects without arrays, and arrays without content, come over, too; so do those that lie transposed."""
    loaded = load_shared(share_parts(pickle_parts(value)))
    np.testing.assert_array_equal(loaded, value)
