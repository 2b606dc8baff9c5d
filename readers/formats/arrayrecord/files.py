"""Open ArrayRecord files: a bounded number at a time, and safe to fork."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from readers.detect.registry import require

# Of what array_record offers this is the fastest for records in any order: nothing is read ahead.
_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"
_BUFFER_BYTES = 1 << 15  # per open file; larger ones read more around a record
_MAX_OPEN_FILES = 256  # of the 1,024 that Linux grants a process by default
_MAX_WAIT_SECONDS = 10.0  # a fork goes ahead behind a read that hangs, as on a network file system
_PAUSE_SECONDS = 0.02  # until the threads of the library sleep


class _Quiet:
    """A guard that delays forks while the library works.

    Its 64 threads exist once per process, and a child that is forked while one of them holds a lock
    waits for that lock forever: three in ten children that were forked just after a read did. So a
    fork waits until calls end, and a moment longer until the threads sleep.
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
        """Return a context for a call of the library; any number of threads may call."""
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
_ABANDONED: list[Any] = []  # readers of the process that this one was forked from


class OpenFiles:
    """The library's readers, each opened at its first use, and separately in every process.

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
        """Read records of a file; several threads may do so at once.

        Raises:
            RuntimeError: One of them cannot be read.
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
        """Return whether a file begins and ends as it must."""
        with _QUIET.call():
            return bool(self._get(number).ok())

    def _get(self, number: int) -> Any:
        if self._process != os.getpid():
            _ABANDONED.append(self._readers)  # to close them would need threads that are not here
            self._begin()
        with self._lock:
            if number not in self._readers:
                self._readers[number] = self._module.ArrayRecordReader(
                    self._paths[number], _OPTIONS, file_reader_buffer_size=_BUFFER_BYTES
                )
                if len(self._readers) > _MAX_OPEN_FILES:
                    self._readers.popitem(last=False)  # closed when the last thread is done with it
            self._readers.move_to_end(number)
            return self._readers[number]
