"""Upload the index of a shard in an object store next to the shard, where every machine finds it."""

from contextlib import suppress

from readers.sample import IndexFileError, ReadersError
from readers.storage.blob import Blob
from readers.storage.index.find_or_build import FoundIndex, location_beside
from readers.storage.index.index_file import Head
from readers.storage.index.scan import Scan
from readers.storage.paths import shown_path


def publish_index(blob: Blob, scan: Scan, found: FoundIndex) -> bool:
    """Upload the index of an object next to it, unless an equal index is there; return whether it was uploaded.

    Args:
        blob: The object, a shard.
        scan: Finds the samples in the shard.
        found: The index of the shard, in a local file.

    Raises:
        IndexFileError: The index cannot be uploaded.
    """
    from readers.storage.remote.files import open_remote
    from readers.storage.remote.options import Address, options_of
    from readers.storage.remote.requests import Connection, attempt

    location = location_beside(blob.location, scan)
    with suppress(ReadersError, OSError, ValueError):  # a file that cannot be read is replaced
        there = open_remote(location)
        if there.size_bytes == found.head.file_bytes:
            [head] = there.read_exactly([(0, found.head.start)])
            if Head.mark_of(memoryview(head)) == found.head.mark:
                return False
    options = options_of(location, None)
    address = Address.of(location)
    connection = Connection(address, options)
    try:
        attempt(lambda: connection.put(address.path, found.path), location, options)
    except (OSError, ReadersError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise IndexFileError(
            f"the index of {shown_path(blob.location)} cannot be put beside it ({reason}): use credentials that may "
            "write there, or index on one machine without --publish"
        ) from None
    return True
