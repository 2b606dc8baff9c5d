"""Blocks of remote files on the local disk: bounded, checked, shared by processes, and cheap to lose.

A folder holds

    CACHEDIR.TAG      says that everything here may be deleted; without it a folder is left alone
    lock, total       one lock for all accounts, and the bytes that lie here
    ab/ab12...        one file per block: its name is a digest of the file, its content's stamp and the place

and a block holds a description, a CRC-32 for each 64 KiB, and the bytes. Only the 64 KiB that are asked for
are read and checked. What is damaged is as good as missing.

A block is written under a name of its own and then renamed, while the writer holds the lock: so a reader sees
whole blocks only, and whoever holds the lock knows that unfinished ones were left behind by the dead. The
operating system gives back the locks of a process that is gone. A block that is being read may be deleted.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import struct
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from readers.sample import Payload, SourceError
from readers.storage.cache_folder import cache_folder
from readers.storage.unreadable import reason_of

Range = tuple[int, int]
Fetch = Callable[[list[Range]], list[Payload]]

PIECE_BYTES = 1 << 16
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# Blocks of remote files. Delete the folder at any time.\n"
_ENTRY = re.compile(r"[0-9a-f]{32}")
_UNFINISHED = re.compile(r"[0-9a-f]{32}\.new")
_HEAD = struct.Struct("<4s16sII")  # format, name, bytes, CRC-32 of the rest of the description
_FORMAT = b"gab1"
_PATIENCE_SECONDS = 30.0
_LOCK_SECONDS = 5.0
_ROOM_AFTER_EVICTION = 0.9
_TOUCH_SECONDS = 1.0
_DEFAULT_BYTES = 10_000_000_000
_DISK_BLOCK_BYTES = 4096


def open_cache(
    folder: str | None, limit_bytes: int | None, block_bytes: int
) -> "BlockCache | None":
    """The cache in a folder, opened once per process; None where nothing is to be kept or can be.

    Raises:
        SourceError: The folder holds something else.
    """
    if limit_bytes == 0:
        return None
    key = (folder, limit_bytes, block_bytes)
    with _opening:
        if key not in _open:
            where = Path(folder) if folder is not None else cache_folder() / "blocks"
            try:
                _open[key] = BlockCache(where, limit_bytes, block_bytes)
            except OSError as error:
                _warn(where, error)
                _open[key] = None
        return _open[key]


class BlockCache:
    """Blocks of files in a folder; safe for many threads and processes.

    Args:
        folder: Is made if it is not there.
        limit_bytes: The most that its files may take; None is 10 GB, or a tenth of the free disk.
        block_bytes: Size of a block, a multiple of 64 KiB.

    Raises:
        SourceError: The folder holds something else.
        OSError: It cannot be made or written to.
    """

    def __init__(self, folder: Path, limit_bytes: int | None, block_bytes: int = 1 << 18) -> None:
        self._folder, self._block_bytes = folder, block_bytes
        _claim_folder(folder)
        self._lock = _lock_of(folder)
        self._writes = True
        self._total_file = os.open(folder / "total", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with self._lock.accounts():
            total = self._scan().total
            self._set_total(total)
        free = shutil.disk_usage(folder).free
        self.limit_bytes = (
            min(_DEFAULT_BYTES, (free + total) // 10) if limit_bytes is None else limit_bytes
        )

    def read(self, key: str, length: int, ranges: Sequence[Range], fetch: Fetch) -> list[Payload]:
        """Read ranges of a file, from here where they are and else by `fetch`, in the order given.

        Args:
            key: Says which file, and which content of it. It is not stored.
            length: Of the file, in bytes.
            ranges: Half open, within the file.
            fetch: Reads whole blocks of the file from where it lies.
        """
        size = self._block_bytes
        spans: dict[int, Range] = {}
        for start, stop in ranges:
            for number in range(start // size, -(-stop // size) if start < stop else 0):
                low, high = max(start - number * size, 0), min(stop - number * size, size)
                old = spans.get(number, (low, high))
                spans[number] = min(low, old[0]), max(high, old[1])
        blocks = {number: _Block.of(key, number, size, length) for number in spans}
        found = {n: part for n, span in spans.items() if (part := self._load(blocks[n], span))}
        missing = [n for n in spans if n not in found]
        if (
            missing and not self._writes
        ):  # whole blocks are worth their bytes only where they are kept
            return self._mixed(ranges, found, fetch)
        if missing:
            self._fill(missing, blocks, spans, found, fetch)
        return [_cut(found, start, stop, size) for start, stop in ranges]

    def _mixed(
        self, ranges: Sequence[Range], found: "dict[int, _Part]", fetch: Fetch
    ) -> list[Payload]:
        """Ranges out of what was found, and the others exactly."""
        size = self._block_bytes
        far = [
            (start, stop)
            for start, stop in ranges
            if start < stop and any(n not in found for n in range(start // size, -(-stop // size)))
        ]
        fetched = dict(zip(far, fetch(far), strict=True))
        return [
            fetched[place] if place in fetched else _cut(found, *place, size) for place in ranges
        ]

    def _fill(
        self,
        missing: list[int],
        blocks: "dict[int, _Block]",
        spans: dict[int, Range],
        found: "dict[int, _Part]",
        fetch: Fetch,
    ) -> None:
        """Fetch blocks that are missing, but for those that another one fetches at this moment."""
        patient_until = time.monotonic() + _PATIENCE_SECONDS
        wait = 0.002
        while missing:
            impatient = time.monotonic() > patient_until
            mine = [n for n in missing if self._lock.claim(blocks[n].digest)]
            try:
                for n in missing:
                    if part := self._load(blocks[n], spans[n]):
                        found[n] = part
                wanted = [n for n in (missing if impatient else mine) if n not in found]
                if wanted:
                    answers = fetch([blocks[n].place for n in wanted])
                    found.update(
                        (n, _Part(0, memoryview(data)))
                        for n, data in zip(wanted, answers, strict=True)
                    )
                    self._store(
                        [(blocks[n], data) for n, data in zip(wanted, answers, strict=True)]
                    )
            finally:
                for n in mine:
                    self._lock.release(blocks[n].digest)
            missing = [n for n in missing if n not in found]
            if missing and not mine:
                time.sleep(wait)
                wait = min(2 * wait, 0.1)

    def _load(self, block: "_Block", span: Range) -> "_Part | None":
        """The bytes of a block from a multiple of 64 KiB on; None when it is not here or is damaged."""
        path = self._path(block.digest.hex())
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            part = _read_entry(file, block, span)
            if time.time() - os.fstat(file).st_mtime > _TOUCH_SECONDS:
                with suppress(
                    OSError
                ):  # a cache that may only be read does not know what is in use
                    os.utime(file)
            return part
        except (OSError, ValueError):
            with suppress(OSError):
                path.unlink()  # the account is put right by the next scan
            return None
        finally:
            os.close(file)

    def _store(self, blocks: "list[tuple[_Block, Payload]]") -> None:
        if not self._writes:
            return
        entries = [(block.digest.hex(), _description(block, data), data) for block, data in blocks]
        try:
            with self._lock.accounts(_LOCK_SECONDS):
                for entry in entries:
                    self._store_one(*entry)
        except TimeoutError:
            return  # somebody was stopped while he held it: what is not kept is read again
        except OSError as error:
            self._writes = False
            _warn(self._folder, error)

    def _store_one(self, name: str, description: bytes, data: Payload) -> None:
        size = _on_disk(len(description) + len(data))
        if size > self.limit_bytes:
            return
        total = self._total()
        if total is None or total + size > self.limit_bytes:
            total = self._evict(max(int(_ROOM_AFTER_EVICTION * self.limit_bytes) - size, 0))
        self._set_total(
            total + size
        )  # first: who dies in between has counted too much, not too little
        path = self._path(name)
        path.parent.mkdir(exist_ok=True)
        unfinished = path.with_name(f"{name}.new")
        try:
            _write(unfinished, description, data)
            unfinished.replace(path)
        except OSError:
            with suppress(OSError):
                unfinished.unlink()
            raise

    def _evict(self, room: int) -> int:
        """Delete what was used longest ago until no more than this is left; returns what is left."""
        scan = self._scan()
        total = scan.total
        for _, path, size in sorted(scan.entries):
            if total <= room:
                break
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108  # these are many, and plain texts
            total -= size
        return total

    def _scan(self) -> "_Scan":
        """Look at all there is, and delete what was left unfinished; with the lock held."""
        entries = []
        for folder in os.scandir(self._folder):
            if len(folder.name) != 2 or not folder.is_dir(follow_symlinks=False):
                continue
            for entry in os.scandir(folder):
                with suppress(FileNotFoundError):
                    if _UNFINISHED.fullmatch(entry.name):
                        os.unlink(entry.path)  # noqa: PTH108
                    elif _ENTRY.fullmatch(entry.name):
                        status = entry.stat(follow_symlinks=False)
                        entries.append((status.st_mtime_ns, entry.path, _on_disk(status.st_size)))
        return _Scan(entries, sum(size for _, _, size in entries))

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name

    def _total(self) -> int | None:
        data = os.pread(self._total_file, 12, 0)
        if len(data) != 12 or zlib.crc32(data[:8]) != int.from_bytes(data[8:], "little"):
            return None
        return int.from_bytes(data[:8], "little")

    def _set_total(self, total: int) -> None:
        data = total.to_bytes(8, "little")
        os.pwrite(self._total_file, data + zlib.crc32(data).to_bytes(4, "little"), 0)


class _Scan(NamedTuple):
    entries: list[tuple[int, str, int]]
    total: int


class _Part(NamedTuple):
    """Bytes of a block, from the given one on."""

    start: int
    data: memoryview


class _Block(NamedTuple):
    """A block of a file: its name here, and its place there."""

    digest: bytes
    place: Range

    @classmethod
    def of(cls, key: str, number: int, size: int, length: int) -> "_Block":
        digest = hashlib.sha256(
            f"{key}\0{size}\0{number}".encode("utf-8", "surrogateescape")
        ).digest()[:16]
        return cls(digest, (number * size, min((number + 1) * size, length)))


def _description(block: _Block, data: Payload) -> bytes:
    pieces = [zlib.crc32(data[at : at + PIECE_BYTES]) for at in range(0, len(data), PIECE_BYTES)]
    checks = struct.pack(f"<{len(pieces)}I", *pieces)
    return _HEAD.pack(_FORMAT, block.digest, len(data), zlib.crc32(checks, len(data))) + checks


def _write(path: Path, *parts: Payload) -> None:
    with path.open("wb", buffering=0) as file:
        for part in parts:
            if file.write(part) != len(part):  # the disk was full just then
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _read_entry(file: int, block: _Block, span: Range) -> _Part:
    """Raises ValueError where it is damaged."""
    length = block.place[1] - block.place[0]
    num_pieces = -(-length // PIECE_BYTES)
    head = os.pread(file, _HEAD.size + 4 * num_pieces, 0)
    if len(head) != _HEAD.size + 4 * num_pieces:
        raise ValueError("cut off")
    checks = head[_HEAD.size :]
    if _HEAD.unpack(head[: _HEAD.size]) != (
        _FORMAT,
        block.digest,
        length,
        zlib.crc32(checks, length),
    ):
        raise ValueError("damaged description")
    first = span[0] // PIECE_BYTES
    start, stop = first * PIECE_BYTES, min(-(-span[1] // PIECE_BYTES) * PIECE_BYTES, length)
    data = memoryview(os.pread(file, stop - start, len(head) + start))
    if len(data) != stop - start:
        raise ValueError("cut off")
    expected = struct.unpack(f"<{num_pieces}I", checks)
    for number in range(first, -(-stop // PIECE_BYTES)):
        at = (number - first) * PIECE_BYTES
        if zlib.crc32(data[at : at + PIECE_BYTES]) != expected[number]:
            raise ValueError("damaged bytes")
    return _Part(start, data)


def _cut(found: dict[int, _Part], start: int, stop: int, size: int) -> Payload:
    pieces = []
    while start < stop:
        number, at = divmod(start, size)
        end = min(stop, (number + 1) * size)
        part = found[number]
        pieces.append(part.data[at - part.start : at - part.start + end - start])
        start = end
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _on_disk(size_bytes: int) -> int:
    return -(-size_bytes // _DISK_BLOCK_BYTES) * _DISK_BLOCK_BYTES


def _claim_folder(folder: Path) -> None:
    """Make the folder a cache, if it is empty, or see that it is one."""
    folder.mkdir(parents=True, exist_ok=True)
    tag = folder / "CACHEDIR.TAG"
    if not tag.exists():
        strangers = [path.name for path in folder.iterdir() if path.name not in ("lock", "total")]
        if strangers and not tag.exists():
            raise SourceError(
                f"the cache folder {folder} holds something else ({strangers[0]}): give an empty or a new folder"
            )
        tag.write_bytes(_TAG)


def _warn(folder: Path, error: OSError) -> None:
    warnings.warn(
        f"nothing is kept in the cache {folder}: {reason_of(error)}. Remote data is read each time anew; "
        "free some space, give another cache_folder, or cache_bytes=0",
        RuntimeWarning,
        stacklevel=2,
    )


class _Lock:
    """Claims of single blocks, and the lock of the accounts, among threads and processes.

    Locks of the kind that belong to a process (fcntl) on bytes of one file. A child of a fork does not
    inherit them, and closing the file would give all of them back: it stays open.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._accounts = threading.Lock()
        self._mutex = threading.Lock()
        self._claimed: set[int] = set()

    def claim(self, digest: bytes) -> bool:
        """Try to become the one who fetches a block."""
        place = _place(digest)
        with self._mutex:
            if place in self._claimed or not self._try(place):
                return False
            self._claimed.add(place)
            return True

    def release(self, digest: bytes) -> None:
        """Give a claim back."""
        place = _place(digest)
        with self._mutex:
            self._claimed.discard(place)
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    @contextmanager
    def accounts(self, patience_seconds: float | None = None) -> Iterator[None]:
        """Hold the lock of the accounts; TimeoutError when it cannot be had for so long."""
        if not self._accounts.acquire(timeout=-1 if patience_seconds is None else patience_seconds):
            raise TimeoutError
        try:
            self._wait(_LOCK_SECONDS * 12 if patience_seconds is None else patience_seconds)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, 0)
        finally:
            self._accounts.release()

    def _wait(self, seconds: float) -> None:
        until, wait = time.monotonic() + seconds, 0.0005
        while not self._try(0):
            if time.monotonic() > until:
                raise TimeoutError(errno.ETIMEDOUT, "another process holds its lock")
            time.sleep(wait)
            wait = min(2 * wait, 0.02)

    def _try(self, place: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):
            return False
        return True


def _place(digest: bytes) -> int:
    return 1 + int.from_bytes(digest[:5], "little")


_opening = threading.Lock()
_open: dict[tuple[str | None, int | None, int], BlockCache | None] = {}
_locks: dict[tuple[int, int], _Lock] = {}


def _lock_of(folder: Path) -> _Lock:
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    status = os.fstat(file)
    # A second descriptor of the same file is not closed either: that would free the locks of the first.
    return _locks.setdefault((status.st_dev, status.st_ino), _Lock(file))


def _after_fork() -> None:
    global _opening
    _opening = threading.Lock()
    _open.clear()
    _locks.clear()


os.register_at_fork(after_in_child=_after_fork)
