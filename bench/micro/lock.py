"""Measure how long Python threads hold the GIL, in CPU time, and how often they release it.

Code that works without the GIL releases it with `PyEval_SaveThread` and takes it with `PyEval_RestoreThread`: kernels,
NumPy, torch, files and locks alike. In this process, both are replaced by functions that also read the CPU clock of
their thread. A waiting thread uses no CPU, so waiting for the GIL, sleeping and preemption do not count.
"""

import ctypes
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import Any

import numba
import numpy as np
from numba.core import types

from bench.output.errors import BenchError
from gpu_aug.compiled.jit import inlined, view_i64

_NUM_SLOTS = (
    1 << 16
)  # one slot for each of the last 65,536 threads; a run of loaders starts a few hundred
_SLOT_BYTES = 48
"""Six int64; see `LockClock`."""
_PAGE_BYTES = 4096
_READABLE_WRITABLE_EXECUTABLE = 7
"""PROT_READ | PROT_WRITE | PROT_EXEC of mprotect(2)."""
_CALLS = 20_000  # of a function that does nothing: 10 ms at 0.5 us each
_THREAD_CLOCK = 3  # CLOCK_THREAD_CPUTIME_ID of Linux


@dataclass(frozen=True, slots=True)
class Held:
    """For how many CPU seconds all threads together held the GIL, and how often they released it."""

    seconds: float
    releases: int

    def __sub__(self, earlier: "Held") -> "Held":
        return Held(self.seconds - earlier.seconds, self.releases - earlier.releases)


class LockClock:
    """Measures how long threads hold the GIL, from its creation on, for the rest of the process.

    The process must have a single Python thread at that time, and must end with `os._exit`. The work of a thread after
    its last time of taking the GIL is not counted. A build of Python that inlines the two functions into its own
    modules hides some releases in them, such as those of `open`; then too much time is counted.

    Raises:
        BenchError: The machine code cannot be replaced here.
    """

    def __init__(self) -> None:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise BenchError("the time under the interpreter lock is measured on Linux x86-64 only")
        # int64 rows: thread, its CPU clock when it took the GIL, nanoseconds held, releases, and a timespec.
        self._slots = np.zeros((_NUM_SLOTS, _SLOT_BYTES // 8), np.int64)
        self._hooks = _hooks(self._slots.ctypes.data)
        for name, hook in zip(
            ("PyEval_SaveThread", "PyEval_RestoreThread"), self._hooks, strict=True
        ):
            _replace(name, hook.address)
        self._seconds_per_release = 0.0
        self._seconds_per_release = median(self._cost() for _ in range(5))

    def read(self) -> Held:
        """Return the counts so far, without the cost of counting."""
        time.sleep(0)  # releases the GIL, which ends this thread's interval
        releases = int(self._slots[:, 3].sum())
        return Held(
            int(self._slots[:, 2].sum()) / 1e9 - releases * self._seconds_per_release, releases
        )

    def _cost(self) -> float:
        """Return the time that the two clocks add to a release, from calls with and without a release."""
        release, hold = ctypes.CDLL(None).getpid, ctypes.PyDLL(None).getpid
        before = self.read()
        for _ in range(_CALLS):
            release()
        held, began = self.read() - before, time.thread_time()
        for _ in range(_CALLS):
            hold()
        return (held.seconds - (time.thread_time() - began)) / _CALLS


@contextmanager
def lock_process(
    make: Callable[..., AbstractContextManager[Mapping[str, Callable[..., Any]]]], *arguments: Any
) -> Iterator[dict[str, Callable[..., Any]]]:
    """Run functions in a new process that has a `LockClock`, for the duration of the block.

    Args:
        make: A function of a module that returns a context manager; it is called in the new process with the clock and
            the arguments, and the context manager yields functions by name.
        arguments: Arguments that can be pickled.

    Yields:
        For each name, a function that calls the function of this name in the process, and returns its result or raises
        its error.

    Raises:
        BenchError: The process ended without a result; or as for `LockClock`.
    """
    # A pool worker has only its main thread. Spawned, because a fork would share our threads' locks.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:

        def call(function: Callable[..., Any], *given: Any) -> Any:
            try:
                return pool.submit(function, *given).result()
            except BrokenProcessPool:
                raise BenchError(
                    "the process that measures the interpreter lock ended without a result"
                ) from None

        try:
            yield {name: partial(call, _call, name) for name in call(_begin, make, arguments)}
        finally:
            # A normal exit would free the code of the hooks while threads still use it.
            with suppress(BrokenProcessPool):
                pool.submit(os._exit, 0)


_stack = ExitStack()  # in the measuring process; never closed
_functions: dict[str, Callable[..., Any]] = {}


def _begin(make: Callable[..., Any], arguments: Sequence[Any]) -> list[str]:
    """Start the clock in the measuring process; return the names of its functions."""
    _functions.update(_stack.enter_context(make(LockClock(), *arguments)))
    return list(_functions)


def _call(name: str, *given: Any) -> Any:
    return _functions[name](*given)


def _hooks(address: int) -> tuple[Any, Any]:
    """Compile the replacements of the two functions, from other functions of Python that do the same."""
    slots_at, shape = np.uint64(address), (_NUM_SLOTS, _SLOT_BYTES // 8)
    state_of_thread: Any = types.ExternalFunction("PyThreadState_Get", types.intp())
    release: Any = types.ExternalFunction("PyEval_ReleaseThread", types.void(types.intp))
    acquire: Any = types.ExternalFunction("PyEval_AcquireThread", types.void(types.intp))
    thread_number: Any = types.ExternalFunction("gettid", types.int32())
    read_clock: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))

    @inlined
    def slot_now() -> Any:
        """Return the slot of this thread, and its CPU clock in nanoseconds."""
        thread = thread_number()
        number = thread % _NUM_SLOTS
        slot = view_i64(slots_at, shape)[number]
        if slot[0] != thread:  # a new thread: its clock started at 0, when it had the GIL
            slot[0], slot[1] = thread, 0
        read_clock(_THREAD_CLOCK, slots_at + np.uint64(number * _SLOT_BYTES + 32))
        return slot, slot[4] * 1_000_000_000 + slot[5]

    def save() -> Any:
        state = state_of_thread()
        slot, now = slot_now()
        slot[2] += now - slot[1]
        slot[3] += 1
        release(state)
        return state

    def restore(state: Any) -> None:
        acquire(state)
        slot, now = slot_now()
        slot[1] = now

    compile_: Any = numba.cfunc
    return compile_("intp()")(save), compile_("void(intp)")(restore)


def _replace(name: str, target: int) -> None:
    """Overwrite the start of a C function with a jump: mov rax, target; jmp rax."""
    start = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
    page, library = start & -_PAGE_BYTES, ctypes.CDLL(None, use_errno=True)
    size = ctypes.c_size_t(2 * _PAGE_BYTES)  # two pages, because the jump may cross a page boundary
    if library.mprotect(ctypes.c_void_p(page), size, _READABLE_WRITABLE_EXECUTABLE):
        raise BenchError(f"{name} cannot be replaced here: {os.strerror(ctypes.get_errno())}")
    jump = b"\x48\xb8" + target.to_bytes(8, "little") + b"\xff\xe0"
    ctypes.memmove(start, jump, len(jump))
