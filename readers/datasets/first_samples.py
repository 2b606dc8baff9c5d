"""Yield a few samples that represent a dataset, for code that decides the kind of data; the first sample alone may be bad."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import cast

from readers.datasets.stream import Stream, is_stream
from readers.sample import BadSample, Dataset, Sample

# If all of these samples are bad, the data itself is at fault; more samples would take minutes over a network.
MOST_PROBED = 100
# Samples of one request. The first sample is requested alone, as it nearly always suffices.
_AT_ONCE = 8


def probed_samples(dataset: Dataset | Stream, most: int = MOST_PROBED) -> Iterator[Sample]:
    """Yield samples that can be read: the first sample of a dataset, then evenly spaced ones; bad samples are skipped.

    Samples are read lazily, so that the caller can stop at the first one that serves.

    Args:
        dataset: A dataset; or a stream, from which the first samples are taken instead of evenly spaced ones.
        most: Largest number of samples to read, including bad ones.
    """
    for entry in _entries(dataset, most):
        if isinstance(entry, Sample):
            yield entry


def _entries(dataset: Dataset | Stream, most: int) -> Iterator[Sample | BadSample]:
    if is_stream(dataset):
        shards = (dataset.read_shard(number) for number in range(dataset.num_shards))
        yield from islice(chain.from_iterable(shards), most)
        return
    indexed = cast(Dataset, dataset)
    length = len(indexed)
    count = min(length, most)
    indices = [number * length // count for number in range(count)]
    for start in (0, *range(1, count, _AT_ONCE)) if count else ():
        yield from indexed.fetch(indices[start : start + _AT_ONCE if start else 1])
