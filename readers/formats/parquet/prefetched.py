"""Parts of a remote file, fetched once and shared by several readers."""

from bisect import bisect_right
from collections.abc import Sequence

from readers.formats.parquet.pages import Read
from readers.sample import Payload
from readers.storage.blob import Blob, LocalBlob
from readers.storage.limits import check_bytes


def hold(blob: Blob, ranges: Sequence[tuple[int, int]]) -> Read:
    """Return how to read a file, of which these half-open ranges are fetched at once if it is far.

    What lies elsewhere is fetched when it is asked for.

    Raises:
        TooLargeError: They would take too much memory.
        OSError: See `Blob.read`.
    """
    if isinstance(blob, LocalBlob):
        return blob.read
    check_bytes(sum(stop - start for start, stop in ranges), "what is stored of it")
    ranges = sorted(ranges)
    starts, held = [start for start, _ in ranges], blob.read(ranges)

    def part(start: int, stop: int) -> Payload:
        number = bisect_right(starts, start) - 1
        if number >= 0 and stop <= ranges[number][1]:
            return held[number][start - starts[number] : stop - starts[number]]
        return blob.read([(start, stop)])[0]

    return lambda wanted: [part(start, stop) for start, stop in wanted]
