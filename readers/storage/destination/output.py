"""A file object for writing that replaces errors by ones that explain the cause."""

import io
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol


class Sink(Protocol):
    """The target of an `Output`: a local file, or the writer of an object store."""

    def write(self, data: Any, /) -> object:
        """Write all bytes."""


class Output(io.BufferedIOBase, BinaryIO):
    """A file object for sequential writes, which counts bytes and replaces errors; pyarrow's writers can use it.

    Args:
        sink: Target of the bytes; it is not closed with this file.
        explain: Returns the error to raise, given an error of the sink.
    """

    def __init__(self, sink: Sink, explain: Callable[[Exception], Exception]) -> None:
        self._sink, self._explain = sink, explain
        self._num_bytes = 0

    def write(self, data: Any, /) -> int:
        """Write bytes, or any object with a buffer; return their number."""
        try:
            self._sink.write(data)
        except Exception as error:  # noqa: BLE001  # errors of stores have no other common base
            raise self._explain(error) from None
        length = memoryview(data).nbytes
        self._num_bytes += length
        return length

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._num_bytes

    def writable(self) -> bool:
        """Return True, as the file can be written to."""
        return True
