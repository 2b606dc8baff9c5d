"""Files with a few bytes changed."""

from pathlib import Path


def overwrite(path: Path, place: int, content: bytes) -> Path:
    """Write bytes over those at a place of a file, which stays the file that it was; returns its path."""
    with path.open("r+b") as file:
        file.seek(place)
        file.write(content)
    return path


def flip(path: Path, place: int, bits: int = 0xFF) -> Path:
    """Flip bits of one byte of a file, at a place from its begin or, below 0, from its end; returns its path."""
    content = path.read_bytes()
    return overwrite(path, place % len(content), bytes([content[place] ^ bits]))
