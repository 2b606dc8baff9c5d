"""Readers of ArrayRecord files that work after a fork; a limited number of files is open at a time."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from readers.detect.registry import require

# Reads nothing ahead: the fastest setting of array_record for random access.
_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"
_BUFFER_BYTES = 1 << 15  # per open file; a larger buffer reads more unneeded bytes around a record
_MAX_OPEN_FILES = 256  # of the 1,024 that Linux grants a process by default
# After this wait a fork goes ahead even if a read hangs, as on a network file system.
_MAX_WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.02  # the threads of the library are idle after this time


class _Quiet:
    """A guard that delays forks of this process while array_record reads.

    The library starts 64 threads in a process, and a child that is forked while one of them holds a lock
    waits for that lock forever. This happened to three of ten children that were forked just after a read. So a
    fork waits until all calls end, and 0.02 s longer until the threads are idle.
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(
            before=self._begin_fork, after_in_parent=self._end_fork, after_in_child=self._renew
        )

    def _renew(self) -> None:
        self._condition = threading.Condition()
        self._num_calls = self._num_calls_ever = 0

    @contextmanager
    def call(self) -> Iterator[None]:
        """Return a context in which to call the library, in any number of threads; a fork waits until it ends."""
        with self._condition:
            self._num_calls += 1
            self._num_calls_ever += 1
        try:
            yield
        finally:
            with self._condition:
                self._num_calls -= 1
                self._condition.notify_all()

    def _begin_fork(self) -> None:
        self._condition.acquire()
        if self._num_calls_ever:
            self._condition.wait_for(lambda: not self._num_calls, _MAX_WAIT_SECONDS)
            time.sleep(_PAUSE_SECONDS)

    def _end_fork(self) -> None:
        self._condition.release()


_QUIET = _Quiet()
# Open readers inherited from the parent process, kept so that they are never closed here.
_ABANDONED: list[Any] = []


class OpenFiles:
    """Readers of the package array_record, one for each file, opened at the first use in each process.

    Args:
        paths: Paths of the files.

    Raises:
        SourceError: The package array_record is missing.
    """

    def __init__(self, paths: list[str]) -> None:
        self._module = require("array_record.python.array_record_module", extra="arrayrecord")
        self._paths = paths
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._readers: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, number: int, rows: list[int]) -> list[bytes]:
        """Return records of a file, in the order of `rows`. Several threads may call this at once.

        Args:
            number: Index of the file.
            rows: Indices of the records in the file.

        Raises:
            RuntimeError: A record cannot be read.
            OSError: The file cannot be opened.
        """
        with _QUIET.call():
            records: list[bytes] = self._get(number).read(rows)
        return records

    def count(self, number: int) -> int:
        """Return the number of records of a file, 0 if it cannot be read."""
        with _QUIET.call():
            reader = self._get(number)
            return int(reader.num_records()) if reader.ok() else 0

    def is_sound(self, number: int) -> bool:
        """Return whether the library can open a file, which needs a valid beginning and end."""
        with _QUIET.call():
            return bool(self._get(number).ok())

    def _get(self, number: int) -> Any:
        if self._process != os.getpid():
            _ABANDONED.append(self._readers)  # closing them needs threads that a fork does not copy
            self._begin()
        with self._lock:
            if number not in self._readers:
                self._readers[number] = self._module.ArrayRecordReader(
                    self._paths[number], _OPTIONS, file_reader_buffer_size=_BUFFER_BYTES
                )
                if len(self._readers) > _MAX_OPEN_FILES:
                    self._readers.popitem(last=False)  # closed as soon as no thread uses it
            self._readers.move_to_end(number)
            return self._readers[number]
