"""How much memory one sample, or one unit that is decompressed as a whole, may take."""

import errno
import os
from functools import lru_cache

from readers.sample import SourceError

VARIABLE = "GPU_AUG_MAX_SAMPLE_BYTES"
MAX_SAMPLE_BYTES = 512 << 20  # an image of 100 megapixels has 300 MB


class TooLargeError(OSError, ValueError):
    """Something would take more memory than is allowed; the text says what, how much and what to do.

    Whoever reads files handles it as an OSError of the data, whoever parses bytes as a ValueError.
    """

    def __str__(self) -> str:
        return str(self.strerror)


def max_sample_bytes() -> int:
    """Return the limit: the environment variable ``GPU_AUG_MAX_SAMPLE_BYTES``, or 512 MiB.

    It holds for what is copied or decompressed into memory: a sample and each file and field of it, a column of a row
    group of Parquet, a page, a record batch, a chunk of HDF5, a member of a tar, a line of a manifest. Descriptions,
    tables and lists of a whole dataset may take eight times as much. Videos in files of this machine are read by
    parts and have no limit. Child processes inherit it.

    Raises:
        SourceError: The variable holds no whole number above 0.
    """
    return bytes_from_environment(VARIABLE, MAX_SAMPLE_BYTES)


def bytes_from_environment(name: str, default: int, *, least: int = 1) -> int:
    """Return the number of bytes that an environment variable tells.

    Args:
        name: Name of the variable.
        default: Where it is not set, or empty.
        least: Smaller numbers are refused.

    Raises:
        SourceError: It holds no whole number from ``least`` on.
    """
    text = os.environ.get(name)
    return _parsed(name, text, least) if text else default


@lru_cache(16)
def _parsed(name: str, text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) >= least):
        raise SourceError(
            f"the environment variable {name} is {text!r}: set it to a whole number of bytes from {least} on, "
            "such as 1048576, or unset it"
        )
    return int(text)


def check_bytes(num_bytes: int, what: str, *, times: int = 1) -> None:
    """See that something may be taken into memory, before it is.

    Args:
        num_bytes: Bytes that it would take.
        what: It is, with its article: "a page".
        times: How often the limit it may take: what describes a whole dataset is no sample.

    Raises:
        TooLargeError: It is more than `max_sample_bytes`, so many times.
    """
    limit = times * max_sample_bytes()
    if num_bytes > limit:
        raise TooLargeError(
            errno.EFBIG,
            f"{what} would take {num_bytes} bytes of memory, more than {limit}: if it is meant to, set "
            f"{VARIABLE}={-(-num_bytes // times)}",
        )
