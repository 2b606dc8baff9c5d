"""Files that get their name when they are complete, and never before.

`atomic_file` lets several writers of one file work at the same time: the last one to end wins. `build_once` lets one
process make a file while the others wait for it.
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
"""In the names of our own files and folders next to data, so that they are never read as data."""
SUFFIX = ".part"
"""At the end of the names of files that are being written."""

T = TypeVar("T")


class ForeignError(Exception):
    """Carries an OSError that is not about the file being written past those who handle errors of that file."""

    def __init__(self, error: OSError) -> None:
        self.error = error


@contextmanager
def foreign_errors() -> Iterator[None]:
    """Raise each OSError of the block, such as one of reading the data, as a ForeignError."""
    try:
        yield
    except OSError as error:
        raise ForeignError(error) from error


class PartFile(NamedTuple):
    """A file that is being written under a temporary name.

    Attributes:
        file: Empty at first.
        part: The temporary path.
        path: The final path.
    """

    file: BinaryIO
    part: Path
    path: Path

    def publish(self, *, mode: int | None = None, to_disk: bool = False) -> None:
        """Give the file its final name, in place of a file that has it already.

        Args:
            mode: Permissions of the file; None leaves those of any new file.
            to_disk: Wait until the bytes are on the disk: otherwise a power cut may leave the new name on old blocks.

        Raises:
            OSError: It cannot be written or renamed.
        """
        self.file.flush()
        if mode is not None:
            os.fchmod(self.file.fileno(), mode)
        if to_disk:
            os.fsync(self.file.fileno())
        self.part.replace(self.path)


@contextmanager
def build_once(path: Path) -> Iterator[PartFile]:
    """Open ``NAME.part`` once no other process has it open in this way; the folder is created.

    A process that waited should look first whether the file is there by now. Without `PartFile.publish` the temporary file
    is removed at the end of the block.

    Raises:
        OSError: The file cannot be created, or its file system has no locks.
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
    """Return the result of `find`, or if that is None, of `build` for the first path that can be written.

    Of several processes one builds, and the others wait.

    Args:
        paths: Paths of the file, best first.
        find: Returns None if no file fits.
        build: Writes the file. It must raise errors that are not about the file within `foreign_errors`.
        what: Name of the file, for the error.

    Raises:
        IndexFileError: No path can be written.
        OSError: An error of `find`, or a foreign one of `build`.
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
    """Open a file that gets its name at the end of the block, or is removed if the block raises.

    Until then it has a temporary name in the same folder, ``.gpuaug-....part``, that no other writer uses, also on other
    machines. The temporary file of a killed writer is reused by the next writer of the same name on this machine. Of several
    writers at the same time, the last one to end wins.

    Args:
        path: Its final path. A file of that name is replaced.
        to_disk: Wait until the bytes, and then the name, are on the disk.

    Raises:
        OSError: It cannot be written.
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
    """Open an empty file under a temporary name that no other writer uses.

    The first choice is one name for each final name and kernel, under a lock: so the file that a killed writer left is found
    without a search through the folder.
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
    """Return a name of the running kernel, which its containers share together with its locks, and no other machine."""
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
