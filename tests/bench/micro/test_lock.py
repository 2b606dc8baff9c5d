"""The time under the interpreter lock: work whose share is known, and work without the lock."""

import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numba
import pytest

from bench.micro.lock import LockClock, lock_process
from bench.output.errors import BenchError

_COMPUTED_SECONDS = 0.0005  # of Python between two calls of a kernel, about as in a part of a batch
_NUM_TURNS = 100


def _compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def _in_threads(lock: LockClock, work: Callable[[], object], num_threads: int) -> tuple[float, int]:
    def run() -> None:
        work()
        time.sleep(0)  # what comes after the last release is left out

    before = lock.read()
    threads = [threading.Thread(target=run) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = lock.read() - before
    return held.seconds, held.releases


@contextmanager
def _works(lock: LockClock, path: str) -> Iterator[dict[str, Callable[[], tuple[float, int]]]]:
    """Yield what is measured in a process that was changed for it."""

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
    def spin(count: int) -> float:
        total = 0.0
        for number in range(count):
            total += number % 7
        return total

    spin(1)

    def mixed() -> None:
        for _ in range(_NUM_TURNS):
            _compute(_COMPUTED_SECONDS)
            spin(100_000)

    def sleep() -> None:
        for _ in range(_NUM_TURNS):
            time.sleep(0.0005)

    def read() -> None:
        for _ in range(_NUM_TURNS):
            Path(path).read_bytes()

    yield {
        "mixed": lambda: _in_threads(lock, mixed, 1),
        "mixed, 8 threads": lambda: _in_threads(lock, mixed, 8),
        "sleep": lambda: _in_threads(lock, sleep, 1),
        "kernel": lambda: _in_threads(lock, lambda: spin(50_000_000), 4),
        "read": lambda: _in_threads(lock, read, 1),
    }


@contextmanager
def _bad_works(lock: LockClock) -> Iterator[dict[str, Callable[[int], None]]]:
    def fail(code: int) -> None:
        raise BenchError(f"{code}, {lock.read().releases > 0}")

    yield {"fail": fail, "end": os._exit}


@pytest.fixture(scope="module", autouse=True)
def _supported() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("Linux x86-64 only")


def test_known_shares_are_measured(tmp_path: Path) -> None:
    """Python between kernels counts within 10 %, however many threads want the lock; kernels, sleep and files count nothing."""
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))

    with lock_process(_works, str(path)) as works:
        found = {name: work() for name, work in works.items()}

    known = _NUM_TURNS * _COMPUTED_SECONDS
    assert found["mixed"][0] == pytest.approx(known, rel=0.1)
    assert found["mixed, 8 threads"][0] == pytest.approx(8 * known, rel=0.1)
    assert found["mixed, 8 threads"][1] == pytest.approx(8 * _NUM_TURNS, rel=0.1)
    for name in ("sleep", "kernel", "read"):
        assert found[name][0] < 0.1 * known, name


@pytest.mark.long
def test_failures_reach_the_caller() -> None:
    """An error of a function does not end the process; a process that ends is an error."""
    with lock_process(_bad_works) as works:
        for number in range(2):
            with pytest.raises(BenchError, match=f"{number}, True"):
                works["fail"](number)
        with pytest.raises(BenchError, match="without a result"):
            works["end"](1)


def test_other_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine code of the jump is that of x86-64."""
    monkeypatch.setattr(platform, "machine", lambda: "arm64")

    with pytest.raises(BenchError, match="Linux x86-64 only"):
        LockClock()
