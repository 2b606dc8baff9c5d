"""Turns of processes: one does something, the others wait until it is done."""

import os
import time
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nobody waits, and two may do the same
    fcntl = None  # type: ignore[assignment]

_PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 0.02


class Turn:
    """A lock between processes; where there can be none, everybody has it.

    Args:
        path: A file that is made for it, or None for no lock.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: int | None = None

    def try_now(self) -> bool:
        """Take it, unless another process has it; returns whether it was taken or there can be none."""
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
        except OSError:  # a network's disk without locks
            os.close(file)
            return True
        self._file = file
        return True

    def wait(self) -> None:
        """Take it as soon as it is free, or go on without it after two minutes."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while not self.try_now() and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def end(self) -> None:
        """Give it back; its file goes with it."""
        if self._file is None or fcntl is None:
            return
        with suppress(OSError):
            if self._path is not None:
                self._path.unlink()
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)  # also where a forked child still holds the file
        os.close(self._file)
        self._file = None
