"""Locks of the cache: one thread or process at a time fetches a block, or changes the total."""

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from readers.storage.lock import wait_for

LOCK_SECONDS = 5.0
"""Patience for the lock of the total when blocks are stored: after that they are used without being stored."""


class CacheLock:
    """Claims of single blocks, and the lock of the total, among threads and processes.

    These are record locks (fcntl) on bytes of one file, since flock cannot lock single blocks. They belong to a process: a
    child of a fork does not inherit them, and closing any descriptor of the file would release all of them, so it stays open.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._accounts = threading.Lock()
        self._mutex = threading.Lock()
        self._claimed: set[int] = set()

    def claim(self, digest: bytes) -> bool:
        """Claim a block to fetch it; return False if another thread or process has it."""
        byte = _byte_of(digest)
        with self._mutex:
            if byte in self._claimed or not self._try(byte):
                return False
            self._claimed.add(byte)
            return True

    def release(self, digest: bytes) -> None:
        """Release a claim."""
        byte = _byte_of(digest)
        with self._mutex:
            self._claimed.discard(byte)
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)

    @contextmanager
    def accounts(self, patience_seconds: float | None = None) -> Iterator[None]:
        """Hold the lock of the total; TimeoutError if others hold it for too long."""
        if not self._accounts.acquire(timeout=-1 if patience_seconds is None else patience_seconds):
            raise TimeoutError
        try:
            seconds = LOCK_SECONDS * 12 if patience_seconds is None else patience_seconds
            if not wait_for(lambda: self._try(0), seconds):
                raise TimeoutError(errno.ETIMEDOUT, "another process holds its lock")
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, 0)
        finally:
            self._accounts.release()

    def _try(self, byte: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        return True


def _byte_of(digest: bytes) -> int:
    # Byte 0 is the lock of the total. Of the digest 40 bits do: two blocks with the same byte only wait for each other.
    return 1 + int.from_bytes(digest[:5], "little")


_locks: dict[tuple[int, int], CacheLock] = {}


def lock_of(folder: Path) -> CacheLock:
    """Return the lock of the cache in a folder.

    Raises:
        OSError: Its file cannot be created.
    """
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    status = os.fstat(file)
    # A second descriptor of the same file stays open as well: closing it would release the locks of the first.
    return _locks.setdefault((status.st_dev, status.st_ino), CacheLock(file))


os.register_at_fork(after_in_child=_locks.clear)
