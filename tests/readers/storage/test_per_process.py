"""Values of one process: kept there, and made anew in a forked one."""

import os

import pytest

from readers.storage.per_process import PerProcess


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_makes_its_own() -> None:
    """The process keeps its first value; a child does not get that of its parent."""
    value = PerProcess(os.getpid)
    first = value.get()
    child = os.fork()
    if child == 0:
        os._exit(value.get() != os.getpid())

    assert os.waitpid(child, 0)[1] == 0
    assert value.get() is first
