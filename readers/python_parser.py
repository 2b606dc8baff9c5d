"""Call functions that use Python's parser (`ast.parse`) safely while other threads use it, too."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

# Collisions are rare (one in thousands of calls by six busy threads), so 20 tries are plenty. A lasting error is still raised.
_NUM_TRIES = 20


def call_parser(parse: Callable[[], T]) -> T:
    """Return the result of `parse`, a function that calls `ast.parse`; the call is repeated after a SystemError.

    NumPy calls `ast.parse` for the header of a .npy file. In Python 3.11.7 and older, two such calls in two threads can
    end in a SystemError about the depth of the tree, for any text (https://github.com/python/cpython/issues/106905).

    Raises:
        SystemError: Each of the 21 calls ended in a SystemError.
    """
    for _ in range(_NUM_TRIES):
        with suppress(SystemError):
            return parse()
    return parse()
