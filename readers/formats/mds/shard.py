"""Reading of MDS shards by the offsets in their header; compressed shards are decompressed once into the cache folder."""

import bz2
import errno
import gzip
import hashlib
import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from readers.detect.registry import require
from readers.formats.mds.columns import Plan
from readers.formats.mds.index import NAME, MdsShard, inside
from readers.sample import Payload, SourceError
from readers.storage.atomic_file import build_once
from readers.storage.blob import Blob, LocalBlob, is_url, open_blob
from readers.storage.blob.content_hash import pin_content
from readers.storage.blob.mapped import copied
from readers.storage.cache_folder import path_in_cache
from readers.storage.limits import check_bytes
from readers.storage.unreadable import oserror_as_source_error

_BY_PYARROW = {"zstd": "zstd", "br": "brotli", "snappy": "snappy"}
_MOST_BYTES = 1 << 32  # the offsets in a shard have 32 bits
COMPRESSIONS = ("gz", "bz2", *_BY_PYARROW)
_STEP_BYTES = 1 << 20  # decompressed at a time


def check_compression(compression: str, source: str) -> None:
    """Check that a compression is supported and its package is installed.

    Raises:
        SourceError: The compression is unknown, or its package is missing.
    """
    if compression not in COMPRESSIONS:
        raise SourceError(
            f"{source} is compressed with {compression or 'nothing known'}: {', '.join(COMPRESSIONS)} are read, "
            "decompress it"
        )
    if compression in _BY_PYARROW:
        require("pyarrow", extra="arrow")


def unpacked(packed: Blob, compression: str, num_bytes: int) -> LocalBlob:
    """Decompress a file into ``$GPU_AUG_CACHE`` (default ``~/.cache/gpu-aug``), unless it is there, and return the result.

    The first process that needs the file writes it, while others wait. The file is never removed: remove
    the folder ``unpacked`` to free the space.

    Args:
        packed: The compressed file.
        compression: One of `COMPRESSIONS`.
        num_bytes: Expected size of the decompressed content.

    Raises:
        OSError: The file cannot be read or written, or its content is damaged or has another size; strerror has the reason.
    """
    path = path_in_cache("unpacked", f"{packed.location}\n{packed.stamp}")
    if not path.exists():
        with build_once(path) as part:
            if not path.exists():
                _unpack(packed, compression, num_bytes, part.file)
                part.publish(to_disk=True)
    return LocalBlob(path)


def _stream(compression: str, data: Payload) -> Any:
    """Return a file object that decompresses data while it is read, so that only a small part is in memory."""
    if compression in _BY_PYARROW:
        pa = require("pyarrow", extra="arrow")
        return pa.CompressedInputStream(
            pa.BufferReader(pa.py_buffer(data)), _BY_PYARROW[compression]
        )
    opened = gzip.open if compression == "gz" else bz2.open
    return opened(io.BytesIO(data))


def _unpack(packed: Blob, compression: str, num_bytes: int, file: IO[bytes]) -> None:
    if num_bytes > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"no shard has {num_bytes} bytes")
    (data,) = map(copied, packed.read([(0, packed.size_bytes)]))
    try:
        if compression == "snappy":  # raw Snappy data cannot be decompressed piece by piece
            check_bytes(num_bytes, "it")
            file.write(
                require("pyarrow", extra="arrow").Codec("snappy").decompress(data, num_bytes)
            )
        else:
            with _stream(compression, data) as stream:
                left = num_bytes + 1  # at most one byte too many is written
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


class Shard:
    """One shard, read from its decompressed file if that exists, otherwise from its compressed file.

    A local shard is opened at once, so that a file that replaces it later is noticed. A remote shard is opened at its first
    read.

    Args:
        folder: Path or URL of the MDS folder.
        info: Entry of the shard in index.json.
        plan: Columns of the shard and their roles.

    Raises:
        SourceError: The shard is missing, has another size than in the index, or its compression is not supported.
    """

    def __init__(self, folder: str, info: MdsShard, plan: Plan) -> None:
        self.info, self.plan = info, plan
        is_far = is_url(folder)
        packed = info.packed if is_far or not Path(folder, info.raw.path).exists() else None
        file = packed or info.raw
        self.location, self._is_packed = inside(folder, file.path), packed is not None
        if packed:
            check_compression(info.codec, f"{folder}/{file.path}")
        self._blob = None if is_far else open_blob(self.location)
        if self._blob and self._blob.size_bytes != file.num_bytes:
            raise SourceError(
                f"{self.location} has {self._blob.size_bytes} bytes, and {NAME} says {file.num_bytes}: "
                "copy the folder again"
            )
        self._opened: tuple[Blob, NDArray[np.uint32]] | None = None

    def stored(self) -> Blob:
        """Return the stored file, which may be compressed.

        Raises:
            SourceError: The file is missing.
        """
        return self._blob or open_blob(self.location)

    def identity(self) -> str:
        """Return text for the fingerprint, made of the shard's entry in the index and of parts of its content.

        Raises:
            SourceError: The file cannot be read.
        """
        raw = self.info.raw
        with oserror_as_source_error(self.location):
            content = pin_content(self.stored())
        hashes = sorted((raw.hashes or {}).items())
        return f"{raw.path!r} {raw.num_bytes} {hashes} {self.info.columns}\n{content}\n"

    def read(self, rows: Sequence[int]) -> list[Payload]:
        """Return the stored bytes of samples, b"" for one whose offsets are invalid; views of the mapped file if it is local.

        Args:
            rows: Indices of the samples in the shard.

        Raises:
            OSError: The file cannot be read, or its header differs from the index.
            SourceError: The file is missing.
        """
        blob, offsets = self._open()
        spans = []
        for row in rows:
            start, stop = int(offsets[row]), int(offsets[row + 1])
            fits = offsets.nbytes + 4 <= start <= stop <= blob.size_bytes
            spans.append((start, stop) if fits else (0, 0))
        if isinstance(blob, LocalBlob):  # views of the mapped file, without reading all of it
            view = blob.view()
            return [view[start:stop] for start, stop in spans]
        return blob.read(spans)

    def fill(self, number: int) -> NDArray[np.int64]:
        """Return an array with the value `number` for each sample, int64 [samples].

        The shard is opened for that; see `read` for errors.
        """
        _, offsets = self._open()
        return np.full(len(offsets) - 1, number, np.int64)

    def wrong_hash(self) -> str:
        """Compare the shard's hashes with the index; return a message about one that differs, "" if none does.

        See `read` for errors.
        """
        blob, _ = self._open()
        (content,) = map(copied, blob.read([(0, blob.size_bytes)]))
        for name, expected in (self.info.raw.hashes or {}).items():
            if name not in hashlib.algorithms_available or name.startswith("shake"):
                continue  # the standard library has no xxh64 and the like
            if hashlib.new(name, content).hexdigest() != expected:
                return f"the shard's {name} is not the one that index.json says"
        return ""

    def _open(self) -> tuple[Blob, NDArray[np.uint32]]:
        """Return the decompressed file, and the offsets of its samples and of their end, uint32 [samples + 1]."""
        if self._opened is None:  # several threads may do this at once, with the same result
            blob, num_samples = self.stored(), self.info.num_samples
            if self._is_packed:
                blob = unpacked(blob, self.info.codec, self.info.raw.num_bytes)
            head_bytes = 4 * (num_samples + 2)
            (head,) = map(copied, blob.read([(0, min(head_bytes, blob.size_bytes))]))
            if len(head) < head_bytes or int.from_bytes(head[:4], "little") != num_samples:
                raise OSError(
                    errno.EINVAL,
                    f"it does not begin like an MDS shard with the {num_samples} samples of index.json",
                )
            self._opened = blob, np.frombuffer(head, "<u4", offset=4)
        return self._opened
