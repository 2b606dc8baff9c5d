"""A cache on the local disk for blocks of remote files: of limited size, with checksums, and shared by processes.

Its folder holds

    CACHEDIR.TAG      marks the folder as a cache; a folder with other files and without this one is refused
    lock, total       the file of the locks, and the total size of all blocks
    ab/ab12...        one file per block; its name is a digest of the remote file, the stamp of its content, and the offset

(see `readers.storage.remote.blocks`). A damaged block counts as missing.

A block is written under a temporary name and then renamed, while the writer holds the lock of the total. So readers see only
complete blocks, and a process that holds the lock may delete temporary files: their writers are dead, because the operating
system releases the locks of a process that ends. A block may be deleted while it is read.
"""

import logging
import os
import re
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from readers.sample import Payload, SourceError
from readers.storage.cache_folder import (
    CachedFile,
    cache_folder,
    default_limit_bytes,
    remove_oldest,
)
from readers.storage.remote.blocks import (
    Block,
    Part,
    Range,
    cut,
    describe,
    find_blocks,
    read_part,
)
from readers.storage.remote.cache_lock import LOCK_SECONDS, lock_of
from readers.storage.side_file import CheckedStruct, DamagedFileError
from readers.storage.traffic import count
from readers.storage.unreadable import reason_of

Fetch = Callable[[list[Range]], list[Payload]]

_log = logging.getLogger(f"gpu_aug.{__name__}")

# Backup programs skip folders with this file: https://bford.info/cachedir/
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# Blocks of remote files. Delete the folder at any time.\n"
# Names of blocks and of their temporary files; other files in the folder are never touched.
_ENTRY = re.compile(r"[0-9a-f]{32}")
_UNFINISHED = re.compile(r"[0-9a-f]{32}\.new")  # earlier versions use it as well
_PATIENCE_SECONDS = 30.0
"""Longest wait for a block that another process is fetching; after that it is fetched here, too, as that process may be
stopped."""
_ROOM_AFTER_EVICTION = 0.9
"""Share of the limit that stays in use after an eviction, so that one scan of the folder makes room for many blocks."""
_TOUCH_SECONDS = 1.0
"""A block that was marked as used within this time is not marked again, which would cost a system call."""
_DISK_BLOCK_BYTES = 4096
"""Unit in which most file systems allocate disk space."""
_TOTAL = CheckedStruct("Q")
"""Layout of the file ``total``: the disk space of all blocks, in bytes."""


def open_cache(
    folder: str | None, limit_bytes: int | None, block_bytes: int
) -> "BlockCache | None":
    """Return the block cache in a folder, opened once per process; None if the limit is 0 or the folder cannot be written.

    Args:
        folder: Path of the folder; None takes the subfolder ``blocks`` of the cache folder.
        limit_bytes: Largest size of all blocks; None is `default_limit_bytes`.
        block_bytes: Size of a block.

    Raises:
        SourceError: The folder holds other files.
    """
    if limit_bytes == 0:
        return None
    key = (folder, limit_bytes, block_bytes)
    with _opening:
        if key not in _open:
            where = Path(folder) if folder is not None else cache_folder() / "blocks"
            try:
                made = _open[key] = BlockCache(where, limit_bytes, block_bytes)
                size = made.limit_bytes / 1e9
                _log.info("blocks of remote files are stored in %s, up to %.1f GB", where, size)
            except OSError as error:
                _warn(where, error)
                _open[key] = None
        return _open[key]


def clear_blocks(folder: Path) -> tuple[int, int]:
    """Remove all blocks of the cache in a folder; running processes fetch the blocks that they need again.

    Returns:
        The number of removed blocks, and their disk space in bytes; 0 and 0 if the folder is not a cache.
    """
    if not (folder / "CACHEDIR.TAG").exists():
        return 0, 0
    return BlockCache(folder, limit_bytes=None).clear()


class BlockCache:
    """A cache of blocks of remote files in a folder; safe to use from many threads and processes.

    Args:
        folder: Path of the folder; it is created if it does not exist.
        limit_bytes: Largest size of all blocks; None is `default_limit_bytes`.
        block_bytes: Size of a block, a multiple of 64 KiB.

    Raises:
        SourceError: The folder holds other files.
        OSError: The folder cannot be created or written.
    """

    def __init__(self, folder: Path, limit_bytes: int | None, block_bytes: int = 1 << 18) -> None:
        self._folder, self._block_bytes = folder, block_bytes
        _claim_folder(folder)
        self._lock = lock_of(folder)
        self._writes = True
        self._total_file = os.open(folder / "total", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        weakref.finalize(self, os.close, self._total_file).atexit = False
        with self._lock.accounts():
            total = sum(file.size_bytes for file in self._scan())
            self._set_total(total)
        self.limit_bytes = (
            default_limit_bytes(folder, total) if limit_bytes is None else limit_bytes
        )

    def read(self, key: str, length: int, ranges: Sequence[Range], fetch: Fetch) -> list[Payload]:
        """Return the bytes of ranges of a remote file, in the given order; blocks that are not cached are fetched.

        Args:
            key: Text that identifies the file and its content; only a hash of it is stored.
            length: Size of the file in bytes.
            ranges: Pairs of the first byte and the byte after the last one.
            fetch: Reads ranges of the file from its server.
        """
        size = self._block_bytes
        blocks = find_blocks(key, size, length, ranges)
        parts = self._load(blocks)
        missing = {number: block for number, block in blocks.items() if number not in parts}
        count(cache_hits=len(parts), cache_misses=len(missing))
        if missing and not self._writes:  # complete blocks pay only if they are stored
            return self._read_around(ranges, parts, fetch)
        parts |= self._fill(missing, fetch)
        return [cut(parts, start, stop, size) for start, stop in ranges]

    def clear(self) -> tuple[int, int]:
        """Remove all blocks; return their number and their disk space in bytes."""
        with self._lock.accounts():
            files = self._scan()
            self._set_total(remove_oldest(files, 0))
        return len(files), sum(file.size_bytes for file in files)

    def _read_around(
        self, ranges: Sequence[Range], parts: dict[int, Part], fetch: Fetch
    ) -> list[Payload]:
        """Return the bytes of ranges when nothing can be stored: from cached blocks if possible, else fetch only the ranges."""
        size = self._block_bytes
        far = [
            (start, stop)
            for start, stop in ranges
            if start < stop and any(n not in parts for n in range(start // size, -(-stop // size)))
        ]
        fetched = dict(zip(far, fetch(far), strict=True))
        return [fetched[span] if span in fetched else cut(parts, *span, size) for span in ranges]

    def _fill(self, missing: dict[int, Block], fetch: Fetch) -> dict[int, Part]:
        """Return missing blocks by number: fetch them, or wait for those that another thread or process is fetching."""
        parts: dict[int, Part] = {}
        patient_until, wait = time.monotonic() + _PATIENCE_SECONDS, 0.002
        while missing:
            claimed = [n for n, block in missing.items() if self._lock.claim(block.digest)]
            try:
                parts |= self._load(missing)  # another one may have fetched them meanwhile
                wanted = claimed if time.monotonic() < patient_until else list(missing)
                parts |= self._fetch({n: missing[n] for n in wanted if n not in parts}, fetch)
            finally:
                for n in claimed:
                    self._lock.release(missing[n].digest)
            missing = {n: block for n, block in missing.items() if n not in parts}
            if missing and not claimed:
                time.sleep(wait)
                wait = min(2 * wait, 0.1)
        return parts

    def _fetch(self, blocks: dict[int, Block], fetch: Fetch) -> dict[int, Part]:
        """Fetch blocks, store them, and return them by number."""
        if not blocks:
            return {}
        answers = fetch([block.span for block in blocks.values()])
        self._store(list(zip(blocks.values(), answers, strict=True)))
        return {n: Part(0, memoryview(data)) for n, data in zip(blocks, answers, strict=True)}

    def _load(self, blocks: dict[int, Block]) -> dict[int, Part]:
        """Return the wanted parts of those blocks that are cached and undamaged, by number."""
        found = ((number, self._load_one(block)) for number, block in blocks.items())
        return {number: part for number, part in found if part}

    def _load_one(self, block: Block) -> Part | None:
        path = self._path(block.digest.hex())
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            part = read_part(file, block)
            if time.time() - os.fstat(file).st_mtime > _TOUCH_SECONDS:
                with suppress(OSError):  # a read-only cache cannot record what is in use
                    os.utime(file)
            return part
        except (OSError, ValueError):
            with suppress(OSError):
                path.unlink()  # the next scan corrects the total
            return None
        finally:
            os.close(file)

    def _store(self, blocks: list[tuple[Block, Payload]]) -> None:
        if not self._writes:
            return
        entries = [(block.digest.hex(), describe(block, data), data) for block, data in blocks]
        try:
            with self._lock.accounts(LOCK_SECONDS):
                for entry in entries:
                    self._store_one(*entry)
        except TimeoutError:
            return  # a process was stopped while it held the lock; these blocks are fetched again
        except OSError as error:
            self._writes = False
            _warn(self._folder, error)

    def _store_one(self, name: str, description: bytes, data: Payload) -> None:
        size = _on_disk(len(description) + len(data))
        if size > self.limit_bytes:
            return
        total = self._total()
        if total is None or total + size > self.limit_bytes:
            room = max(int(_ROOM_AFTER_EVICTION * self.limit_bytes) - size, 0)
            total = remove_oldest(self._scan(), room)
        # This precedes the write, so that a process that dies in between leaves a total that is too large, never too small.
        self._set_total(total + size)
        path = self._path(name)
        path.parent.mkdir(exist_ok=True)
        unfinished = path.with_name(f"{name}.new")
        try:
            with unfinished.open("wb") as file:
                file.writelines((description, data))
            unfinished.replace(path)
        except OSError:
            with suppress(OSError):  # the first error is the one to raise
                unfinished.unlink()
            raise

    def _scan(self) -> list[CachedFile]:
        """Return all blocks, and delete unfinished files; the lock must be held."""
        blocks = []
        for folder in os.scandir(self._folder):
            if len(folder.name) != 2 or not folder.is_dir(follow_symlinks=False):
                continue
            for entry in os.scandir(folder):
                with suppress(FileNotFoundError):  # another process removed it
                    if _UNFINISHED.fullmatch(entry.name):
                        os.unlink(entry.path)  # noqa: PTH108
                    elif _ENTRY.fullmatch(entry.name):
                        status = entry.stat(follow_symlinks=False)
                        size = _on_disk(status.st_size)
                        blocks.append(CachedFile(status.st_mtime_ns, entry.path, size))
        return blocks

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name

    def _total(self) -> int | None:
        with suppress(DamagedFileError):  # the folder is then scanned
            return int(_TOTAL.unpack(os.pread(self._total_file, _TOTAL.size, 0), "total")[0])
        return None

    def _set_total(self, total: int) -> None:
        os.pwrite(self._total_file, _TOTAL.pack(total), 0)


def _on_disk(size_bytes: int) -> int:
    return -(-size_bytes // _DISK_BLOCK_BYTES) * _DISK_BLOCK_BYTES


def _claim_folder(folder: Path) -> None:
    """Create a folder if necessary, and mark it as a cache.

    Raises:
        SourceError: The folder is not marked as a cache, and holds other files.
    """
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
        f"the cache {folder} cannot be written: {reason_of(error)}. Remote data is read again each time; "
        "free some space, give another cache_folder, or cache_bytes=0",
        RuntimeWarning,
        stacklevel=2,
    )


_opening = threading.Lock()
_open: dict[tuple[str | None, int | None, int], BlockCache | None] = {}


def _after_fork() -> None:
    global _opening
    _opening = threading.Lock()
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
