"""Locks between processes; the operating system releases them when their holder ends, even if it is killed."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from readers.sample import PrepareError

_FIRST_PAUSE_SECONDS = 0.0005
"""First pause between two attempts: most locks are held for one write."""
_LAST_PAUSE_SECONDS = 0.02
"""Pauses double up to this, so that waiting for a long time costs no CPU."""


def try_lock(descriptor: int) -> bool:
    """Lock an open file without waiting; return whether this succeeded, because no other process held the lock.

    Raises:
        OSError: The file system does not support locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for(take: Callable[[], bool], seconds: float) -> bool:
    """Call `take` repeatedly, with pauses, until it returns True; return whether it did so within `seconds`."""
    until, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    while not take():
        if time.monotonic() > until:
            return False
        time.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE_SECONDS)
    return True


def is_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still the one at this path; it may have been removed, renamed or replaced."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def open_locked(path: Path) -> int:
    """Open a file for reading and writing, wait for its lock, and return the descriptor, which holds the lock.

    Raises:
        OSError: The file cannot be created, or its file system does not support locks.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The last holder may have removed or renamed the file: a lock of that file excludes nobody.
            if is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create a folder, and hold its lock during the block, so that no other process writes to it.

    On file systems without locks, other processes are not kept out.

    Raises:
        PrepareError: Another process holds the lock, or the folder cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise PrepareError(
            f"{folder} cannot be made ({error.strerror}): give a folder that can be written"
        ) from None
    try:
        with suppress(OSError):  # some network file systems have no locks
            if not try_lock(descriptor):
                raise PrepareError(
                    f"{folder} is being written by another command: wait for it, or stop it"
                )
        yield
    finally:
        os.close(descriptor)
