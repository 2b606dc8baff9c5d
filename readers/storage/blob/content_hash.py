"""Hash a large file without reading all of it, to identify its content."""

import hashlib

from readers.storage.blob.blob import Blob

_WHOLE_BYTES = 1 << 20
"""Files up to this size are hashed completely: they are not longer than all pieces of a larger file together."""
_NUM_PIECES, _PIECE_BYTES = 16, 1 << 16
"""Number and size of the pieces. Indexes store digests over them, so these values must never change."""


def pin_content(blob: Blob) -> str:
    """Return 64 hex digits over the size and the content of a file.

    A file of up to 1 MiB is hashed completely, a larger one in 16 pieces of 64 KiB, evenly spread from the first byte to the
    last one. A change that keeps the size and all pieces is not detected.

    Raises:
        OSError: The file cannot be read.
    """
    size = blob.size_bytes
    ranges = [(0, size)]
    if size > _WHOLE_BYTES:
        steps = range(_NUM_PIECES)
        starts = [(size - _PIECE_BYTES) * step // (_NUM_PIECES - 1) for step in steps]
        ranges = [(start, start + _PIECE_BYTES) for start in starts]
    digest = hashlib.sha256(f"{size}\n".encode())
    for piece in blob.read(ranges):
        digest.update(piece)
    return digest.hexdigest()
