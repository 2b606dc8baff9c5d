"""Write a shard together with its index, which readers look for next to the shard."""

import errno
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from readers.sample import TransientError
from readers.storage.blob import LocalBlob, is_url
from readers.storage.destination.destination import Destination
from readers.storage.destination.output import Output
from readers.storage.index import Scan, open_index
from readers.storage.index.find_or_build import location_beside, write_index
from readers.storage.index.index_file import Head
from readers.storage.paths import shown_path

_PIECE_BYTES = 1 << 20
"""Bytes of an index that are copied at a time."""
_MOST_REPLACED = 8
"""Number of attempts to index a shard that other writers replace meanwhile: each such writer can spoil one attempt."""


@contextmanager
def create_indexed(
    destination: Destination,
    name: str,
    scan: Scan,
    on_index: Callable[[Head], None] = lambda _: None,
) -> Iterator[BinaryIO]:
    """Open a shard for writing as `Destination.create` does, and write its index next to it at the end of the block.

    If the destination is an object store, the shard is also written to an unnamed file in the folder for temporary files
    (TMPDIR), which is then indexed: reading the shard back from the store would take as long as writing it.

    Args:
        destination: Destination of the shard and its index.
        name: Name of the shard.
        scan: Finds the samples in the shard, such as `readers.formats.tar.dataset.SCAN`.
        on_index: Called with the head of the index after the index was written.

    Raises:
        PrepareError: The shard or its index cannot be written.
        SourceError: The written shard is not of the scan's format.
    """
    if is_url(destination.location):
        with _nameless() as copy:
            with destination.create(name) as file:
                yield Output(_Both(file, copy), _no_room)
                try:
                    copy.flush()
                except OSError as error:
                    raise _no_room(error) from None
            head = _put_index(destination, name, scan, copy)
        on_index(head)
        return
    with destination.create(name) as file:
        yield file
    try:
        head = _index(destination.at(name), scan)
    except OSError as error:
        raise _unwritten(destination.at(name), error) from None
    on_index(head)


def _index(location: str, scan: Scan) -> Head:
    """Index a local shard, and return the head of the index; start again if another writer replaces the shard meanwhile.

    Raises:
        OSError: The shard cannot be indexed, or was replaced too often.
    """
    for left in reversed(range(_MOST_REPLACED)):
        try:
            return open_index(LocalBlob(location), scan).head
        except OSError as error:
            if error.errno != errno.ESTALE or not left:
                raise
    raise AssertionError


class _Both:
    """A file object that writes all bytes to two others, a store's writer and a file."""

    def __init__(self, one: BinaryIO, other: BinaryIO) -> None:
        self._one, self._other = one, other

    def write(self, data: Any, /) -> object:
        """Write all bytes to both."""
        self._other.write(data)
        return self._one.write(data)


def _put_index(destination: Destination, name: str, scan: Scan, copy: Any) -> Head:
    beside = location_beside(name, scan)
    try:
        with _nameless() as index:
            # A file without a name can be opened by this path.
            blob = LocalBlob(f"/dev/fd/{copy.fileno()}")
            head = write_index(blob, scan, index.fileno(), Path(tempfile.gettempdir()))
            index.seek(0)
            with destination.create(beside) as file:
                while piece := index.read(_PIECE_BYTES):
                    file.write(piece)
            return head
    except OSError as error:
        raise _unwritten(destination.at(name), error) from None


@contextmanager
def _nameless() -> Iterator[Any]:
    """Open a temporary file without a name, so that nothing is left behind if the process is killed."""
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115  # closing it may fail once more where there is no room
    except OSError as error:
        raise _no_room(error) from None
    try:
        yield file
    finally:
        with suppress(OSError):  # the error of writing was raised already
            file.close()


def _no_room(error: Exception) -> Exception:
    if not isinstance(error, OSError):
        return error
    return TransientError(
        f"the folder for temporary files, {tempfile.tempdir}, cannot be written ({error.strerror}): set TMPDIR to one "
        "with room for a shard per task, and run the same command again"
    )


def _unwritten(location: str, error: OSError) -> TransientError:
    return TransientError(
        f"the index of {shown_path(location)} cannot be written ({error.strerror}): the shards "
        "that are there are whole, so mend it and run the same command again"
    )
