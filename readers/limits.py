"""How much memory one sample, or one unit that is decompressed as a whole, may take."""

import os

from readers.sample import SourceError

VARIABLE = "GPU_AUG_MAX_SAMPLE_BYTES"
MAX_SAMPLE_BYTES = 512 << 20  # an image of 100 megapixels has 300 MB


class TooLargeError(ValueError):
    """Something would take more memory than is allowed; the text says what, how much and what to do."""


def max_sample_bytes() -> int:
    """Return the limit: the environment variable ``GPU_AUG_MAX_SAMPLE_BYTES``, or 512 MiB.

    It holds for what is copied or decompressed into memory: a sample, a column of a row group of Parquet, a page,
    a record batch, a chunk of HDF5, a member of a compressed tar, a line of a manifest. What is handed out as a
    view into a file takes no memory and has no limit. Child processes inherit it.

    Raises:
        SourceError: The variable holds no whole number above 0.
    """
    text = os.environ.get(VARIABLE)
    if text is None:
        return MAX_SAMPLE_BYTES
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text)):
        raise SourceError(f"{VARIABLE} must be a whole number of bytes above 0, got {text!r}")
    return int(text)


def check_bytes(num_bytes: int, what: str) -> None:
    """See that something may be taken into memory, before it is.

    Args:
        num_bytes: That it would take.
        what: It is, with its article: "a page".

    Raises:
        TooLargeError: It is more than `max_sample_bytes`.
    """
    limit = max_sample_bytes()
    if num_bytes > limit:
        raise TooLargeError(
            f"{what} would take {num_bytes} bytes of memory, more than {limit}: if it is meant to, set "
            f"{VARIABLE}={num_bytes}"
        )
