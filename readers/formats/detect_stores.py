"""Folders whose library keeps an account of what in them is valid, recognised by that account."""

from collections.abc import Iterable
from pathlib import Path

from readers.sample import SourceError

_MOST_LEVELS = 8  # of folders between a table and its files


def refuse_parts_of_tables(paths: Iterable[str]) -> None:
    """Refuse Parquet files that belong to a table.

    What lies in a table's folder is what was ever written: also rows that are deleted or replaced since.

    Raises:
        SourceError: One of them does.
    """
    known: dict[Path, str | None] = {}
    for path in paths:
        for above in [*Path(path).parents][:_MOST_LEVELS]:
            if above not in known:
                known[above] = (
                    "Delta" if is_delta(above) else "Iceberg" if is_iceberg(above) else None
                )
            table = known[above]
            if table:
                raise SourceError(
                    f"{path} belongs to the {table} table {above}, whose files also hold rows that were "
                    f"deleted or replaced: open the table, open_dataset({str(above)!r})"
                )


def refuse_remote_table(url: str, names: Iterable[str]) -> None:
    """Refuse a folder in an object store that is one of these.

    Args:
        url: Its URL.
        names: Of objects and folders in it, with slashes, relative to it.

    Raises:
        SourceError: It is.
    """
    there = {part for name in names for part in (name, f"{name.partition('/')[0]}/")}
    is_iceberg = any(
        name.startswith("metadata/") and name.endswith(".metadata.json") for name in there
    )
    marks = {
        "_delta_log/": "a Delta table",
        "_versions/": "a Lance dataset",
        ".nv-meta/": "a dataset of Energon",
    }
    found = [title for mark, title in marks.items() if mark in there]
    found += ["an Iceberg table"] if is_iceberg else []
    if found:
        raise SourceError(
            f"{url} is {found[0]}, which is read from this machine's files: copy it here; its files alone hold also what "
            "was deleted or replaced"
        )


def is_lance(folder: Path) -> bool:
    """Whether a folder holds the versions of a Lance dataset."""
    return (folder / "_versions").is_dir() and (
        (folder / "data").is_dir() or folder.suffix == ".lance"
    )


def is_delta(folder: Path) -> bool:
    """Whether a folder holds the log of a Delta table."""
    return (folder / "_delta_log").is_dir()


def is_iceberg(folder: Path) -> bool:
    """Whether a folder holds the metadata of an Iceberg table."""
    inside = folder / "metadata"
    return inside.is_dir() and next(inside.glob("*.metadata.json"), None) is not None


def is_energon(folder: Path) -> bool:
    """Whether a folder was prepared by Energon."""
    inside = folder / ".nv-meta"
    return any((inside / name).is_file() for name in (".info.json", ".info.yaml"))
