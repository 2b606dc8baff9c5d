"""Memory-mapped files that are safe to read even if they are shortened in place.

The operating system kills a process (SIGBUS) that accesses a mapped byte which the file no longer has, in any library.
Therefore bytes are read with pread, which returns fewer bytes in this case, so that an ordinary error can be raised.
"""

import ctypes
import errno
import mmap
import os
import resource
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, overload

import numpy as np

from readers.sample import PathLike, Payload
from readers.storage.blob.blob import BlobPayload
from readers.storage.limits import bytes_from_environment, check_bytes, max_sample_bytes

# Before Python 3.13 mmap.mmap keeps a descriptor per mapping, and processes have about 1024 of them.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64),
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FAILED = ctypes.c_void_p(-1).value  # result of mmap(2) after an error


_COPIED_BYTES = 1 << 20
"""Default of `copied_bytes`: longer payloads, such as videos, are often used only in parts."""
_MOST_DESCRIPTORS, _FEWEST_DESCRIPTORS = 4096, 16
"""Bounds for the number of mapped files that keep an open descriptor: more are hardly ever needed, with fewer most reads would
open the file again."""
_BLOCK_BYTES = 4096
"""Smallest number of bytes that a sparse access reads: one page."""


def copied_bytes() -> int:
    """Return the largest number of bytes of a payload that is copied; longer payloads are views into the mapping.

    It is the environment variable ``GPU_AUG_COPIED_BYTES``, or 1 MiB; with 0 all payloads are views.

    Raises:
        SourceError: The variable is not an integer >= 0.
    """
    return bytes_from_environment("GPU_AUG_COPIED_BYTES", _COPIED_BYTES, least=0)


class MappedFile:
    """A memory-mapped file. NumPy arrays of its bytes hold a reference to it, and the last one unmaps it.

    Args:
        path: Path of the file.
        descriptor: Open descriptor of the file; the caller may close it afterwards.
        status: Result of `os.fstat` for the file, which must not be empty.

    Attributes:
        version: Device, inode, size, and times of the last change of content and of status, in nanoseconds; another file
            and changed content have another version.

    Raises:
        OSError: The file cannot be mapped.
        SourceError: The environment variable of `copied_bytes` is not valid.
    """

    def __init__(self, path: PathLike, descriptor: int, status: os.stat_result) -> None:
        self._path, self._identity = os.fspath(path), (status.st_dev, status.st_ino)
        self.version = (*self._identity, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        self._file: Descriptor | None = None
        self.size_bytes = 0
        self._copied_bytes = min(copied_bytes(), max_sample_bytes())
        address = _libc.mmap(None, status.st_size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        if address == _MAP_FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self.address, self.size_bytes = address, status.st_size
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": (self.size_bytes,),
            "typestr": "|u1",
            "data": (address, True),
        }

    def read(self, start: int, stop: int) -> bytes:
        """Return a copy of the bytes from `start` up to, but not including, `stop`, or up to the end of the mapping.

        Raises:
            OSError: The file has shrunk, or cannot be read.
        """
        if stop > self.size_bytes:  # twice as fast as min(), a few times per sample
            stop = self.size_bytes
        if start >= stop:
            return b""
        file = self._file or self._open()
        if file is None:
            self.check()
            return ctypes.string_at(self.address + start, stop - start)
        data = os.pread(file.number, stop - start, start)
        while len(data) < stop - start:  # one read returns 2 GB at most
            reached = start + len(data)
            more = os.pread(file.number, stop - reached, reached)
            if not more:
                raise self._shrunk_error(os.fstat(file.number).st_size)
            data += more
        return data

    def payload(self, start: int, stop: int) -> Payload:
        """Return bytes as `read` does; but more than `copied_bytes` as a view, which must be read through `copied`."""
        if stop - start <= self._copied_bytes:
            return self.read(start, stop)
        self.check()
        return np.asarray(self).data[start:stop]

    def check(self) -> None:
        """Check that the file is at least as long as its mapping; call this before bytes of the mapping are accessed.

        Raises:
            OSError: The file has become shorter.
        """
        file = self._file
        try:
            status = os.fstat(file.number) if file else os.stat(self._path)  # noqa: PTH116, 3 us less
        except FileNotFoundError:
            return
        if status.st_size < self.size_bytes and (status.st_dev, status.st_ino) == self._identity:
            raise self._shrunk_error(status.st_size)

    def descriptor(self) -> "Descriptor | None":
        """Return an open descriptor of the file for compiled code; it stays open as long as the result is referenced.

        Returns None if the path no longer belongs to the file, or too many descriptors are in use.

        Raises:
            OSError: The file has become shorter, or cannot be opened.
        """
        self.check()
        if self._file is None and len(_open_numbers) >= 2 * _most_descriptors():
            return None
        return self._file or self._open()

    def _open(self) -> "Descriptor | None":
        """Open the file, store its descriptor and return it.

        Returns None if the path is gone or belongs to another file now, or if the process has no more descriptors. A file
        without a path cannot be shortened by others, so its mapping is safe to access.
        """
        try:
            file = Descriptor(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EMFILE, errno.ENFILE):
                return None
            raise
        status = os.fstat(file.number)
        if (status.st_dev, status.st_ino) != self._identity:
            return None
        self._file = file
        _keep_open(self)
        return file

    def _shrunk_error(self, size_bytes: int) -> OSError:
        text = (
            f"it has shrunk from {self.size_bytes} to {size_bytes} bytes since it was opened: copy it "
            "again, and open the dataset again"
        )
        return OSError(errno.ESTALE, text)

    def __del__(self, munmap: Callable[..., int] = _libc.munmap) -> None:
        if self.size_bytes:
            munmap(self.address, self.size_bytes)


def mapped_file(view: Payload) -> MappedFile | None:
    """Return the `MappedFile` that a payload is a view of; None for bytes in memory."""
    owner = getattr(getattr(view, "obj", None), "base", None)
    return owner if isinstance(owner, MappedFile) else None


def file_version(payload: Payload | BlobPayload) -> tuple[object, ...] | None:
    """Return the version of the file that a payload is a part of, and its offset there; None for bytes in memory."""
    if isinstance(payload, BlobPayload):
        return payload.blob.location, payload.blob.stamp
    file = mapped_file(payload)
    if file is None:
        return None
    return *file.version, np.frombuffer(payload, np.uint8).ctypes.data - file.address


def copied(payload: Payload) -> Payload:
    """Return a copy of a payload if it is a view into a mapped file; else return it unchanged.

    Raises:
        TooLargeError: The payload is longer than the limit of a sample; this is an OSError, too.
        OSError: The file has shrunk, or cannot be read.
    """
    file = mapped_file(payload)
    if file is None or not len(payload):
        return payload
    check_bytes(len(payload), "it")
    start = np.frombuffer(payload, np.uint8).ctypes.data - file.address
    return file.read(start, start + len(payload))


def copied_if_small(payload: Payload) -> Payload:
    """Return a copy of a payload as `copied` does, but leave payloads longer than `copied_bytes` as views."""
    return copied(payload) if len(payload) <= copied_bytes() else payload


class ReadView:
    """A part of a mapped file with the interface of `bytes`, for sparse access; it is read from the file in blocks.

    Args:
        file: The file.
        start: Offset of the first byte of the part.
        stop: Offset after the last byte of the part.
        block_bytes: Smallest number of bytes that are read at a time.
    """

    def __init__(
        self, file: MappedFile, start: int, stop: int, block_bytes: int = _BLOCK_BYTES
    ) -> None:
        self._file, self._start, self._size = file, start, stop - start
        self._block_bytes = block_bytes
        self._block: tuple[int, bytes] = (0, b"")

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, part: int) -> int: ...
    @overload
    def __getitem__(self, part: slice) -> bytes: ...
    def __getitem__(self, part: int | slice) -> int | bytes:
        """Return one byte as an integer, or a slice with a positive step as bytes.

        Raises:
            IndexError: The index is negative, or after the last byte.
            OSError: The file has shrunk, or cannot be read.
        """
        if isinstance(part, slice):
            start, stop, step = part.indices(self._size)
            found = self._read(start, max(stop, start))
            return found if step == 1 else found[::step]
        if not 0 <= part < self._size:
            raise IndexError(part)
        return self._read(part, part + 1)[0]

    def _read(self, start: int, stop: int) -> bytes:
        first, block = self._block
        if not first <= start <= stop <= first + len(block):
            end = min(max(stop, start + self._block_bytes), self._size)
            first, block = start, self._file.read(self._start + start, self._start + end)
            self._block = first, block
        return block[start - first : stop - first]


Parsed = memoryview | ReadView
"""The bytes of a file in the form that parsers take."""


def parsed(payload: Payload, block_bytes: int = _BLOCK_BYTES) -> Parsed:
    """Return the bytes of a payload for a parser: a memoryview if they are in memory, a `ReadView` if they are mapped.

    Args:
        payload: The bytes of a file.
        block_bytes: Smallest number of bytes that a `ReadView` reads from the file at a time.
    """
    file = mapped_file(payload)
    if file is None or not len(payload):
        return memoryview(payload)
    start = np.frombuffer(payload, np.uint8).ctypes.data - file.address
    return ReadView(file, start, start + len(payload), block_bytes)


_open_numbers: set[int] = set()


class Descriptor:
    """An open file descriptor, which is closed when the last reference to this object is dropped.

    Attributes:
        number: The descriptor.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number
        _open_numbers.add(number)

    def __del__(
        self,
        close: Callable[[int], None] = os.close,
        forget: Callable[[int], None] = _open_numbers.discard,
    ) -> None:
        forget(self.number)
        close(self.number)


# Files with an open descriptor, oldest first. There is no lock: a fork could happen while a thread holds it.
_open_files: deque[weakref.ref[MappedFile]] = deque()


def _keep_open(file: MappedFile) -> None:
    """Record that a file keeps its descriptor open; if too many files do, the oldest ones drop theirs."""
    most = _most_descriptors()
    _open_files.append(weakref.ref(file))
    with suppress(IndexError):  # another thread removed it
        while len(_open_files) > most:
            oldest = _open_files.popleft()()
            if oldest is not None and oldest is not file:
                oldest._file = None


def _most_descriptors() -> int:
    """Return how many mapped files may keep a descriptor: a quarter of the process's limit, within bounds."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = soft // 4 if soft != resource.RLIM_INFINITY else _MOST_DESCRIPTORS
    return min(max(most, _FEWEST_DESCRIPTORS), _MOST_DESCRIPTORS)
