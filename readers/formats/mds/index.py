"""index.json of an MDS folder: its shards and their columns."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readers.sample import PathLike, SourceError
from readers.storage.blob import is_url, open_blob
from readers.storage.blob.mapped import copied
from readers.storage.paths import with_path
from readers.storage.unreadable import oserror_as_source_error

NAME = "index.json"
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class MdsFile:
    """A file of a shard.

    Attributes:
        path: Below the folder, with slashes.
        num_bytes: Its size.
        hashes: Algorithm -> hexadecimal digits.
    """

    path: str
    num_bytes: int
    hashes: dict[str, str]


@dataclass(frozen=True, slots=True)
class MdsShard:
    """A shard.

    Attributes:
        num_samples: >= 0.
        raw: The shard itself.
        packed: The compressed file, or None.
        compression: "zstd", "gz", "bz2", "br", "snappy", or "" for none.
        columns: (name, encoding, size in bytes or 0 where it varies) of each, in stored order.
    """

    num_samples: int
    raw: MdsFile
    packed: MdsFile | None
    compression: str
    columns: tuple[tuple[str, str, int], ...]


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
        SourceError: It is missing, is no index of version 2 with shards of the format mds, or names a file
            outside its folder.
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
        found = json.loads(bytes(data))
        if "__kind__" in found:
            raise SourceError(
                f"{source} is an index of wids, of which those on this machine are read: give the shards as a pattern"
            )
        version, shards = found["version"], found["shards"]
        if version != 2:
            raise SourceError(
                f"{source} is of version {version!r}: version 2 is read, write the data anew with "
                "mosaicml-streaming 0.1 or later"
            )
        return [_read_shard(shard, source) for shard in shards]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise SourceError(
            f"{source} is no index of an MDS folder, or a damaged one ({reason[:200]}): write it anew"
        ) from None


def _read_shard(shard: dict[str, Any], source: str) -> MdsShard:
    if shard["format"] != "mds":
        raise SourceError(
            f"{source} names shards of the format {shard['format']!r}: only mds is read, write them with MDSWriter"
        )
    names, encodings, sizes = (shard[f"column_{part}"] for part in ("names", "encodings", "sizes"))
    if not len(names) == len(encodings) == len(sizes) or len(set(names)) != len(names):
        raise ValueError(f"{len(names)} columns, {len(encodings)} encodings, {len(sizes)} sizes")
    columns = tuple(
        (_text(name), _text(encoding), _count(size or 0))
        for name, encoding, size in zip(names, encodings, sizes, strict=True)
    )
    packed = shard.get("zip_data")
    compression = _text(shard.get("compression") or "")
    num_samples, raw = _count(shard["samples"]), _read_file(shard["raw_data"], source)
    if raw.num_bytes < 4 * (num_samples + 2):  # its number of samples, and their offsets
        raise ValueError(f"{num_samples} samples in {raw.num_bytes} bytes")
    return MdsShard(
        num_samples,
        raw,
        _read_file(packed, source) if packed else None,
        compression.partition(":")[0],
        columns,
    )


def _read_file(file: dict[str, Any], source: str) -> MdsFile:
    path = _text(file["basename"])
    parts = path.split("/")
    os.fsencode(path)  # a ValueError where no file can be called so
    if "\\" in path or "\0" in path or _DRIVE.match(path) or not {"", ".", ".."}.isdisjoint(parts):
        raise SourceError(
            f"{source} names the file {path!r}, which may lie outside its folder: correct the index"
        )
    hashes = {_text(name): _text(value) for name, value in (file.get("hashes") or {}).items()}
    return MdsFile(path, _count(file["bytes"]), hashes)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} where text must be")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise TypeError(f"{value!r} where a number >= 0 must be")
    return value
