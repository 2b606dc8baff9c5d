"""The order of a stream as states and explanations name it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import LoaderError
from dali_pipes.steps.streams.lane import SHARD_BITS
from dali_pipes.steps.streams.shuffle import DEFAULT_WINDOW, shards_of
from dali_pipes.steps.streams.steps import UNKNOWN
from readers.order import Shuffle
from readers.stream import Stream


@dataclass(frozen=True)
class StreamOrder:
    """The order of a stream's samples, which is known no further than that of its shards.

    Attributes:
        stream: The stream.
        seed: Of the shuffle.
        window: Samples in the shuffle buffer; None leaves shards and samples in their order.
    """

    stream: Stream
    seed: int
    window: int | None

    def __len__(self) -> int:
        return self.stream.samples_per_epoch or UNKNOWN

    @property
    def span(self) -> int:
        """All indices of samples are below it."""
        return self.stream.num_shards << SHARD_BITS

    @property
    def name(self) -> str:
        """The shuffle with its numbers, for states."""
        if self.window is None:
            return "none, read forward"
        return f"block, read forward(shuffle_window={self.window})"

    def places(
        self, epoch: int, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The shards in the order of an epoch, gone round; a check for states, which no sample is looked up by."""
        key = None if self.window is None else (self.seed, epoch, 0)
        shards = np.array(shards_of(self.stream.num_shards, 0, 1, key), np.int64)
        found = shards[positions % len(shards)]
        return found, np.zeros_like(found)


def stream_order(
    stream: Stream, seed: int, shuffle: Shuffle, shuffle_window: int | None
) -> StreamOrder:
    """Return the order of a stream.

    Raises:
        LoaderError: It would need random access.
    """
    if shuffle == "global":
        raise LoaderError(
            f'shuffle="global" needs random access, which {type(stream).__name__} has not: give shuffle="block", which '
            "reads the shards in another order in each epoch and shuffles within a buffer, or "
            '"none"'
        )
    window = None if shuffle == "none" else shuffle_window or DEFAULT_WINDOW
    return StreamOrder(stream, seed, window)
