"""Reading a large file from front to back, on the storage where samples have a file each."""

import os
import tempfile
import time
from pathlib import Path

from bench.tune.storage_cold import Chill, drop_pages

_MOST_BYTES = 64 << 20
_READ_BYTES = 4 << 20


def read_big(chill: Chill, seconds: float) -> tuple[float | None, str]:
    """Write a file of the samples' bytes beside the temporary files, and read it from front to back.

    Args:
        chill: The files of the samples.
        seconds: Stop writing after so long.

    Returns:
        Bytes per second, None where it was not measured; and why not.
    """
    if not chill.one_file_each:
        return None, "samples have no files of their own"
    try:
        with tempfile.NamedTemporaryFile(prefix="gpu-aug-tune-") as file:
            if os.fstat(file.fileno()).st_dev != chill.files[0].stat().st_dev:
                folder = Path(file.name).parent
                return (
                    None,
                    f"{folder} is on another file system than the data: set TMPDIR to a folder beside them",
                )
            size = _fill(file.fileno(), chill, seconds)
            drop_pages([Path(file.name)])
            began = time.perf_counter()
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            while os.read(file.fileno(), _READ_BYTES):
                pass
            return size / (time.perf_counter() - began), ""
    except OSError as error:
        return None, f"a large file cannot be written for it: {error.strerror}"


def _fill(descriptor: int, chill: Chill, seconds: float) -> int:
    """Write the samples one after the other, over and over; return the bytes."""
    size, until = 0, time.monotonic() + seconds
    while size < _MOST_BYTES and time.monotonic() < until:
        before = size
        for path in chill.files:
            size += os.write(descriptor, path.read_bytes())
            if size >= _MOST_BYTES or time.monotonic() >= until:
                break
        if size == before:  # nothing but empty files
            break
    os.fsync(descriptor)
    return size
