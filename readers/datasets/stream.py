"""Data that can only be read from front to back: shards of samples, each read forward."""

from collections.abc import Iterator
from typing import Literal, Protocol, TypeGuard

from readers.sample import BadSample, Sample, SourceError

Divide = Literal["shards", "samples"]
DIVISIONS: tuple[Divide, ...] = ("shards", "samples")


class Stream(Protocol):
    """Shards that are read forward; `open_dataset(..., format="stream")` and `from_webdataset` return one.

    Attributes:
        samples_per_epoch: Samples of an epoch, over all ranks; None takes all samples.
        divide: Unit in which the ranks of a run divide the data: "shards", or "samples", of which each rank reads all and
            keeps its own.
        divides_itself: Whether the stream gives each rank's process different samples already.
    """

    samples_per_epoch: int | None
    divide: Divide
    divides_itself: bool

    @property
    def fingerprint(self) -> str:
        """32 hex digits like `readers.Dataset.fingerprint`, over what is known without reading."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class number, empty when the data does not name its classes."""

    @property
    def num_shards(self) -> int:
        """Number of shards, at least 1."""

    def read_shard(self, number: int, epoch: int = 0) -> Iterator[Sample | BadSample]:
        """Read a shard from its beginning; `index` counts its samples, bad ones among them.

        Args:
            number: 0 <= number < num_shards.
            epoch: Number of the epoch, for streams that shuffle themselves.
        """


def is_stream(dataset: object) -> TypeGuard[Stream]:
    """Return whether something is read forward only."""
    return not hasattr(dataset, "fetch") and hasattr(dataset, "read_shard")


def checked_epoch(samples_per_epoch: int | None) -> int | None:
    """Return the samples of an epoch.

    Raises:
        SourceError: It is not a whole number of 1 or more.
    """
    if samples_per_epoch is None:
        return None
    if type(samples_per_epoch) is not int or samples_per_epoch < 1:
        raise SourceError(
            f"{samples_per_epoch=} is not allowed: give a whole number of 1 or more, or leave it out"
        )
    return samples_per_epoch


def checked_division(divide: str) -> Divide:
    """Return the unit in which ranks divide a stream.

    Raises:
        SourceError: There is no such unit.
    """
    for known in DIVISIONS:
        if divide == known:
            return known
    raise SourceError(f'{divide=} is not known: give "shards" or "samples"')
