"""A file that is being written, whose errors are sentences."""

import io
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol


class Sink(Protocol):
    """What takes bytes: a file of this machine, or a writer of a store."""

    def write(self, data: Any, /) -> object:
        """Take all of it."""


class Output(io.BufferedIOBase, BinaryIO):
    """Writes forward alone, counts, and explains what goes wrong; enough of a file for pyarrow's writers.

    Args:
        sink: Takes the bytes. It is not closed with this.
        explain: Makes the error to raise of one of the sink.
    """

    def __init__(self, sink: Sink, explain: Callable[[Exception], Exception]) -> None:
        self._sink, self._explain = sink, explain
        self._num_bytes = 0

    def write(self, data: Any, /) -> int:
        """Take bytes, or anything with a buffer."""
        try:
            self._sink.write(data)
        except Exception as error:  # noqa: BLE001  # a store's have no common base but this
            raise self._explain(error) from None
        length = memoryview(data).nbytes
        self._num_bytes += length
        return length

    def tell(self) -> int:
        """How much has been written."""
        return self._num_bytes

    def writable(self) -> bool:
        """It is."""
        return True
