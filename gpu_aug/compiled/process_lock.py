"""A lock between processes: one process works, the others wait until it is done."""

import os
import time
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: no process waits, and two may do the same work
    fcntl = None  # type: ignore[assignment]

# Compiling takes half a minute; a process that hangs must not stop all others.
_PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 0.02  # between two tries; short against a compilation


class ProcessLock:
    """An inter-process lock; without effect on file systems without locking.

    Args:
        path: Path of the lock file, which is created; None means that the lock has no effect.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: int | None = None

    def try_now(self) -> bool:
        """Take the lock if it is free; return False if another process has it."""
        if fcntl is None or self._path is None:
            return True
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except OSError:  # a network file system without locks
            os.close(file)
            return True
        self._file = file
        return True

    def wait(self) -> None:
        """Wait for the lock; after two minutes, go on without it."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while not self.try_now() and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def end(self) -> None:
        """Release the lock and remove its file."""
        if self._file is None or fcntl is None:
            return
        with suppress(OSError):
            if self._path is not None:
                self._path.unlink()
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)  # also where a forked child still holds the file
        os.close(self._file)
        self._file = None
