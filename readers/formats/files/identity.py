"""What identifies data in which one indexed file names others: its content, and the sizes of some of them."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from readers.formats.files.beside import FilesBelow
from readers.sample import BadSample, Sample
from readers.storage.blob import open_blob
from readers.storage.blob.content_hash import pin_content
from readers.storage.shards import ShardDataset
from readers.storage.unreadable import lasting, unreadable

_NUM_SIZES = 4096  # files whose sizes count: of 10 million on a network disk all would take hours


def begin_identity(
    stored: ShardDataset, files: FilesBelow, name_of: Callable[[Sample | BadSample], str | None]
) -> Any:
    """Return a digest over an indexed file's name and content, and the sizes of 4096 files, spread evenly, that it names.

    Args:
        stored: The entries of the file.
        files: The files that they name.
        name_of: Returns the name of an entry's file, None where it has none.

    Raises:
        SourceError: The indexed file cannot be read.
        TransientError: The storage failed: what cannot be read at the moment must not become part of an identity.
    """
    digest = hashlib.sha256(stored.fingerprint.encode())
    with unreadable(str(stored.shards[0])):
        digest.update(pin_content(open_blob(stored.shards[0])).encode())
    count = len(stored)
    rows = np.unique(np.linspace(0, count - 1, min(count, _NUM_SIZES)).astype(np.int64))
    entries = lasting(stored.fetch(rows))
    names = [name for entry in entries if (name := name_of(entry)) is not None]
    digest.update(repr(files.sizes(names)).encode())
    return digest
