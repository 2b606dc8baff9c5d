"""Files that appear whole or not at all, in a folder that one process at a time writes."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from readers.prepare.errors import PrepareError


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


@contextmanager
def atomic_file(
    path: Path, *, like: os.stat_result | None = None, to_disk: bool = False
) -> Iterator[BinaryIO]:
    """Open a file that gets its name when everything has been written.

    What an earlier try left behind under the temporary name, which begins with a dot, is overwritten.

    Args:
        path: Its final name. A file of that name is replaced.
        like: Take over the mode and the time of last change from there.
        to_disk: Wait until the bytes are on the disk, before the name is.
    """
    part = path.with_name(f".gpuaug-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}.part")
    try:
        with part.open("wb") as file:
            yield file
            if to_disk:
                file.flush()
                os.fsync(file.fileno())
        if like is not None:
            part.chmod(like.st_mode & 0o777)
            os.utime(part, ns=(like.st_atime_ns, like.st_mtime_ns))
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
