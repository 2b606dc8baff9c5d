"""A file that is being written, with errors that explain the cause."""

import io
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol


class Sink(Protocol):
    """The target of writes: a file of this machine, or a writer of a store."""

    def write(self, data: Any, /) -> object:
        """Write all bytes."""


class Output(io.BufferedIOBase, BinaryIO):
    """A file for sequential writes that counts bytes and explains errors; it has what pyarrow's writers need.

    Args:
        sink: Target of the bytes. It is not closed with this file.
        explain: Returns the error to raise for an error of the sink.
    """

    def __init__(self, sink: Sink, explain: Callable[[Exception], Exception]) -> None:
        self._sink, self._explain = sink, explain
        self._num_bytes = 0

    def write(self, data: Any, /) -> int:
        """Write bytes, or any object with a buffer."""
        try:
            self._sink.write(data)
        except Exception as error:  # noqa: BLE001  # errors of stores have no other common base
            raise self._explain(error) from None
        length = memoryview(data).nbytes
        self._num_bytes += length
        return length

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._num_bytes

    def writable(self) -> bool:
        """Return True."""
        return True
