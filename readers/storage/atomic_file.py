"""Write files under a temporary name, and rename them when they are complete, so that readers never see a part.

With `atomic_file`, several writers of one file may work at the same time, and the last one to end wins. With `build_once`,
one process makes a file while the others wait for it.
"""

import hashlib
import os
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from readers.sample import IndexFileError
from readers.storage.lock import is_at, open_locked, try_lock

OWN = ".gpuaug-"
"""Part of the names of this package's own files and folders next to data, so that they are never read as data."""
SUFFIX = ".part"
"""End of the names of files that are being written."""

T = TypeVar("T")


class ForeignError(Exception):
    """Wraps an OSError that does not concern the file being written, so that handlers for errors of that file skip it."""

    def __init__(self, error: OSError) -> None:
        self.error = error


@contextmanager
def foreign_errors() -> Iterator[None]:
    """Convert each OSError of the with block, such as one of reading the data, into a ForeignError."""
    try:
        yield
    except OSError as error:
        raise ForeignError(error) from error


class PartFile(NamedTuple):
    """A file that is being written under a temporary name.

    Attributes:
        file: The open file, empty at first.
        part: Temporary path of the file.
        path: Final path of the file.
    """

    file: BinaryIO
    part: Path
    path: Path

    def publish(self, *, mode: int | None = None, to_disk: bool = False) -> None:
        """Rename the file to its final path; a file that is there already is replaced.

        Args:
            mode: Permissions of the file; None leaves the default permissions of a new file.
            to_disk: Whether to wait until the bytes are on the disk; if not, a power cut may leave a file with wrong content
                at the final path.

        Raises:
            OSError: The file cannot be written or renamed.
        """
        self.file.flush()
        if mode is not None:
            os.fchmod(self.file.fileno(), mode)
        if to_disk:
            os.fsync(self.file.fileno())
        self.part.replace(self.path)


@contextmanager
def build_once(path: Path) -> Iterator[PartFile]:
    """Open the temporary file ``NAME.part`` under a lock: while one process builds a file, others wait here.

    The folder is created if necessary. A process that had to wait should first check whether the file exists by now. If
    `PartFile.publish` is not called, the temporary file is removed at the end of the block.

    Args:
        path: Final path of the file.

    Raises:
        OSError: The file cannot be created, or its file system does not support locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}{SUFFIX}")
    descriptor = open_locked(part)
    try:
        with os.fdopen(os.dup(descriptor), "r+b") as file:
            file.truncate()  # it may hold the bytes of a process that was killed
            yield PartFile(file, part, path)
    finally:
        with suppress(OSError):  # the lock is released all the same
            if is_at(descriptor, part):
                part.unlink()
        os.close(descriptor)


def find_or_build(
    paths: Sequence[Path],
    find: Callable[[], T | None],
    build: Callable[[PartFile], T],
    what: str,
) -> T:
    """Return what `find` returns; if that is None, build the file at the first path that can be written.

    If several processes need the file, one builds it, and the others wait.

    Args:
        paths: Possible paths of the file, best first.
        find: Looks for an existing file, and returns the result to return; None if no file fits.
        build: Writes the file, and returns the result to return. Code in it whose OSErrors do not concern this file must be
            within `foreign_errors`.
        what: Name of the file, for the error.

    Raises:
        IndexFileError: No path can be written.
        OSError: `find` raised the error, or `build` raised it within `foreign_errors`.
    """
    if (found := find()) is not None:
        return found
    for path in paths:
        try:
            with build_once(path) as part:
                with foreign_errors():  # another process may have built it while this one waited
                    found = find()
                return build(part) if found is None else found
        except ForeignError as foreign:
            raise foreign.error from None
        except OSError:  # the next path may be writable
            continue
    folders = " or to ".join(str(path.parent) for path in paths)
    raise IndexFileError(
        f"{what} cannot be written to {folders}: set GPU_AUG_CACHE to a folder that can be written"
    )


@contextmanager
def atomic_file(path: Path, *, to_disk: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that appears at its path at the end of the block; if the block raises, it is removed.

    Until then the file has a temporary name in its folder, ``.gpuaug-....part``, which no other writer uses, not even one on
    another machine. If a writer is killed, the next writer of this path on this machine reuses its temporary file. If there
    are several writers at the same time, the last one to end wins.

    Args:
        path: Final path of the file; a file that is there already is replaced.
        to_disk: Whether to wait until the bytes, and then the name, are on the disk.

    Raises:
        OSError: The file cannot be written.
    """
    part, descriptor = _open_own(path)
    with os.fdopen(descriptor, "wb") as file:  # closing it releases the lock
        try:
            yield file
            PartFile(file, part, path).publish(to_disk=to_disk)
        except BaseException:
            # While the lock is held: after that, another writer may use this name.
            with suppress(OSError):  # the first error is the one to raise
                part.unlink()
            raise
    if to_disk:
        _sync_folder(path.parent)


def _open_own(path: Path) -> tuple[Path, int]:
    """Open an empty file under a temporary name that no other writer uses; return its path and descriptor.

    The first choice is a name that depends only on the final name and the running kernel, protected by a lock: so a file that
    a killed writer left is found and reused without a search through the folder. If the lock is taken, the name is random.
    """
    part = path.with_name(f"{OWN}{_digest(f'{_kernel()} {path.name}')}{SUFFIX}")
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        # The last holder of the lock may have renamed the file: it is then a finished file.
        if try_lock(descriptor) and is_at(descriptor, part):
            os.ftruncate(descriptor, 0)
            return part, descriptor
    except OSError:  # this file system has no locks, so no writer ever gets this file
        with suppress(OSError):  # an empty file remains
            part.unlink()
    os.close(descriptor)
    part = path.with_name(f"{OWN}{_digest(path.name)}-{secrets.token_hex(8)}{SUFFIX}")
    return part, os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


@cache
def _kernel() -> str:
    """Return an identifier of the running kernel: equal in all containers of a machine, which share locks, and unique to it."""
    with suppress(OSError):  # without /proc the host name has to do
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return socket.gethostname()


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some file systems cannot sync folders
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
