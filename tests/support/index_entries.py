"""The samples of an index in the form in which a scan gave them."""

from readers.storage.index import Entry, ShardIndex


def entry_of(index: ShardIndex, row: int) -> Entry:
    """Return one sample.

    Raises:
        DamagedFileError: A checksum does not match.
    """
    [found] = index.rows([row])
    key, names, bounds, label, size, fault, restarts, image_field = found
    members = tuple(zip(names, bounds[::2], bounds[1::2], strict=True))
    return Entry(key, members, label, size, fault, restarts, image_field)
