"""A file of checkpoints that any number of processes read, and add to, at the same time.

It is read through the page cache, which processes share, and never whole: so it takes no memory of a process, and a
file that somebody shortens is read as far as it goes, where touching a map of it would end the process.
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
    Kept,
    Slot,
    pack_slot,
    parse_slot,
)
from readers.storage.atomic_file import build_once
from readers.storage.lock import is_at, try_lock, wait_for
from readers.storage.side_file import DamagedFileError, read_all, write_all

_LOCK_SECONDS = 0.2
_PIECE_SLOTS = 1 << 12


class FullError(OSError):
    """The file has reached its largest size."""


class CheckpointFile:
    """An open file; any thread may use it.

    Attributes:
        path: Its path.
        head: What stands at its beginning.
        writes: Whether it can be added to.
        seed: See `Head.seed`.

    Args:
        path: Path of the file.
        head: What must stand at its beginning.
        writes: Whether `add` will be called.

    Raises:
        DamagedFileError: It is something else, or damaged.
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path, head: Head, *, writes: bool = False) -> None:
        self.path, self.head, self.writes = path, head, writes
        self.seed = head.seed
        self._adding = threading.Lock()
        self._file = Opened(path, head, writes)

    def find(self, number: int, digest: int) -> Kept | None:
        """What is known of an image; None where it is nothing, is damaged, or is of other bytes.

        Args:
            number: The sample's place in the file.
            digest: Of all bytes of its image, 64 bits.
        """
        file = self._file
        try:
            slot = self._slot(file, number)
            if slot is None or slot.digest != digest:
                return None
            return slot.take(read_all(file.number, slot.num_bytes, slot.start))
        except (DamagedFileError, OSError):
            return None

    @property
    def opened(self) -> "Opened":
        """The open file; compiled code reads from its descriptor as long as it is held."""
        return self._file

    def slots(self, start: int, stop: int) -> Iterator[tuple[int, Slot]]:
        """Yield the numbers and sound slots of the samples start to stop, half open, in their order."""
        for first in range(start, stop, _PIECE_SLOTS):
            last = min(stop, first + _PIECE_SLOTS)
            data = read_all(
                self._file.number, SLOT_BYTES * (last - first), self.head.slot_at(first)
            )
            for number in range(first, last):
                at = SLOT_BYTES * (number - first)
                with suppress(DamagedFileError):  # of that image nothing is known
                    slot = parse_slot(self.seed, number, data[at : at + SLOT_BYTES])
                    if slot is not None:
                        yield number, slot

    def known(self) -> NDArray[np.bool_]:
        """Of which samples there is something, bool [samples]; it may turn out to be damaged, or of other bytes."""
        pieces = []
        for first in range(0, self.head.num_samples, _PIECE_SLOTS):
            count = min(self.head.num_samples - first, _PIECE_SLOTS)
            data = read_all(self._file.number, SLOT_BYTES * count, self.head.slot_at(first))
            slots = np.frombuffer(data.ljust(SLOT_BYTES * count, b"\0"), np.uint64)
            pieces.append(slots.reshape(count, -1).any(1))
        return np.concatenate([np.empty(0, np.bool_), *pieces])

    def entries(self, start: int, stop: int) -> Iterator[Entry]:
        """Yield what is known of the samples start to stop, half open, in their order."""
        for number, slot in self.slots(start, stop):
            kept = slot.take(read_all(self._file.number, slot.num_bytes, slot.start))
            if kept is not None:
                yield Entry(number, slot.digest, kept)

    def add(self, entries: Sequence[Entry], limit_bytes: int) -> bool:
        """Remember what was found, over what was known of the same samples.

        Args:
            entries: In any order.
            limit_bytes: The largest size of the file.

        Returns:
            False where another process holds the lock for long, as one does that was stopped: nothing is kept then.

        Raises:
            FullError: The file would become larger.
            OSError: It cannot be written.
        """
        with self._adding:
            file = self._file = self._file.here(self.path, self.head)
            with file.locked() as held:
                if not held:
                    return False
                end = max(os.fstat(file.number).st_size, self.head.first_row)
                for entry in entries:
                    rows = entry.kept.rows
                    if end + len(rows) > limit_bytes:
                        raise FullError
                    write_all(file.number, rows, end)
                    slot = pack_slot(self.seed, entry, end)
                    write_all(file.number, slot, self.head.slot_at(entry.number))
                    end += len(rows)
        return True

    def is_current(self) -> bool:
        """Whether the file still has its name: it may have been removed, or another one took its place."""
        return is_at(self._file.number, self.path)

    def _slot(self, file: "Opened", number: int) -> Slot | None:
        data = os.pread(file.number, SLOT_BYTES, self.head.slot_at(number))
        return parse_slot(self.seed, number, data)


def open_to_add(path: Path, head: Head) -> CheckpointFile:
    """Open a file to add to; where there is none that fits, an empty one takes its place.

    Raises:
        OSError: It cannot be made or written to.
    """
    with suppress(FileNotFoundError, DamagedFileError):  # it is made below
        return CheckpointFile(path, head, writes=True)
    with build_once(path) as part:
        with suppress(FileNotFoundError, DamagedFileError):  # another one was faster
            return CheckpointFile(path, head, writes=True)
        part.file.write(head.pack())
        part.file.truncate(head.first_row)
        part.publish()
    return CheckpointFile(path, head, writes=True)


class Opened:
    """A descriptor of a process; threads that read keep it open.

    Attributes:
        number: The descriptor.
    """

    __slots__ = ("_pid", "_writes", "number")

    def __init__(self, path: Path, head: Head, writes: bool) -> None:
        flags = os.O_RDWR if writes else os.O_RDONLY
        self.number = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
        self._pid, self._writes = os.getpid(), writes
        if Head.parse(os.pread(self.number, HEAD_BYTES, 0)) != head:
            raise DamagedFileError("it belongs to something else")

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        with suppress(AttributeError, OSError):  # Python may end, or opening it failed
            close(self.number)

    def here(self, path: Path, head: Head) -> "Opened":
        """This, or one of its own for a child of a fork: a lock is of a descriptor, which both would share."""
        return self if self._pid == os.getpid() else Opened(path, head, self._writes)

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock of the file, which the operating system gives back when its holder is gone.

        Yields:
            Whether it could be had.
        """
        held = wait_for(lambda: try_lock(self.number), _LOCK_SECONDS)
        try:
            yield held
        finally:
            if held:
                fcntl.flock(self.number, fcntl.LOCK_UN)
