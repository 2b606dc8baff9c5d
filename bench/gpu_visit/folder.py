"""Photographs in memory as the class folders that loaders read."""

from collections.abc import Sequence
from pathlib import Path

_NUM_CLASSES = 10


def write_folder(encoded: Sequence[bytes], root: Path) -> list[Path]:
    """Write JPEGs into ten class folders; returns where each lies."""
    paths = []
    for number, content in enumerate(encoded):
        path = root / f"{number % _NUM_CLASSES}/{number:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        paths.append(path)
    return paths
