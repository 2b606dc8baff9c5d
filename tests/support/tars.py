"""Tars as WebDataset has them."""

import io
import tarfile
from pathlib import Path


def write_samples(path: Path, samples: dict[str, dict[str, bytes]]) -> Path:
    """Write a tar whose samples, by key, are fields of bytes by their endings; returns its path."""
    with tarfile.open(path, "w") as archive:
        for key, fields in samples.items():
            for ending, content in fields.items():
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path
