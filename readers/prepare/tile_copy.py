"""One file to copy: where it is read and where its copy is written, here or in object stores."""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, NamedTuple, Protocol

from readers.formats.tar.dataset import SCAN, TarDataset
from readers.prepare.atomic_files import atomic_file
from readers.prepare.errors import PrepareError
from readers.sample import ReadersError
from readers.storage.blob import is_url
from readers.storage.destination import Destination, create_indexed
from readers.storage.paths import shown_path

_SHARD = ".tar"
_UNNAMEABLE = re.compile("[\\0-\\x1f\\x7f\\ud800-\\udfff]")


class UnreadableError(Exception):
    """A source that cannot be read; the text is a reason of a few words."""


class Copy(Protocol):
    """A file and its copy."""

    @property
    def shown(self) -> str:
        """Path or URL of the file, for people."""

    def find_kept(self) -> tuple[int, int] | None:
        """Sizes of the file and of its copy, where an earlier run has finished it.

        Raises:
            UnreadableError: There is no such file, or it is no regular one.
        """

    def is_whole(self, size_bytes: int) -> bool:
        """Whether the copy is there that an earlier run has finished, of this size."""

    def open(self) -> BinaryIO:
        """Open the file, which can seek.

        Raises:
            UnreadableError: It cannot be opened.
        """

    def create(self, *, is_shard: bool = False) -> AbstractContextManager[BinaryIO]:
        """Write the copy, whole or not at all; that of a shard with its index where there is no other time for it.

        Raises:
            OSError, PrepareError: It cannot be written.
        """

    def add_index(self) -> None:
        """See that a shard that is there has its index; one without samples needs none."""


def is_shard(name: str) -> bool:
    """Whether a name is that of a tar shard."""
    return name.lower().endswith(_SHARD)


class LocalCopy(NamedTuple):
    """A file here, whose copy here has its mode and its time of last change when it is finished."""

    source: Path
    target: Path

    @property
    def shown(self) -> str:
        """See `Copy`."""
        return str(self.source)

    def find_kept(self) -> tuple[int, int] | None:
        """See `Copy`."""
        before = _stat(self.source)
        try:
            after = self.target.stat()
        except OSError:
            return None
        if after.st_mtime_ns != before.st_mtime_ns or (before.st_size and not after.st_size):
            return None
        return before.st_size, after.st_size

    def is_whole(self, size_bytes: int) -> bool:
        """See `Copy`."""
        del size_bytes  # its time tells more
        try:
            return self.find_kept() is not None
        except UnreadableError:
            return False

    def open(self) -> BinaryIO:
        """See `Copy`."""
        return _open(self.source)

    @contextmanager
    def create(self, *, is_shard: bool = False) -> Iterator[BinaryIO]:
        """See `Copy`."""
        with atomic_file(self.target, like=self.source.stat(), to_disk=is_shard) as file:
            yield file

    def add_index(self) -> None:
        """See `Copy`."""
        with suppress(ReadersError):  # a shard without samples has no index
            TarDataset([self.target])


@dataclass(frozen=True)
class StoreCopy:
    """A file whose original or copy lies in an object store, so that times tell nothing: notes say what is finished.

    Attributes:
        source: Path or URL.
        destination: Where the copies go.
        name: Of the copy.
    """

    source: str
    destination: Destination
    name: str

    @property
    def shown(self) -> str:
        """See `Copy`."""
        return shown_path(self.source)

    def find_kept(self) -> None:
        """See `Copy`."""

    def is_whole(self, size_bytes: int) -> bool:
        """See `Copy`."""
        return self.destination.size_bytes(self.name) == size_bytes

    def open(self) -> BinaryIO:
        """See `Copy`."""
        if is_url(self.source):
            return _open_remote(self.source)
        _stat(Path(self.source))
        return _open(Path(self.source))

    @contextmanager
    def create(self, *, is_shard: bool = False) -> Iterator[BinaryIO]:
        """See `Copy`."""
        if is_url(self.destination.location) and _UNNAMEABLE.search(self.name):
            raise UnreadableError(
                "no object may have its name, which is not UTF-8 or has control characters"
            )
        if not is_shard:
            with self.destination.create(self.name) as file:
                yield file
            return
        is_written = False
        try:
            with create_indexed(self.destination, self.name, SCAN) as file:
                yield file
                is_written = True
        except ReadersError as error:
            if not is_written or isinstance(error, PrepareError):
                raise  # else it holds no samples, and so needs no index

    def add_index(self) -> None:
        """See `Copy`."""


def _stat(path: Path) -> os.stat_result:
    try:
        status = path.stat()
    except OSError as error:
        raise UnreadableError(f"it cannot be read ({error.strerror})") from None
    if not S_ISREG(status.st_mode):
        raise UnreadableError("it is not a regular file")
    return status


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UnreadableError(f"it cannot be read ({error.strerror})") from None


def _open_remote(url: str) -> BinaryIO:
    from readers.storage.remote import open_remote
    from readers.storage.remote.sequential import open_seekable

    try:
        return open_seekable(open_remote(url), _explain)
    except ReadersError as error:
        raise UnreadableError(f"it cannot be read ({error})") from None


def _explain(error: OSError) -> Exception:
    return UnreadableError(f"it cannot be read ({error.strerror})")
