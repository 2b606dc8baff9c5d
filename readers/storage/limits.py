"""Limit the memory that one sample, or another unit that is decompressed as a whole, may take."""

import errno
import os
from functools import lru_cache

from readers.sample import SourceError

VARIABLE = "GPU_AUG_MAX_SAMPLE_BYTES"
"""Name of the environment variable that sets the limit."""
MAX_SAMPLE_BYTES = 512 << 20
"""The limit if the variable is not set: enough for the pixels of an image of 100 megapixels, which are 300 MB."""


class TooLargeError(OSError, ValueError):
    """An object would take more memory than allowed; the text names the object, its size, and the remedy.

    It is an OSError for code that reads files, and a ValueError for code that parses bytes, so that both handle it.
    """

    def __str__(self) -> str:
        return str(self.strerror)


def max_sample_bytes() -> int:
    """Return the limit of one object in bytes: the environment variable ``GPU_AUG_MAX_SAMPLE_BYTES``, or 512 MiB.

    It applies to each object that is copied or decompressed into memory: a sample and each of its files and fields, a column
    of a row group of Parquet, a page, a record batch, a chunk of HDF5, a member of a tar, a line of a manifest. Descriptions,
    tables and lists of a whole dataset may take eight times as much. Videos in local files are read in parts and
    have no limit. Child processes inherit the variable.

    Raises:
        SourceError: The variable is not a positive integer.
    """
    return bytes_from_environment(VARIABLE, MAX_SAMPLE_BYTES)


def bytes_from_environment(name: str, default: int, *, least: int = 1) -> int:
    """Return the number of bytes that an environment variable gives.

    Args:
        name: Name of the variable.
        default: The result if the variable is not set, or empty.
        least: Smallest allowed number.

    Raises:
        SourceError: The variable is not an integer of at least `least`.
    """
    text = os.environ.get(name)
    return _parse(name, text, least) if text else default


@lru_cache(16)
def _parse(name: str, text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) >= least):
        raise SourceError(
            f"the environment variable {name} is {text!r}: set it to a whole number of bytes from {least} on, "
            "such as 1048576, or unset it"
        )
    return int(text)


def check_bytes(num_bytes: int, what: str, *, times: int = 1) -> None:
    """Check that an object may be read into memory.

    Args:
        num_bytes: Number of bytes that the object would take.
        what: Name of the object with its article, for the error: "a page".
        times: Factor by which the limit is multiplied, for descriptions of a whole dataset.

    Raises:
        TooLargeError: The object takes more than `times` the limit, `max_sample_bytes`.
    """
    limit = times * max_sample_bytes()
    if num_bytes > limit:
        raise TooLargeError(
            errno.EFBIG,
            f"{what} would take {num_bytes} bytes of memory, more than {limit}: if it is meant to, set "
            f"{VARIABLE}={-(-num_bytes // times)}",
        )
