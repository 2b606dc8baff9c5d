"""A mapped file whose bytes are read from the file instead of touched in the mapping.

The operating system kills a process (SIGBUS) that touches a mapped byte which the file no longer has, in whatever library. A
read of the file returns fewer bytes instead, which is an ordinary error.
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
"""Longer payloads, such as videos, are often used in parts only."""
_MOST_DESCRIPTORS, _FEWEST_DESCRIPTORS = 4096, 16
"""Bounds of the files that keep a descriptor: with more, reads of further files are rare; with less, each read opens a file."""
_BLOCK_BYTES = 4096
"""Bytes that a sparse read gets at least: one page."""


def copied_bytes() -> int:
    """Return the length up to which payloads are copied; longer ones are views into the mapping.

    It is the environment variable ``GPU_AUG_COPIED_BYTES``, or 1 MiB; with 0 all payloads are views.

    Raises:
        SourceError: The variable is no integer.
    """
    return bytes_from_environment("GPU_AUG_COPIED_BYTES", _COPIED_BYTES, least=0)


class MappedFile:
    """A mapped file. Arrays of its bytes reference it, and it is unmapped with the last one.

    Args:
        path: Path of the file.
        descriptor: Open descriptor of the file; it may be closed afterwards.
        status: Status of the file, which must not be empty.

    Raises:
        SourceError: See `copied_bytes`.
    """

    def __init__(self, path: PathLike, descriptor: int, status: os.stat_result) -> None:
        self._path, self._identity = os.fspath(path), (status.st_dev, status.st_ino)
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
        """Return bytes start to stop, half open, as far as the mapping goes.

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
        """Return bytes as `read` does, but a view for `copied` if they are more than `copied_bytes`."""
        if stop - start <= self._copied_bytes:
            return self.read(start, stop)
        self.check()
        return np.asarray(self).data[start:stop]

    def check(self) -> None:
        """Check that the file is as long as its mapping, before that is touched.

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
        """Return the open file for compiled code; it stays open as long as it is referenced.

        None if the file cannot be opened any more, or half of the descriptors of the process are in use.

        Raises:
            OSError: The file has become shorter, or cannot be opened.
        """
        self.check()
        if self._file is None and len(_open_numbers) >= 2 * _most_descriptors():
            return None
        return self._file or self._open()

    def _open(self) -> "Descriptor | None":
        """Open the file; None if its name is gone or belongs to another file, or the process has no more descriptors.

        A file without a name is not shortened by others, so touching its mapping is safe.
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
    """Return the file that a view is mapped from, None for bytes in memory."""
    owner = getattr(getattr(view, "obj", None), "base", None)
    return owner if isinstance(owner, MappedFile) else None


def copied(payload: Payload) -> Payload:
    """Return a copy of a payload that is a view into a mapped file; others are returned unchanged.

    Raises:
        OSError: The file has shrunk or cannot be read, or the payload is too long: `TooLargeError`.
    """
    file = mapped_file(payload)
    if file is None or not len(payload):
        return payload
    check_bytes(len(payload), "it")
    start = np.frombuffer(payload, np.uint8).ctypes.data - file.address
    return file.read(start, start + len(payload))


def copied_if_small(payload: Payload) -> Payload:
    """As `copied`, but payloads longer than `copied_bytes` remain views."""
    return copied(payload) if len(payload) <= copied_bytes() else payload


class ReadView:
    """A part of a mapped file for sparse access, which is read in blocks.

    Args:
        file: The file.
        start: First byte of the part.
        stop: Byte after the last one.
        block_bytes: Number of bytes that are read at a time, at least.
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
        """Return a byte, or a slice with a positive step, as for `bytes`.

        Raises:
            IndexError: There is no such byte.
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
"""Bytes for a parser."""


def parsed(payload: Payload, block_bytes: int = _BLOCK_BYTES) -> Parsed:
    """Return the bytes of a payload for a parser: a view if they are in memory, else one that reads the file."""
    file = mapped_file(payload)
    if file is None or not len(payload):
        return memoryview(payload)
    start = np.frombuffer(payload, np.uint8).ctypes.data - file.address
    return ReadView(file, start, start + len(payload), block_bytes)


_open_numbers: set[int] = set()


class Descriptor:
    """An open file, which is closed when the last thread that reads it drops this object."""

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


# Files with a descriptor, in the order of opening. No lock, since a fork may happen while a thread holds it.
_open_files: deque[weakref.ref[MappedFile]] = deque()


def _keep_open(file: MappedFile) -> None:
    """Record that a file keeps its descriptor; the oldest ones close theirs if there are too many."""
    most = _most_descriptors()
    _open_files.append(weakref.ref(file))
    with suppress(IndexError):  # another thread removed it
        while len(_open_files) > most:
            oldest = _open_files.popleft()()
            if oldest is not None and oldest is not file:
                oldest._file = None


def _most_descriptors() -> int:
    """Return how many files keep a descriptor: a quarter of those that the process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = soft // 4 if soft != resource.RLIM_INFINITY else _MOST_DESCRIPTORS
    return min(max(most, _FEWEST_DESCRIPTORS), _MOST_DESCRIPTORS)
