"""Open the shards of a dataset, remote shards in parallel."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from readers.sample import PathLike, SourceError
from readers.storage.blob import Blob, is_url, open_blob

MOST_THREADS = 16
"""Number of threads that wait for a server: enough to hide the latency of requests, few enough for the server's limits."""


def open_all(shards: Sequence[PathLike]) -> list[Blob]:
    """Open the shards of a dataset, and return them in the order of their paths or URLs.

    Raises:
        SourceError: The list is empty, or a shard does not exist.
    """
    if not shards:
        raise SourceError("the list of shards is empty: give at least one")
    missing = [shard for shard in shards if not is_url(shard) and not Path(shard).is_file()]
    if missing:
        raise SourceError(
            f"{Path(missing[0]).absolute()} is not a file ({len(missing)} of {len(shards)} shards are "
            "missing): correct the pattern or the list"
        )
    return on_all(open_blob, shards)


def on_all(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call a function for every shard, in parallel if some are remote, and return the results in order.

    Args:
        work: The function.
        items: The shards, as paths, URLs or blobs.
    """
    locations = [
        item if isinstance(item, (str, Path)) else getattr(item, "location", "") for item in items
    ]
    if len(items) > 1 and any(map(is_url, locations)):
        with ThreadPoolExecutor(min(len(items), MOST_THREADS)) as pool:
            return list(pool.map(work, items))
    return [work(item) for item in items]
