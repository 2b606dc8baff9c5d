"""What tests of several formats share."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress

import pytest


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once what fails while it is read: no test waits for the pauses in between."""
    monkeypatch.setattr("readers.datasets.fetched.PAUSES_SECONDS", (0, 0))


@pytest.fixture(scope="session")
def images(jpeg: Callable[..., bytes]) -> list[bytes]:
    """Sixty JPEGs, cut to a length of their own so that no two are alike."""
    contents = [jpeg(240, 320, seed=number) for number in range(12)]
    return [contents[k % 12][: 12_000 + 37 * k] for k in range(60)]


def answer_of_a_fork(ask: Callable[[], bool]) -> bool:
    """Ask in a forked process, which a lock that is never released must not hold for ever."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        with suppress(BaseException):  # else the child would go on with the tests of its parent
            os._exit(0 if ask() else 1)
        os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
