"""Call what uses Python's own parser, where other threads may use it as well."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

# Collisions are rare (one in thousands of calls by six busy threads): far fewer repeats do. A lasting error still gets out.
_NUM_TRIES = 20


def call_parser(parse: Callable[[], T]) -> T:
    """Return the result of a function that calls `ast.parse`, as NumPy does for the header of a .npy file.

    Python 3.11.7 and older can end one of two such calls in two threads by a SystemError about the depth of the tree,
    whatever the text is (https://github.com/python/cpython/issues/106905). The call is then made again.

    Raises:
        SystemError: It ended so each time.
    """
    for _ in range(_NUM_TRIES):
        with suppress(SystemError):
            return parse()
    return parse()
