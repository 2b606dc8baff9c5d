"""Datasets of WebDataset tar shards, with random access."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import count, groupby
from operator import itemgetter
from typing import Any

import numpy as np

from readers.detect.splits import in_order, split_alone
from readers.formats.columns import UNREADABLE
from readers.formats.tar.dotted import about_dots
from readers.formats.tar.ends import (
    BLOCK_BYTES,
    UNENDED,
    end_fault,
    lost_fields,
    lost_part,
    next_archive,
)
from readers.formats.tar.packed_classes import about_classes, packed_classes
from readers.formats.tar.walk import TarError, stored_files
from readers.formats.tar.webdataset import KeyRule, checked_rule, key_and_field, label_of
from readers.image.header import image_size
from readers.image.restarts import restart_offsets
from readers.sample import PathLike, Payload, SourceError, is_image_field
from readers.storage.blob import Content
from readers.storage.index import Entry, Remark, Scan
from readers.storage.shards import ShardDataset

_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, zstd
_LOOKED_AT = 64  # keys of the first shard that are checked for names of splits


class TarDataset(ShardDataset):
    """Samples in tar shards.

    The files of a sample follow one another in the shard and share their name up to the first
    dot of the base name; the rest, in lower case, is the field: ``n01/10026.jpg`` and
    ``n01/10026.cls`` are the fields jpg and cls of the key ``n01/10026``. The label is the
    integer in the field cls, -1 without such a field; a field cls that holds anything else makes a bad sample. If a key
    occurs again after another key, it begins a new sample, as in WebDataset; a warning states the number of such samples.

    See `ShardDataset` for how shards are indexed and mapped.

    In a truncated or damaged shard the samples before the damage can be read, and one
    BadSample stands for all later ones. A shard that ends after a complete file, but without the zero blocks of a finished
    tar, may have been truncated there: opening it warns, and its last sample is bad if it lacks a field that all others have.
    Archives that were joined by ``cat`` are read to the end of the last one.

    Links are followed only within the shard; a link to another place makes a bad sample. Devices are skipped.

    Args:
        shards: Paths or URLs of uncompressed .tar files. The samples follow this order.
        keys: Where the key ends in a name with several dots: "first-dot", or "last-dot", by which ``a.v1.png`` and
            ``a.v1.cls`` are the fields png and cls of the key ``a.v1``.

    Raises:
        SourceError: A shard is missing, compressed or not a tar file, or holds no samples.
        IndexFileError: No folder for the index file can be written to.

    Example:
        >>> TarDataset(["train-000000.tar", "train-000001.tar"])
        TarDataset(20 samples...)
    """

    has_shard_keys = True

    def __init__(self, shards: Sequence[PathLike], *, keys: KeyRule = "first-dot") -> None:
        self._keys = checked_rule(keys)
        find = partial(find_samples, keys=keys)
        own = Scan("tar", _VERSION, find, {"keys": keys})
        super().__init__(shards, SCAN if keys == "first-dot" else own)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the paths and the options; the process that unpickles opens the shards again."""
        return partial(type(self), keys=self._keys), (self.shards,)

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """Class names, by class number, from the ``manifest.json`` that `gpu-aug pack` wrote next to the shards.

        Empty without such a file, or if several folders of shards have different class names.
        """
        return packed_classes(self._blobs)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings for the user; for one of them, some keys of the first shard are read to find names of splits."""
        found = [*super().remarks, *(about_dots(self) if self._keys == "first-dot" else ())]
        if self._is_remote:
            return tuple(found)
        looked_at = np.linspace(0, self.samples_of(0) - 1, _LOOKED_AT).astype(int).tolist()
        rows, _, _ = self._locate(0, looked_at)
        folders = {folder for row in rows for folder in row.key.split("/")[:-1]}
        splits = in_order({split for folder in folders if (split := split_alone(folder))})
        if len(splits) > 1:
            found.append(
                f"{self.shards[0]} holds folders of the splits {', '.join(splits)}, and all of it is read as one dataset: write "
                "a tar for each split, or unpack it and say split="
            )
        return (*found, *about_classes(self._blobs))


_File = tuple[str, str, int, int, str, int]
"""A stored file of a sample: (key, field, start, stop, fault, index of the archive among joined ones)."""


def _files(
    content: Content, shard: str, keys: KeyRule, ends: list[tuple[int, str]]
) -> Iterator[_File]:
    """Yield the files of a shard that belong to samples; joined archives are read one after the other.

    Args:
        content: Bytes of the shard.
        shard: Name of the shard, for faults.
        keys: Where the key ends in a name; see `key_and_field`.
        ends: List to which (offset, reason) is appended after the last file if the shard ends too early; the reason is "" if
            only the zero blocks at its end are missing. Nothing is appended if the fault of the last file states it.
    """
    begin, size = 0, len(content)
    for archive in count():
        is_told, end = False, begin
        try:
            for name, start, stop, what, end in stored_files(content, begin):  # noqa: B007
                parts = key_and_field(name, keys) if name else None
                if parts is None:
                    continue
                fault = f"{shard} stores {name} {what}" if what else ""
                if stop > size:
                    fault, is_told = f"{shard} is cut off at byte {size}, within {name}", True
                yield *parts, start, stop, fault, archive
        except TarError as error:
            if not begin:
                raise _no_tar(content, shard, error) from None
        block = bytes(content[end : end + BLOCK_BYTES])
        fault = end_fault(end, size, block)
        begin = -1 if fault else next_archive(content, end)
        if begin < 0:
            break
    if not is_told and (fault or size < end + 2 * BLOCK_BYTES):
        ends.append((end, fault and f"{shard} {fault}"))


def find_samples(
    content: Content, name: str, keys: KeyRule = "first-dot"
) -> Iterator[Entry | Remark]:
    """Yield the index entries of the samples in a shard, in stored order, and a remark if its end mark is missing.

    Args:
        content: Bytes of the shard.
        name: Name of the shard, for errors.
        keys: Where the key ends in a name; see `key_and_field`.

    Raises:
        SourceError: The shard is empty, compressed or no tar, or holds no samples.
    """
    if not len(content):
        raise SourceError(f"{name} is empty (0 bytes): write the shard again")
    kinds, ends, entry = set[tuple[str, ...]](), list[tuple[int, str]](), None
    for (key, _), files in groupby(_files(content, name, keys, ends), itemgetter(0, 5)):
        entry = _entry(key, list(files), content)
        if names := tuple([member[0] for member in entry.members]):
            if ends and (lost := lost_fields(kinds, names)):  # the last sample of the shard
                [(end, fault)] = ends
                ends = ends if not fault else []
                reason = fault or f"{name} is cut off at byte {end}"
                label = UNREADABLE if "cls" in lost else entry.label
                entry = Entry(key, (), label, fault=lost_part(reason, lost))
            kinds.add(names)
        yield entry
    for end, fault in ends:
        if not fault:
            yield Remark(f"ends at byte {end}", UNENDED)
        else:
            entry = Entry(f"(byte {end})", (), fault=fault)
            yield entry
    if entry is None:
        raise SourceError(f"{name} holds no samples: leave it out, or name files KEY.EXTENSION")


def _no_tar(content: Content, shard: str, error: TarError) -> SourceError:
    if bytes(content[:6]).startswith(_COMPRESSED):
        return SourceError(
            f"{shard} is compressed: decompress it or run gpu-aug pack, to read at random "
            "(readers.formats.stream reads it from the front to the back)"
        )
    return SourceError(f"{shard} is not a tar file ({error}): correct the path")


def _entry(key: str, files: list[_File], content: Content) -> Entry:
    fields: dict[str, Payload] = {file[1]: content[file[2] : file[3]] for file in files}
    faults = [file[4] for file in files if file[4]]
    if not faults and len(fields) < len(files):
        faults = [f"one of the fields {', '.join(fields)} is stored twice"]
    labels = [file for file in files if file[1] == "cls"]
    label = UNREADABLE  # kept if the field cls is truncated, or stored twice
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


_VERSION = 2
SCAN = Scan("tar", _VERSION, find_samples)
"""The scan for the samples of a tar shard with keys that end at the first dot."""
