"""The clock that stands still while functions are compiled, by a time that the test moves."""

import threading

import pytest

from gpu_aug.compiled import clock as clock_module
from gpu_aug.compiled.clock import Clock


class Time:
    """Goes on when it is told to; what is given to `meanwhile` happens at the next look."""

    def __init__(self) -> None:
        self.now, self.meanwhile = 100.0, lambda: None

    def perf_counter(self) -> float:
        """The time."""
        happens, self.meanwhile = self.meanwhile, lambda: None
        happens()
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(clock_module, "time", time)
    return time


def test_it_stands_still(time: Time) -> None:
    """Between the first stop and the last go_on; what is left out otherwise comes on top."""
    clock = Clock()
    for change in (clock.stop, clock.stop, clock.go_on):
        change()
        time.now += 5
        assert (clock(), clock.left_out) == (100.0, time.now - 100)
    clock.go_on()
    time.now += 1
    clock.leave_out(0.5)
    assert (clock(), clock.left_out) == (100.5, 15.5)


def test_another_thread_compiles_meanwhile(time: Time) -> None:
    """Not even a look that began before has the time of it."""
    clock = Clock()

    def compile_for_a_while() -> None:
        clock.stop()
        time.now += 1000
        clock.go_on()

    time.meanwhile = compile_for_a_while
    assert clock() == 100.0


def test_looks_need_no_lock() -> None:
    """A thread looks while who changes the clock holds its lock."""
    clock, seen = Clock(), list[float]()
    thread = threading.Thread(target=lambda: seen.append(clock()), daemon=True)
    with clock._lock:
        thread.start()
        thread.join(20)
    assert len(seen) == 1
