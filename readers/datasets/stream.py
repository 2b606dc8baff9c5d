"""Streams: datasets without random access, made of shards that are read from front to back."""

from collections.abc import Iterator
from typing import Literal, Protocol, TypeGuard

from readers.sample import BadSample, Sample, SourceError

Divide = Literal["shards", "samples"]
DIVISIONS: tuple[Divide, ...] = ("shards", "samples")


class Stream(Protocol):
    """A dataset without random access; `open_dataset(..., format="stream")` and `from_webdataset` return one.

    Attributes:
        samples_per_epoch: Number of samples in an epoch, over all ranks; None takes all samples.
        divide: How the ranks of a run share the data: with "shards" each rank reads its own shards, with "samples" each
            rank reads all shards and keeps only its samples.
        divides_itself: Whether the stream already gives the process of each rank different samples, so that `divide` is
            not used.
    """

    samples_per_epoch: int | None
    divide: Divide
    divides_itself: bool

    @property
    def fingerprint(self) -> str:
        """32 hex digits that identify the data, over facts that are known without reading the shards."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class number; empty if the data does not name its classes."""

    @property
    def num_shards(self) -> int:
        """Number of shards, at least 1."""

    def read_shard(self, number: int, epoch: int = 0) -> Iterator[Sample | BadSample]:
        """Yield the samples of a shard from its beginning; their `index` counts from 0, including bad samples.

        Args:
            number: Index of the shard, 0 <= number < num_shards.
            epoch: Number of the epoch, for streams that shuffle themselves.
        """


def is_stream(dataset: object) -> TypeGuard[Stream]:
    """Return whether an object is a `Stream`: it has `read_shard` but no `fetch`."""
    return not hasattr(dataset, "fetch") and hasattr(dataset, "read_shard")


def checked_epoch(samples_per_epoch: int | None) -> int | None:
    """Return `samples_per_epoch` unchanged, after checking it.

    Raises:
        SourceError: `samples_per_epoch` is neither None nor an integer of 1 or more.
    """
    if samples_per_epoch is None:
        return None
    if type(samples_per_epoch) is not int or samples_per_epoch < 1:
        raise SourceError(
            f"{samples_per_epoch=} is not allowed: give a whole number of 1 or more, or leave it out"
        )
    return samples_per_epoch


def checked_division(divide: str) -> Divide:
    """Return `divide` unchanged, after checking it.

    Raises:
        SourceError: `divide` is neither "shards" nor "samples".
    """
    for known in DIVISIONS:
        if divide == known:
            return known
    raise SourceError(f'{divide=} is not known: give "shards" or "samples"')
