"""Compressed files of known size, decompressed once into the cache folder."""

import bz2
import errno
import gzip
import hashlib
import io
import os
import zlib
from pathlib import Path
from typing import IO, Any

from readers.formats.registry import require
from readers.sample import Payload, SourceError
from readers.storage.blob import Blob, LocalBlob
from readers.storage.blob.mapped import copied
from readers.storage.cache_folder import cache_folder
from readers.storage.limits import check_bytes
from readers.storage.lock import one_at_a_time

_BY_PYARROW = {"zstd": "zstd", "br": "brotli", "snappy": "snappy"}
_MOST_BYTES = 1 << 32  # the offsets in a shard have 32 bits
COMPRESSIONS = ("gz", "bz2", *_BY_PYARROW)
_STEP_BYTES = 1 << 20


def check_compression(compression: str, source: str) -> None:
    """See that a compression can be undone here.

    Raises:
        SourceError: It is not known, or its package is missing.
    """
    if compression not in COMPRESSIONS:
        raise SourceError(
            f"{source} is compressed with {compression or 'nothing known'}: {', '.join(COMPRESSIONS)} are read, "
            "decompress it"
        )
    if compression in _BY_PYARROW:
        require("pyarrow", extra="arrow")


def unpacked(packed: Blob, compression: str, num_bytes: int) -> LocalBlob:
    """Return the decompressed file, which lies in ``$GPU_AUG_CACHE`` (``~/.cache/gpu-aug``).

    The first process that wants it makes it, in one step, and the others wait. The file stays: remove
    the folder ``unpacked`` there when the space is needed.

    Args:
        packed: The compressed file.
        compression: One of `COMPRESSIONS`.
        num_bytes: Size of the content; a file that holds more or less is an error.

    Raises:
        OSError: It cannot be read or written, or is not what it says; its strerror says why.
    """
    path = _path_of(packed)
    if not path.exists():
        with one_at_a_time(path.with_name(f"{path.name}.part")) as descriptor:
            if not path.exists():
                with os.fdopen(os.dup(descriptor), "r+b") as file:
                    file.truncate()
                    _unpack(packed, compression, num_bytes, file)
                path.with_name(f"{path.name}.part").rename(path)
    return LocalBlob(path)


def _stream(compression: str, data: Payload) -> Any:
    """Return a file that decompresses as it is read, so that little of it is in memory at a time."""
    if compression in _BY_PYARROW:
        pa = require("pyarrow", extra="arrow")
        return pa.CompressedInputStream(
            pa.BufferReader(pa.py_buffer(data)), _BY_PYARROW[compression]
        )
    opened = gzip.open if compression == "gz" else bz2.open
    return opened(io.BytesIO(data))


def _path_of(packed: Blob) -> Path:
    name = hashlib.sha256(os.fsencode(f"{packed.location}\n{packed.stamp}")).hexdigest()[:32]
    return cache_folder() / "unpacked" / name


def _unpack(packed: Blob, compression: str, num_bytes: int, file: IO[bytes]) -> None:
    if num_bytes > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"no shard has {num_bytes} bytes")
    (data,) = map(copied, packed.read([(0, packed.size_bytes)]))
    try:
        if compression == "snappy":  # there are no streams of it
            check_bytes(num_bytes, "it")
            file.write(
                require("pyarrow", extra="arrow").Codec("snappy").decompress(data, num_bytes)
            )
        else:
            with _stream(compression, data) as stream:
                left = num_bytes + 1  # no more than one byte too many is ever written
                while left and (piece := stream.read(min(left, _STEP_BYTES))):
                    file.write(piece)
                    left -= len(piece)
    except (ValueError, EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise OSError(
            errno.EINVAL, f"it is no {compression} file, or a damaged one ({error})"
        ) from None
    if file.tell() != num_bytes:
        raise OSError(errno.EINVAL, f"it does not hold the {num_bytes} bytes that it should")
    file.flush()
    os.fsync(file.fileno())
