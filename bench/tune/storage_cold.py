"""Making reads cold: files out of the page cache, remote blocks out of the cache on disk; and saying what stays warm."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.tune.facts_place import Place
from readers import SourceError
from readers.storage.cache_folder import cache_folder
from readers.storage.paths import find_paths
from readers.storage.remote.cache import cache_elsewhere

_MOST_FILES = 4096
_NUM_PROBED = 16
_COLD_SHARE = 0.9
_HELD_SHARE = 0.2  # files may be compressed
_READ_BYTES = 4 << 20
_BEYOND = "what a disk's controller, a host of virtual machines or a server keeps in a cache of its own stays there"


@dataclass(frozen=True, slots=True)
class Chill:
    """How reads of some samples are made cold.

    Attributes:
        files: Files that hold them, empty for remote data.
        remote: Whether they come through the cache of remote blocks.
        one_file_each: Whether every sample has a file of its own.
        note: What "cold" means here, or why there is no cold, one sentence.
        possible: Whether anything can be made cold.
    """

    files: tuple[Path, ...]
    remote: bool
    one_file_each: bool
    note: str
    possible: bool

    def fresh(self, read: Sequence[Path] | None = None) -> AbstractContextManager[None]:
        """For as long as this lasts, reads find cold what was not read in it.

        Args:
            read: The only files that were read since the last time; None where that may be any.
        """
        if self.remote:
            return _empty_cache()
        if self.possible:
            drop_pages(self.files if read is None else read)
        return nullcontext()


def chill_of(place: Place, source: str | None, keys: Sequence[str], total_bytes: int = 0) -> Chill:
    """Find out how reads of the samples with these keys can be made cold, and whether they then are.

    Args:
        place: Where the data lie.
        source: Their path, pattern or URL.
        keys: Of the samples.
        total_bytes: Of all samples; files that together have much less do not hold them.
    """
    if place.kind == "remote":
        note = f"cold is what the cache of remote blocks does not hold; what {place.where} itself keeps near cannot be emptied"
        if place.cache_bytes == 0:
            note = "the cache of remote blocks is off, so every read goes to the server; what that keeps near stays there"
        return Chill((), remote=True, one_file_each=False, note=note, possible=True)
    if place.kind in ("memory", "unknown") or source is None:
        why = "lie in memory" if place.kind == "memory" else "have no path that is known"
        return Chill((), False, False, f"nothing could be made cold: the data {why}", False)
    root = Path(source).absolute()
    own = _own_files(root, keys) or _own_files(root.parent, keys)
    files = own or _all_files(source)
    if sum(path.stat().st_size for path in files) < _HELD_SHARE * total_bytes and not own:
        files = ()
    if not hasattr(os, "posix_fadvise"):
        note = "nothing could be made cold: this system does not let a process empty the page cache"
        return Chill(files, False, bool(own), note, False)
    if not files:
        note = f"nothing could be made cold: {source} does not tell which files hold the samples, or has more than {_MOST_FILES}"
        return Chill(files, False, False, note, False)
    drop_pages(files)
    gone = _share_gone(files)
    if gone is not None and gone < _COLD_SHARE:
        drop_pages(files, written=False)
        gone = _share_gone(files)
    if gone is None:
        note = f"files were taken out of the page cache, but whether they are cannot be seen on {place.where}; {_BEYOND}"
    elif gone < _COLD_SHARE:
        note = f"{1 - gone:.0%} of the files that were looked at stayed in the page cache: others hold them open"
    else:
        note = f"files were taken out of the page cache; {_BEYOND}"
    return Chill(files, False, bool(own), note, gone is None or gone > 0)


def drop_pages(files: Sequence[Path], *, written: bool = True) -> None:
    """Take files out of the page cache; files that are gone are passed over.

    Args:
        files: Their paths.
        written: Whether all of them is on the disk already; what is not cannot be taken out, so else it is written.
    """
    for path in files:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            if not written:
                os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            continue
        finally:
            os.close(descriptor)


def is_cached(path: Path) -> bool | None:
    """Whether the middle of a file is in the page cache; None where the file system does not tell.

    If it is not it is read then: the question starts that, and pages on their way cannot be taken out.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        middle = os.fstat(descriptor).st_size // 2
        return os.preadv(descriptor, [bytearray(1)], middle, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        os.pread(descriptor, _READ_BYTES, max(middle - _READ_BYTES // 2, 0))
        return False
    except (OSError, AttributeError):
        return None
    finally:
        os.close(descriptor)


def _share_gone(files: Sequence[Path]) -> float | None:
    """Share of some files that are not in the page cache; they are taken out again, for asking begins to read them."""
    some = files[:: -(-len(files) // _NUM_PROBED)]
    found = [is_cached(path) for path in some]
    drop_pages(some)
    return None if None in found else 1 - sum(map(bool, found)) / len(found)


def _own_files(root: Path, keys: Sequence[str]) -> tuple[Path, ...]:
    """The file of every sample, where its key is its path below the source; empty where they are no files."""
    files = tuple(root / key for key in keys)
    return files if files and all(path.is_file() for path in files) else ()


def _all_files(source: str) -> tuple[Path, ...]:
    """The files of a source; empty where there are none, or too many to look at."""
    try:
        paths = [Path(name) for name in find_paths(source, None)]
    except SourceError:
        return ()
    found = tuple(islice((file for path in paths for file in _below(path)), _MOST_FILES + 1))
    return found if len(found) <= _MOST_FILES else ()


def _below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, _, names in os.walk(path):
        yield from (Path(folder) / name for name in names)


@contextmanager
def _empty_cache() -> Iterator[None]:
    parent = cache_folder()
    parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="tune-", dir=parent) as folder,
        cache_elsewhere(Path(folder)),
    ):
        yield
