"""What is known of the garbage collector."""

import gc
import subprocess
import sys
import threading

from dali_pipes.stages import endings

# A program that is interrupted a hundred times while it collects; says how often, and how often it noticed.
INTERRUPTED = """
import gc, runpy, signal, sys
runpy.run_path(sys.argv[1])
raised = caught = 0
def interrupt(*_):
    global raised
    raised += 1
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
for delay in range(1, 101):
    try:
        signal.setitimer(signal.ITIMER_REAL, delay * 1e-6)
        for _ in range(100_000):
            gc.collect(0)
    except KeyboardInterrupt:
        caught += 1
print(raised, caught)
"""


def test_it_is_known_within_a_collection() -> None:
    """What a collected cycle calls at its end finds out; what comes before and behind does not."""
    found = []

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            found.append(endings.is_collecting())

    Cycle()
    found.append(endings.is_collecting())
    gc.collect()
    found.append(endings.is_collecting())

    assert found == [False, True, False]


def test_no_interrupt_is_lost_in_a_collection() -> None:
    """Ctrl-C while the garbage collector tells of its phases reaches the program."""
    command = [sys.executable, "-c", INTERRUPTED, endings.__file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    assert (done.stdout, done.stderr) == ("100 100\n", "")


def test_collections_may_come_while_it_is_asked() -> None:
    """Another thread collects all the time; asking raises nothing."""
    ended = threading.Event()

    def collect() -> None:
        while not ended.is_set():
            gc.collect(0)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=collect)
    thread.start()
    try:
        for _ in range(100_000):
            endings.is_collecting()
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(before)
