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
_BUFFER_BYTES = 1 << 15
_MOST_OPEN_FILES = 256
_LONGEST_WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.02


class _Quiet:
    """Lets no fork happen while the library works.

    Its 64 threads exist once per process, and a child that is forked while one of them holds a lock
    waits for it for ever: of children that were forked just after a read three in ten did. So a
    fork waits for calls to end, and a moment longer for the threads to fall asleep.
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
        """While the library is called; any number of threads may."""
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
            self._condition.wait_for(lambda: not self._num_calls, _LONGEST_WAIT_SECONDS)
            time.sleep(_PAUSE_SECONDS)

    def _end_fork(self) -> None:
        self._condition.release()


_QUIET = _Quiet()
_ABANDONED: list[Any] = []  # readers of the process that this one was forked from


class OpenFiles:
    """The library's readers, each opened when it is first needed, in every process for itself.

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
        """Number of records of a file; 0 where it cannot be read."""
        with _QUIET.call():
            reader = self._get(number)
            return int(reader.num_records()) if reader.ok() else 0

    def is_sound(self, number: int) -> bool:
        """Whether a file begins and ends as it must."""
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
                if len(self._readers) > _MOST_OPEN_FILES:
                    self._readers.popitem(last=False)  # closed when the last thread is done with it
            self._readers.move_to_end(number)
            return self._readers[number]
