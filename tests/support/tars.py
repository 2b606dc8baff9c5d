"""Tars as WebDataset has them."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def tar_of(files: Iterable[tuple[str, bytes]], **options: Any) -> bytes:
    """Return the bytes of a tar of files; options are those of tarfile.open."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", **options) as archive:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def with_header(data: bytes, place: int, edits: dict[int, bytes]) -> bytes:
    """Return a tar with other bytes in the header at a place, by their offsets, and the checksum that fits."""
    header = bytearray(data[place : place + 512])
    for offset, value in edits.items():
        header[offset : offset + len(value)] = value
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return data[:place] + bytes(header) + data[place + 512 :]


def write_tar(path: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    """Write such a tar; returns its path."""
    path.write_bytes(tar_of(members))
    return path


def write_samples(path: Path, samples: dict[str, dict[str, bytes]]) -> Path:
    """Write a tar whose samples, by key, are fields of bytes by their endings; returns its path."""
    files = [
        (f"{key}.{ending}", content)
        for key, fields in samples.items()
        for ending, content in fields.items()
    ]
    return write_tar(path, files)


def by_webdataset(*shards: Path) -> list[tuple[str, dict[str, bytes]]]:
    """Return keys, which begin with the name of their shard, and fields as the webdataset package reads them."""
    from webdataset.tariterators import group_by_keys, tar_file_expander

    sources = [{"url": shard.name, "stream": io.BytesIO(shard.read_bytes())} for shard in shards]
    return [
        (
            f"{sample['__url__']}/{sample['__key__']}",
            {name: data for name, data in sample.items() if not name.startswith("__")},
        )
        for sample in group_by_keys(tar_file_expander(sources))
    ]
