"""Tar shards in the convention of WebDataset, read at random."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import itemgetter

import numpy as np

from readers.formats.columns import UNREADABLE
from readers.formats.splits import in_order, split_alone
from readers.formats.tar.packed_classes import about_classes, packed_classes
from readers.formats.tar.walk import TarError, stored_files
from readers.formats.tar.webdataset import key_and_field, label_of
from readers.image.header import image_size
from readers.image.restarts import restart_offsets
from readers.sample import PathLike, Payload, SourceError, is_image_field
from readers.storage.blob import Content
from readers.storage.index import Entry, Scan
from readers.storage.shards import ShardDataset

_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, zstd
_BLOCK_BYTES = 512
_LOOKED_AT = 64  # names of a shard


class TarDataset(ShardDataset):
    """Samples in tar shards.

    The files of a sample follow one another in the shard and share their name up to the first
    dot of the base name; the rest, in lower case, is the field: ``n01/10026.jpg`` and
    ``n01/10026.cls`` are the fields jpg and cls of the key ``n01/10026``. The label is the
    integer in the field cls, -1 where there is no such field; one that holds anything else makes a bad sample. A key that comes again after another one begins
    a sample of its own, as for WebDataset; ``gpu-aug index`` counts such keys.

    See `ShardDataset` for how shards are indexed and mapped.

    In a shard that is cut off or damaged the samples before that byte can be read, and one
    BadSample stands for the loss. Nothing but the shard itself is touched: links and devices in
    it are passed over.

    Args:
        shards: Paths or URLs of .tar files, not compressed. The samples follow this order.

    Raises:
        SourceError: A shard is missing, not a tar file, compressed, or holds no samples.
        IndexFileError: No folder for the index can be written to.

    Example:
        >>> TarDataset(["train-000000.tar", "train-000001.tar"])
        TarDataset(20 samples...)
    """

    def __init__(self, shards: Sequence[PathLike]) -> None:
        super().__init__(shards, SCAN)

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """Those that `gpu-aug pack` noted in ``manifest.json`` beside the shards; empty where there is none, or they differ."""
        return packed_classes(self._blobs)

    @property
    def remarks(self) -> tuple[str, ...]:
        """See `IndexedDataset.remarks`; some names in the first shard are looked at."""
        if self._is_remote:
            return ()
        length = len(self._open(0).index)
        rows = np.linspace(0, length - 1, _LOOKED_AT).astype(int).tolist()
        found, _, _ = self._locate(0, rows)
        folders = {folder for row in found for folder in row.key.split("/")[:-1]}
        splits = in_order({split for folder in folders if (split := split_alone(folder))})
        told = []
        if len(splits) > 1:
            told.append(
                f"{self.shards[0]} holds folders of the splits {', '.join(splits)}, and all of it is read as one dataset: write "
                "a tar for each split, or unpack it and say split="
            )
        told += about_classes(self._blobs)
        return (*told, *_about_dots(self.shards[0], found[0].key, found[0].names))


def _about_dots(shard: str, key: str, names: Sequence[str]) -> list[str]:
    """A sentence if samples whose names hold dots may have become one."""
    images = [name for name in names if is_image_field(name)]
    kinds = {re.sub("[0-9]+", "", name) for name in images}  # left.png and right.png are two
    if len(kinds) == len(images) or not all("." in name for name in names):
        return []
    return [
        f"{shard}: the sample {key} has the images {', '.join(images[:3])}{', ...' if images[3:] else ''}, as the key of a sample "
        "ends at the first dot of a name: where they are images of several samples, write names without other dots"
    ]


_File = tuple[str, str, int, int, str]
"""A stored file that belongs to a sample: key, field, start, stop, fault."""


def find_samples(content: Content, name: str) -> Iterator[Entry]:
    """Yield the samples of a shard, in stored order.

    Raises:
        SourceError: It is empty, no tar, compressed, or holds no samples.
    """
    if not len(content):
        raise SourceError(f"{name} is empty (0 bytes): write the shard again")
    entry = None
    for key, files in groupby(_files(content, name), itemgetter(0)):
        entry = _entry(key, list(files), content)
        yield entry
    if entry is None:
        raise SourceError(f"{name} holds no samples: leave it out, or name files KEY.EXTENSION")


def _files(content: Content, shard: str) -> Iterator[_File]:
    end = 0
    try:
        for name, start, stop, is_sparse, end in stored_files(content):  # noqa: B007
            parts = key_and_field(name) if name else None
            if parts is None:
                continue
            fault = ""
            if stop > len(content):
                fault = f"{shard} is cut off at byte {len(content)}, within {name}"
            elif is_sparse:
                fault = f"{shard} stores {name} as a sparse file, which does not lie in one piece"
            yield *parts, start, stop, fault
    except TarError as error:
        if bytes(content[:6]).startswith(_COMPRESSED):
            raise SourceError(
                f"{shard} is compressed: decompress it or run gpu-aug pack, to read at random "
                "(readers.formats.stream reads it from the front to the back)"
            ) from None
        raise SourceError(f"{shard} is not a tar file ({error}): correct the path") from None
    # A header that cannot be read ends the walk like the zeros at the end of an archive do.
    if bytes(content[end : end + _BLOCK_BYTES]).strip(b"\0"):
        fault = f"{shard} is damaged at byte {end}: what lies behind it cannot be found"
        yield f"(byte {end})", "", end, end, fault


def _entry(key: str, files: list[_File], content: Content) -> Entry:
    fields: dict[str, Payload] = {file[1]: content[file[2] : file[3]] for file in files}
    faults = [file[4] for file in files if file[4]]
    if not faults and len(fields) < len(files):
        faults = [f"one of the fields {', '.join(fields)} is stored twice"]
    labels = [file for file in files if file[1] == "cls"]
    label = UNREADABLE  # of a number that is cut off, or there twice
    if len(labels) < 2 and not any(file[4] for file in labels):
        try:
            label = label_of(fields)
        except ValueError as error:
            faults = faults or [str(error)]
    if faults:
        return Entry(key, (), label, fault=faults[0])
    size = restarts = None
    image = next((data for name, data in fields.items() if is_image_field(name)), None)
    if image is not None:
        size, restarts = image_size(image), restart_offsets(image)
    members = tuple([file[1:4] for file in files])
    return Entry(key, members, label, size, restarts=restarts)


SCAN = Scan("tar", 2, find_samples)
"""How the samples of a tar shard are found."""
