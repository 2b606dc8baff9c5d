"""A folder that one process at a time writes, and the files in it, which appear whole or not at all."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from readers.prepare.errors import PrepareError
from readers.storage.atomic_file import atomic_file

__all__ = ["atomic_file", "locked"]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder and keep other writers out of it, until the end or until this process is gone.

    Raises:
        PrepareError: Another process writes it, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise PrepareError(
            f"{folder} cannot be made ({error.strerror}): give a folder that can be written"
        ) from None
    try:
        with suppress(OSError):  # some network file systems know no locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PrepareError(
                    f"{folder} is being written by another command: wait for it, or stop it"
                ) from None
        yield
    finally:
        os.close(descriptor)
