"""A lock with which one process builds a file and the others wait for it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def one_at_a_time(path: Path) -> Iterator[int]:
    """Wait until no other process holds this file's lock, and hold it.

    The operating system gives the lock back when its holder is gone, however it went, so none can be
    stale. The file goes with the lock, unless it was renamed meanwhile.

    Yields:
        A descriptor of the file, to read and write; it may hold what a holder wrote that was killed.

    Raises:
        OSError: The file cannot be made there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _locked(path)
    try:
        yield descriptor
    finally:
        with suppress(OSError):  # the lock is given back all the same
            if _is_at(descriptor, path):
                path.unlink()
        os.close(descriptor)


def _locked(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The holder before may have taken the file away or renamed it: then its lock is nobody's.
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
