"""Samples by which the kind of data is decided: never the first one alone, which may be bad."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import cast

from readers.datasets.stream import Stream, is_stream
from readers.sample import BadSample, Dataset, Sample

MOST_PROBED = 100  # a fault that all of these share is one of the data; more would take minutes over a network
_AT_ONCE = 8  # of one request, after the first sample, which nearly always suffices


def probed_samples(dataset: Dataset | Stream, most: int = MOST_PROBED) -> Iterator[Sample]:
    """Yield samples that can be read: the first one, then evenly spaced ones; bad samples are passed over.

    Code that needs an example of the data takes the first of these that serves. Samples are read when they are asked for.

    Args:
        dataset: A dataset, or a stream, of which the first samples are taken.
        most: Number of samples that are read at most, including bad ones.
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
