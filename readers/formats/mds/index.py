"""index.json of an MDS folder: its shards and their columns."""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from readers.formats.text import parse_object, to_struct
from readers.sample import PathLike, SourceError
from readers.storage.blob import is_url, open_blob
from readers.storage.blob.mapped import copied
from readers.storage.paths import with_path
from readers.storage.unreadable import oserror_as_source_error

NAME = "index.json"
_DRIVE = re.compile(r"[A-Za-z]:")


# Sums of such numbers fit int64.
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class MdsFile(msgspec.Struct, frozen=True, rename={"path": "basename", "num_bytes": "bytes"}):
    """A file of a shard.

    Attributes:
        path: Path of the file relative to the folder, with slashes.
        num_bytes: Size of the file.
        hashes: Dict from the name of a hash algorithm to hexadecimal digits; None if there are no hashes.
    """

    path: str
    num_bytes: _Count
    hashes: dict[str, str] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a path that no file can have, or that may lie outside the folder."""
        os.fsencode(self.path)
        outside = "\\" in self.path or "\0" in self.path or _DRIVE.match(self.path)
        if outside or not {"", ".", ".."}.isdisjoint(self.path.split("/")):
            raise ValueError(f"the file {self.path!r} may lie outside its folder")


class MdsShard(
    msgspec.Struct,
    frozen=True,
    rename={"num_samples": "samples", "raw": "raw_data", "packed": "zip_data"},
):
    """A shard.

    Attributes:
        num_samples: >= 0.
        raw: The shard itself.
        packed: The compressed file, or None.
        compression: As written; see `codec`.
        column_names: Names of the columns, in stored order.
        column_encodings: Encoding of each.
        column_sizes: Size in bytes of each, 0 or None where it varies.
    """

    format: Literal["mds"]
    num_samples: _Count
    raw: MdsFile
    column_names: list[str]
    column_encodings: list[str]
    column_sizes: list[_Count | None]
    packed: MdsFile | None = None
    compression: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for values that contradict each other."""
        names, encodings, sizes = self.column_names, self.column_encodings, self.column_sizes
        if not len(names) == len(encodings) == len(sizes) or len(set(names)) != len(names):
            raise ValueError(
                f"{len(names)} columns, {len(encodings)} encodings, {len(sizes)} sizes"
            )
        # A shard begins with its number of samples and their offsets.
        if self.raw.num_bytes < 4 * (self.num_samples + 2):
            raise ValueError(f"{self.num_samples} samples in {self.raw.num_bytes} bytes")

    @property
    def codec(self) -> str:
        """The compression without its level: "zstd", "gz", "bz2", "br", "snappy", or "" for none."""
        return (self.compression or "").partition(":")[0]

    @property
    def columns(self) -> tuple[tuple[str, str, int], ...]:
        """Name, encoding and size in bytes of each column, 0 where it varies; in stored order."""
        sizes = (size or 0 for size in self.column_sizes)
        return tuple(zip(self.column_names, self.column_encodings, sizes, strict=True))


class _Index(msgspec.Struct):
    """The content of index.json."""

    version: Any
    shards: list[MdsShard]


def folder_of(location: PathLike) -> str:
    """Return the folder, an absolute path or a URL, of a folder or its index."""
    text = os.fspath(location)
    if is_url(text):
        return with_path(text, lambda path: path.removesuffix(NAME).rstrip("/"))
    path = Path(text).absolute()
    return str(path.parent if path.name == NAME else path)


def inside(folder: str, name: str) -> str:
    """Return the path or URL of a file in a folder."""
    return with_path(folder, lambda path: f"{path}/{name}")


def read_mds_index(folder: str) -> list[MdsShard]:
    """Read the index.json of a folder.

    Raises:
        SourceError: The file is missing, is not an index of version 2 with shards of the format mds, or names a file
            outside the folder.
    """
    source = inside(folder, NAME)
    try:
        blob = open_blob(source)
    except SourceError as error:
        if is_url(folder) and "no such object" not in str(error):
            raise
        splits = [] if is_url(folder) else sorted(Path(folder).glob(f"*/{NAME}"))
        hint = (
            f"give one of its splits, such as {splits[0].parent}" if splits else "correct the path"
        )
        raise SourceError(f"{folder} holds no {NAME}, as an MDS folder does: {hint}") from None
    with oserror_as_source_error(source):
        (data,) = map(copied, blob.read([(0, blob.size_bytes)]))
    try:
        found = parse_object(data)
        if "__kind__" in found:
            raise SourceError(
                f"{source} is an index of wids, of which those on this machine are read: give the shards as a pattern"
            )
        if found.get("version", 2) != 2:
            raise SourceError(
                f"{source} is of version {found['version']!r}: version 2 is read, write the data anew with "
                "mosaicml-streaming 0.1 or later"
            )
        return to_struct(found, _Index).shards
    except ValueError as error:
        raise SourceError(
            f"{source} is no index of an MDS folder, or a damaged one ({str(error)[:200]}): write it anew with MDSWriter"
        ) from None
