"""Build and publish the missing indexes of many shards in parallel or on other machines, and report the progress."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from readers.sample import IndexFileError, ReadersError
from readers.storage.blob import Blob, is_url, open_blob
from readers.storage.index.find_or_build import FoundIndex, find_index, location_beside, open_index
from readers.storage.index.index_file import Head
from readers.storage.index.scan import Scan
from readers.storage.parallel_open import on_all
from readers.storage.paths import shown_path


def publish_index(blob: Blob, scan: Scan, found: FoundIndex) -> bool:
    """Upload the index of an object next to it, unless an equal index is there; return whether it was uploaded.

    Args:
        blob: The object, a shard.
        scan: Finds the samples in the shard.
        found: The index of the shard, in a local file.

    Raises:
        IndexFileError: The index cannot be uploaded.
    """
    from readers.storage.remote.files import open_remote
    from readers.storage.remote.options import Address, options_of
    from readers.storage.remote.requests import Connection, attempt

    location = location_beside(blob.location, scan)
    with suppress(ReadersError, OSError, ValueError):  # a file that cannot be read is replaced
        there = open_remote(location)
        if there.size_bytes == found.head.file_bytes:
            [head] = there.read_exactly([(0, found.head.start)])
            if Head.mark_of(memoryview(head)) == found.head.mark:
                return False
    options = options_of(location, None)
    address = Address.of(location)
    connection = Connection(address, options)
    try:
        attempt(lambda: connection.put(address.path, found.path), location, options)
    except (OSError, ReadersError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise IndexFileError(
            f"the index of {shown_path(blob.location)} cannot be put beside it ({reason}): use credentials that may "
            "write there, or index on one machine without --publish"
        ) from None
    return True


_builder: ContextVar["Builder | None"] = ContextVar("builder", default=None)

Run = Callable[[Callable[[int], bool], Sequence[int]], Iterator[tuple[int, bool]]]
"""A function that calls a given function for each of some numbers, and yields pairs of number and result, in any order.

It may leave out numbers, which other machines then process.
"""


class LackingIndexError(Exception):
    """Some shards have no index yet because other machines build it, so the dataset cannot be opened now."""


@dataclass(frozen=True)
class BuildIndex:
    """A picklable function that builds the index of one of several shards.

    Attributes:
        locations: Path or URL of every shard.
        scan: Finds the samples in a shard.
        beside: Whether the index must be next to the shard, where other machines find it; the cache folder is not enough.
        publish: Whether to upload the index of a shard in an object store next to the shard.
    """

    locations: tuple[str, ...]
    scan: Scan
    beside: bool = False
    publish: bool = False

    def __call__(self, number: int) -> bool:
        """Build the index of a shard if it has none, and return whether it was built now.

        Args:
            number: Index of the shard in `locations`.

        Raises:
            IndexFileError: The index cannot be written where it must be.
            SourceError: The shard is missing, or not of the expected format.
        """
        location = self.locations[number]
        blob = open_blob(location)
        found = open_index(blob, self.scan)
        if self.publish and is_url(location):
            publish_index(blob, self.scan, found)
        if self.beside and not is_url(location) and found.path.parent != Path(location).parent:
            raise IndexFileError(
                f"the index of {location} cannot be written beside it, where other machines find it: make its folder "
                "writable, or index it on one machine"
            )
        return found.built


@dataclass
class Builder:
    """Builds the missing indexes of datasets that are opened within `build_indexes`.

    Attributes:
        run: Carries out the building, in parallel or on other machines; see `Run`.
        on_found: Called with the number of shards and their size in bytes before they are indexed.
        on_index: Called with each shard and its index, in any order.
        elsewhere: Whether other machines take part, so that indexes must be next to their shards, where all find them.
        publish: Whether to upload indexes of shards in object stores next to the shards.
        found: Pairs of a shard and its index, for all shards that have one.
        lacking: Paths or URLs of shards without an index, which other machines build.
    """

    run: Run
    on_found: Callable[[int, int], None]
    on_index: Callable[[Blob, FoundIndex], None]
    elsewhere: bool = False
    publish: bool = False
    found: list[tuple[Blob, FoundIndex]] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)

    def build(self, blobs: list[Blob], scan: Scan) -> list[FoundIndex]:
        """Return the index of each shard, after building those that are missing.

        Raises:
            LackingIndexError: Some indexes are left to other machines.
            IndexFileError: An index cannot be written where other machines find it.
        """
        self.on_found(len(blobs), sum(blob.size_bytes for blob in blobs))
        indexes = dict(enumerate(on_all(lambda blob: find_index(blob, scan), blobs)))
        for number, index in indexes.items():
            self._report(blobs[number], index)
        lacking = [number for number, index in indexes.items() if index is None]
        locations = tuple(blob.location for blob in blobs)
        # An index on this machine may be missing next to its object.
        unsure = [number for number in indexes if self.publish and is_url(locations[number])]
        if numbers := sorted({*lacking, *unsure}):
            self._require_shared([locations[number] for number in lacking])
            build = BuildIndex(locations, scan, self.elsewhere, self.publish)
            for number, built in self.run(build, numbers):
                if indexes[number] is None:
                    indexes[number] = open_index(blobs[number], scan)._replace(built=built)
                    self._report(blobs[number], indexes[number])
        self.lacking += [locations[number] for number in lacking if indexes[number] is None]
        if self.lacking:
            raise LackingIndexError
        return [index for index in indexes.values() if index is not None]

    def _require_shared(self, locations: list[str]) -> None:
        urls = [location for location in locations if is_url(location)]
        if urls and self.elsewhere and not self.publish:
            raise IndexFileError(
                f"the index of {shown_path(urls[0])} would stay on the machine that builds it: add --publish "
                "(publish=True), which puts each index beside its shard, or index on one machine"
            )

    def _report(self, blob: Blob, index: FoundIndex | None) -> None:
        if index is not None:
            self.found.append((blob, index))
            self.on_index(blob, index)


@contextmanager
def build_indexes(
    run: Run,
    *,
    on_found: Callable[[int, int], None] = lambda *_: None,
    on_index: Callable[[Blob, FoundIndex], None] = lambda *_: None,
    elsewhere: bool = False,
    publish: bool = False,
) -> Iterator[Builder]:
    """Let `run` build the missing indexes of datasets that are opened in the with block.

    with build_indexes(run) as builder:
        open_dataset("train-{000000..000999}.tar")
    print(len(builder.found))

    Args:
        run: Carries out the building, in parallel or on other machines; see `Run`.
        on_found: Called with the number of shards and their size in bytes before they are indexed.
        on_index: Called with each shard and its index, in any order.
        elsewhere: Whether other machines take part, so that indexes must be next to their shards.
        publish: Whether to upload indexes of shards in object stores next to the shards.
    """
    builder = Builder(run, on_found, on_index, elsewhere, publish)
    token = _builder.set(builder)
    try:
        yield builder
    finally:
        _builder.reset(token)


def current_builder() -> Builder | None:
    """Return the builder of the innermost `build_indexes` block; None outside of such a block."""
    return _builder.get()
