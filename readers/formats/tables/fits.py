"""Detection of Lance datasets, Delta tables and Iceberg tables by the files in a folder."""

from pathlib import Path


def is_lance(folder: Path) -> bool:
    """Return whether a folder holds the versions of a Lance dataset."""
    return (folder / "_versions").is_dir() and (
        (folder / "data").is_dir() or folder.suffix == ".lance"
    )


def is_delta(folder: Path) -> bool:
    """Return whether a folder holds the log of a Delta table."""
    return (folder / "_delta_log").is_dir()


def is_iceberg(folder: Path) -> bool:
    """Return whether a folder holds the metadata of an Iceberg table."""
    inside = folder / "metadata"
    return inside.is_dir() and next(inside.glob("*.metadata.json"), None) is not None
