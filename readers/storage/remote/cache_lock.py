"""Locks of the block cache: only one thread or process at a time fetches a block, or changes the total size."""

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from readers.storage.lock import wait_for

LOCK_SECONDS = 5.0
"""Longest wait for the lock of the total when blocks are stored; after that, blocks are used without being stored."""


class CacheLock:
    """The locks of a block cache, which exclude other threads and processes: one per block, and one for the total size.

    These are record locks (fcntl) on single bytes of one file, since flock can only lock a whole file. They belong to the
    process: a forked child does not inherit them, and closing any descriptor of the file would release all of them, so it
    stays open.

    Args:
        file: Open descriptor of the lock file.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._accounts = threading.Lock()
        self._mutex = threading.Lock()
        self._claimed: set[int] = set()

    def claim(self, digest: bytes) -> bool:
        """Lock a block without waiting, in order to fetch it; return False if another thread or process holds its lock.

        Args:
            digest: `Block.digest`.
        """
        byte = _byte_of(digest)
        with self._mutex:
            if byte in self._claimed or not self._try(byte):
                return False
            self._claimed.add(byte)
            return True

    def release(self, digest: bytes) -> None:
        """Release the lock of a block that `claim` has taken."""
        byte = _byte_of(digest)
        with self._mutex:
            self._claimed.discard(byte)
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)

    @contextmanager
    def accounts(self, patience_seconds: float | None = None) -> Iterator[None]:
        """Hold the lock that guards the record of the cache's total size during the with block.

        Args:
            patience_seconds: Longest wait for the lock; None waits for another thread without limit, and for another process
                up to a minute.

        Raises:
            TimeoutError: Another thread or process holds the lock for too long.
        """
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
    # Byte 0 is the lock of the total. 40 bits of the digest suffice: two blocks with the same byte only wait for each other.
    return 1 + int.from_bytes(digest[:5], "little")


_locks: dict[tuple[int, int], CacheLock] = {}


def lock_of(folder: Path) -> CacheLock:
    """Return the locks of the block cache in a folder.

    Raises:
        OSError: The lock file cannot be created.
    """
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    status = os.fstat(file)
    # A second descriptor of the same file stays open as well: closing it would release the locks of the first.
    return _locks.setdefault((status.st_dev, status.st_ino), CacheLock(file))


os.register_at_fork(after_in_child=_locks.clear)
