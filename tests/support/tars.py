"""Tars as WebDataset has them."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path


def tar_of(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a tar of members that are given by name and content."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def write_tar(path: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    """Write such a tar; returns its path."""
    path.write_bytes(tar_of(members))
    return path


def write_samples(path: Path, samples: dict[str, dict[str, bytes]]) -> Path:
    """Write a tar whose samples, by key, are fields of bytes by their endings; returns its path."""
    return write_tar(
        path,
        (
            (f"{key}.{ending}", content)
            for key, fields in samples.items()
            for ending, content in fields.items()
        ),
    )
