"""Read regular files completely, up to the limit of memory; pipes and devices are refused."""

import errno
import os
from stat import S_ISREG
from typing import BinaryIO

from readers.sample import PathLike, Payload, SourceError
from readers.storage.blob.blob import BlobPayload
from readers.storage.blob.mmap_pages import map_file
from readers.storage.limits import check_bytes
from readers.storage.paths import is_url
from readers.storage.side_file import read_all
from readers.storage.unreadable import OptionalFile, reason_of

TEXT_TIMES = 8
"""Factor of the limit of a sample for lists and tables of a dataset: 4 GiB hold the paths of 50 million images."""


def read_whole(path: PathLike, *, times: int = 1) -> bytes:
    """Return the bytes of a file (25 us for 114 kB in the page cache, where Path.read_bytes takes 30).

    Args:
        path: Path or URL of the file.
        times: Factor of the limit of size; see `check_bytes`.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is larger than `times` the limit
            `readers.storage.limits.max_sample_bytes`.
    """
    if isinstance(path, str) and is_url(path):
        remote = _open_remote(path)
        check_bytes(len(remote), "it", times=times)
        return bytes(remote)
    descriptor, size = _open_regular(path)
    try:
        check_bytes(size, "it", times=times)
        return read_all(descriptor, size, 0)
    finally:
        os.close(descriptor)


def read_text(path: PathLike, what: str, encoding: str = "utf-8-sig") -> str:
    """Return the text of a file, such as a list or a description.

    Args:
        path: Path of the file.
        what: Name of the kind of file with its article, for the error: "a list of files".
        encoding: Encoding of the text.

    Raises:
        SourceError: The file cannot be read or decoded, or is too large.
    """
    try:
        return read_whole(path, times=TEXT_TIMES).decode(encoding)
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{path} cannot be read as {what}: {reason_of(error)}") from None


def read_head(path: PathLike, num_bytes: int) -> bytes:
    """Return the first bytes of a file, given its path or URL, to detect its format; b"" if it does not exist.

    Raises:
        SourceError: The file exists but cannot be read, so that its format is unknown.
    """
    with OptionalFile(path):
        if isinstance(path, str) and is_url(path):
            return bytes(_open_remote(path)[:num_bytes])
        descriptor, _ = _open_regular(path)
        try:
            return os.read(descriptor, num_bytes)
        finally:
            os.close(descriptor)
    return b""


def open_regular(path: PathLike) -> BinaryIO:
    """Open a regular file for reading, and return it; there is no limit of size.

    Raises:
        OSError: The file cannot be opened, or is a pipe, a device or a folder.
    """
    return os.fdopen(_open_regular(path)[0], "rb")


def map_whole(path: PathLike) -> Payload:
    """Return a view of a memory-mapped file, whose bytes are read when they are accessed.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    os.close(
        _open_regular(path)[0]
    )  # mapping a pipe with the name of a video would wait for a writer
    return map_file(path)


def _open_remote(url: str) -> BlobPayload:
    from readers.storage.remote import find_remote

    return BlobPayload(find_remote(url))


def _open_regular(path: PathLike) -> tuple[int, int]:
    """Return a descriptor for reading a regular file, and the size of the file.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    # Non-blocking: opening a pipe with the name of an image would wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if not S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor, status.st_size
