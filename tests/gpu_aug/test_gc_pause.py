"""Pauses of the garbage collector: of several threads, of programs that have turned it off, and across a fork."""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpu_aug.gc_pause import paused_gc


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The collector is as it was, even if a test fails."""
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


@contextmanager
def paused_by_another_thread() -> Iterator[None]:
    begun, end = threading.Event(), threading.Event()

    def pause() -> None:
        with paused_gc():
            begun.set()
            end.wait(10)

    thread = threading.Thread(target=pause)
    thread.start()
    assert begun.wait(10)
    yield
    end.set()
    thread.join()


def test_pauses_of_threads_overlap() -> None:
    """It stays off until the last pause ends."""
    with paused_by_another_thread():
        with paused_gc():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    with paused_gc():
        pass
    assert not gc.isenabled()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_collects() -> None:
    """The thread that paused it is not there."""
    with paused_by_another_thread():
        child = os.fork()
        if not child:
            os._exit(not gc.isenabled())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
