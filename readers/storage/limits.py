"""The limit of the memory that one sample, or one unit that is decompressed as a whole, may take."""

import errno
import os
from functools import lru_cache

from readers.sample import SourceError

VARIABLE = "GPU_AUG_MAX_SAMPLE_BYTES"
"""Environment variable of the limit."""
MAX_SAMPLE_BYTES = 512 << 20
"""Limit without the variable: an image of 100 megapixels has 300 MB."""


class TooLargeError(OSError, ValueError):
    """Something would take more memory than allowed; the text gives what, how much, and what to do.

    Code that reads files handles it as an OSError of the data, code that parses bytes as a ValueError.
    """

    def __str__(self) -> str:
        return str(self.strerror)


def max_sample_bytes() -> int:
    """Return the limit: the environment variable ``GPU_AUG_MAX_SAMPLE_BYTES``, or 512 MiB.

    It applies to each object that is copied or decompressed into memory: a sample and each of its files and fields, a column
    of a row group of Parquet, a page, a record batch, a chunk of HDF5, a member of a tar, a line of a manifest. Descriptions,
    tables and lists of a whole dataset may take eight times as much. Videos in files of this machine are read in parts and
    have no limit. Child processes inherit the variable.

    Raises:
        SourceError: The variable is no positive integer.
    """
    return bytes_from_environment(VARIABLE, MAX_SAMPLE_BYTES)


def bytes_from_environment(name: str, default: int, *, least: int = 1) -> int:
    """Return the number of bytes in an environment variable.

    Args:
        name: Name of the variable.
        default: Result if it is not set, or empty.
        least: Smallest allowed number.

    Raises:
        SourceError: It holds no integer of at least ``least``.
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
        num_bytes: Bytes that it would take.
        what: Its name with the article: "a page".
        times: Factor of the limit, for descriptions of a whole dataset.

    Raises:
        TooLargeError: It takes more than `max_sample_bytes` times this factor.
    """
    limit = times * max_sample_bytes()
    if num_bytes > limit:
        raise TooLargeError(
            errno.EFBIG,
            f"{what} would take {num_bytes} bytes of memory, more than {limit}: if it is meant to, set "
            f"{VARIABLE}={-(-num_bytes // times)}",
        )
