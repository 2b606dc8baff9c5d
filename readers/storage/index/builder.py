"""Building the indexes of many shards in several processes, and reporting each."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from multiprocessing import get_context

from readers.storage.blob import Blob, open_blob
from readers.storage.index.find_or_build import FoundIndex, find_index, open_index
from readers.storage.index.scan import Scan

_builder: ContextVar["Builder | None"] = ContextVar("builder", default=None)


@dataclass
class Builder:
    """Builds missing indexes when datasets are opened within `build_indexes`.

    Attributes:
        num_workers: Processes.
        on_found: Called with the number of shards and their size in bytes before they are indexed.
        on_index: Called with each shard and its index, in no order.
        found: All of them.
    """

    num_workers: int
    on_found: Callable[[int, int], None]
    on_index: Callable[[Blob, FoundIndex], None]
    found: list[tuple[Blob, FoundIndex]] = field(default_factory=list)

    def build(self, blobs: list[Blob], scan: Scan) -> list[FoundIndex]:
        """Return the index of each shard."""
        self.on_found(len(blobs), sum(blob.size_bytes for blob in blobs))
        indexes = {number: find_index(blob, scan) for number, blob in enumerate(blobs)}
        for number, index in indexes.items():
            self._tell(blobs[number], index)
        lacking = [number for number, index in indexes.items() if index is None]
        if lacking:
            # Not forked: the command's threads would be in the middle of something.
            context = get_context("spawn")
            pool = ProcessPoolExecutor(min(self.num_workers, len(lacking)), context)
            try:
                futures = {
                    pool.submit(_build_one, blobs[number].location, scan): number
                    for number in lacking
                }
                for future in as_completed(futures):
                    number, built = futures[future], future.result()
                    indexes[number] = open_index(blobs[number], scan)._replace(built=built)
                    self._tell(blobs[number], indexes[number])
            finally:
                pool.shutdown(cancel_futures=True)
        return [index for index in indexes.values() if index is not None]

    def _tell(self, blob: Blob, index: FoundIndex | None) -> None:
        if index is not None:
            self.found.append((blob, index))
            self.on_index(blob, index)


@contextmanager
def build_indexes(
    num_workers: int,
    *,
    on_found: Callable[[int, int], None] = lambda *_: None,
    on_index: Callable[[Blob, FoundIndex], None] = lambda *_: None,
) -> Iterator[Builder]:
    """Let datasets that are opened within build what indexes they lack in several processes.

    with build_indexes(8) as builder:
        open_dataset("train-{000000..000999}.tar")
    print(len(builder.found))

    A program that does so at its top level must be guarded by ``if __name__ == "__main__"``, since its
    processes import it.
    """
    builder = Builder(num_workers, on_found, on_index)
    token = _builder.set(builder)
    try:
        yield builder
    finally:
        _builder.reset(token)


def current_builder() -> Builder | None:
    """The builder of the enclosing `build_indexes`, if any."""
    return _builder.get()


def _build_one(location: str, scan: Scan) -> bool:
    return open_index(open_blob(location), scan).built
