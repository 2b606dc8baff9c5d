"""A file that appears whole or not at all, whoever else writes the same name."""

import fcntl
import hashlib
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

OWN = ".gpuaug-"
"""Part of the names of our own files and folders beside data, which are no data."""
SUFFIX = ".part"


@contextmanager
def atomic_file(
    path: Path, *, like: os.stat_result | None = None, to_disk: bool = False
) -> Iterator[BinaryIO]:
    """Open a file that gets its name when everything has been written.

    Until then it has a temporary name in the same folder, ``.gpuaug-....part``, which no two writers share, of
    whatever process or machine. What a killed writer left is overwritten by the next one of this machine that writes
    the same name. Of several writers at once the last one to end wins, whole.

    Args:
        path: Its final name. A file of that name is replaced.
        like: Take over the mode and the time of last change from there.
        to_disk: Wait until the bytes are on the disk before the name is, and then for the name.

    Raises:
        OSError: It cannot be written; the temporary file is gone then.
    """
    part, descriptor = _opened(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if like is not None:
                os.fchmod(descriptor, like.st_mode & 0o777)
                os.utime(descriptor, ns=(like.st_atime_ns, like.st_mtime_ns))
            if to_disk:
                os.fsync(descriptor)
            part.replace(path)  # before the lock goes
        if to_disk:
            _sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):  # the error that is told is the first one
            part.unlink()
        raise


def _opened(path: Path) -> tuple[Path, int]:
    """Open an empty file under a temporary name that is this writer's alone.

    The first choice is a name of its own for each final name and kernel, under a lock that the kernel gives back when
    its holder is gone: so what was left there is found again without a look through the folder.
    """
    part = path.with_name(f"{OWN}{_digest(f'{_kernel()} {path.name}')}{SUFFIX}")
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The holder before may have renamed it meanwhile: then it is somebody's finished file.
        if os.path.samestat(os.fstat(descriptor), part.stat()):
            os.ftruncate(descriptor, 0)
            return part, descriptor
    except BlockingIOError:
        pass  # another writer has it
    except OSError:  # this file system knows no locks: nobody has it, and nobody ever will
        with suppress(OSError):  # it is then empty, and overwritten by another writer
            part.unlink()
    os.close(descriptor)
    part = path.with_name(f"{OWN}{_digest(path.name)}-{secrets.token_hex(8)}{SUFFIX}")
    return part, os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


@cache
def _kernel() -> str:
    """Which running kernel this is: its containers share it and its locks, no other machine does."""
    with suppress(OSError):  # where /proc is not mounted, the host stands for it
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return socket.gethostname()


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some file systems know no such thing
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
