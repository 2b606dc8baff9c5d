"""A file of seek points, which any number of processes may read and append to at the same time.

It is read with `pread`, never as a whole and never mapped: so it takes no memory of the process, and if the file is shortened,
reading returns fewer bytes, whereas a mapping would kill the process.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from readers.jpeg_seek_points.layout import (
    HEAD_BYTES,
    SLOT_BYTES,
    Entry,
    Head,
    PackedSeekPoints,
    Slot,
    pack_slot,
    parse_slot,
)
from readers.storage.atomic_file import build_once
from readers.storage.lock import is_at, try_lock, wait_for
from readers.storage.side_file import DamagedFileError, read_all, write_all

_LOCK_SECONDS = 0.2
"""Longest wait for the lock, which others hold for a few ms: a stopped process that holds it must not delay a batch for
longer."""
_PIECE_SLOTS = 1 << 12
"""Number of slots that are read at a time: 128 kB."""


class FileFullError(OSError):
    """The file of seek points has reached its largest size."""


class SeekPointFile:
    """An open file of seek points; safe to use from any thread.

    Attributes:
        path: Path of the file.
        head: Head of the file.
        is_writable: Whether the file was opened for adding entries.
        seed: `Head.seed` of the file.
        open_file: The open descriptor, also for compiled code; it stays open as long as this object is referenced.

    Args:
        path: Path of the file.
        head: The head that the file must have.
        writable: Whether `add` will be called.

    Raises:
        DamagedFileError: The file has another head, or a damaged one.
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path, head: Head, *, writable: bool = False) -> None:
        self.path, self.head, self.is_writable = path, head, writable
        self.seed = head.seed
        self._adding = threading.Lock()
        self.open_file = OpenFile(path, head, writable)

    def find(self, number: int, digest: int) -> PackedSeekPoints | None:
        """Return the stored seek points of an image; None if there are none, they are damaged, or the image has changed.

        Args:
            number: Index of the sample in the file.
            digest: `Finder.digest` of the sample's image.
        """
        descriptor = self.open_file.number
        with suppress(DamagedFileError, OSError):
            data = os.pread(descriptor, SLOT_BYTES, self.head.slot_at(number))
            slot = parse_slot(self.seed, number, data)
            if slot is not None and slot.digest == digest:
                return slot.check(read_all(descriptor, slot.num_bytes, slot.start))
        return None

    def slots(self, start: int, stop: int) -> Iterator[tuple[int, Slot]]:
        """Yield the index and the slot of each sample from `start` up to, but not including, `stop`, in order.

        Samples with an empty or damaged slot are left out.
        """
        for first in range(start, stop, _PIECE_SLOTS):
            last = min(stop, first + _PIECE_SLOTS)
            data = self._read_slots(first, last)
            for number in range(first, last):
                at = SLOT_BYTES * (number - first)
                with suppress(DamagedFileError):  # it counts as empty
                    slot = parse_slot(self.seed, number, data[at : at + SLOT_BYTES])
                    if slot is not None:
                        yield number, slot

    def used_slots(self) -> NDArray[np.bool_]:
        """Return which samples have a slot that is not empty, bool [samples]; whether it is damaged or outdated is not checked."""
        pieces = []
        for first in range(0, self.head.num_samples, _PIECE_SLOTS):
            count = min(self.head.num_samples - first, _PIECE_SLOTS)
            data = self._read_slots(first, first + count).ljust(SLOT_BYTES * count, b"\0")
            pieces.append(np.frombuffer(data, np.uint64).reshape(count, -1).any(1))
        return np.concatenate([np.empty(0, np.bool_), *pieces])

    def entries(self, start: int, stop: int) -> Iterator[Entry]:
        """Yield the undamaged entries of the samples from `start` up to, but not including, `stop`, in order."""
        for number, slot in self.slots(start, stop):
            points = slot.check(read_all(self.open_file.number, slot.num_bytes, slot.start))
            if points is not None:
                yield Entry(number, slot.digest, points)

    def add(self, entries: Sequence[Entry], limit_bytes: int) -> bool:
        """Write entries, which replace earlier ones of the same samples.

        Args:
            entries: The entries, in any order.
            limit_bytes: Largest size of the file.

        Returns:
            Whether the entries were written; False if another process holds the lock for too long.

        Raises:
            FileFullError: The file would exceed its limit.
            OSError: The file cannot be written.
        """
        with self._adding:
            file = self.open_file = self.open_file.for_this_process(self.path, self.head)
            with file.locked() as has_lock:
                if not has_lock:
                    return False
                end = max(os.fstat(file.number).st_size, self.head.first_row)
                for entry in entries:
                    rows = entry.points.rows
                    if end + len(rows) > limit_bytes:
                        raise FileFullError
                    write_all(file.number, rows, end)
                    slot = pack_slot(self.seed, entry, end)
                    write_all(file.number, slot, self.head.slot_at(entry.number))
                    end += len(rows)
        return True

    def is_current(self) -> bool:
        """Return whether the open file is still the one at its path; it may have been removed or replaced."""
        return is_at(self.open_file.number, self.path)

    def _read_slots(self, start: int, stop: int) -> bytes:
        return read_all(
            self.open_file.number, SLOT_BYTES * (stop - start), self.head.slot_at(start)
        )


def open_to_add(path: Path, head: Head) -> SeekPointFile:
    """Open a file of seek points for adding entries, and return it; if there is none with this head, create an empty one.

    Raises:
        OSError: The file cannot be created or written.
    """
    with suppress(FileNotFoundError, DamagedFileError):  # it is created below
        return SeekPointFile(path, head, writable=True)
    with build_once(path) as part:
        with suppress(FileNotFoundError, DamagedFileError):  # another process created it meanwhile
            return SeekPointFile(path, head, writable=True)
        part.file.write(head.pack())
        part.file.truncate(head.first_row)
        part.publish()
    return SeekPointFile(path, head, writable=True)


class OpenFile:
    """An open descriptor of a file of seek points, which is closed when the last reference to this object is dropped.

    Args:
        path: Path of the file.
        head: The head that the file must have.
        writable: Whether to open the file for writing, too.

    Attributes:
        number: The descriptor.

    Raises:
        DamagedFileError: The file has another head, or a damaged one.
        OSError: The file cannot be opened.
    """

    __slots__ = ("_is_writable", "_pid", "number")

    def __init__(self, path: Path, head: Head, writable: bool) -> None:
        flags = os.O_RDWR if writable else os.O_RDONLY
        self.number = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
        self._pid, self._is_writable = os.getpid(), writable
        if Head.parse(os.pread(self.number, HEAD_BYTES, 0)) != head:
            raise DamagedFileError("it belongs to something else")

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # At the end of Python modules may be gone; there is no number if opening failed.
        with suppress(AttributeError, OSError):
            close(self.number)

    def for_this_process(self, path: Path, head: Head) -> "OpenFile":
        """Return this object; in a forked child a new one, since parent and child would share the lock of the descriptor."""
        return self if self._pid == os.getpid() else OpenFile(path, head, self._is_writable)

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Try to hold the lock of the file during the with block; yield whether the lock was obtained in time."""
        has_lock = wait_for(lambda: try_lock(self.number), _LOCK_SECONDS)
        try:
            yield has_lock
        finally:
            if has_lock:
                fcntl.flock(self.number, fcntl.LOCK_UN)
