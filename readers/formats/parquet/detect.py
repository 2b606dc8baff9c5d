"""Detection of partitioned folders of Parquet files, and of files that belong to a table."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from readers.detect.files import is_shard
from readers.detect.listed_folder import ListedFolder
from readers.detect.splits import choose_split
from readers.formats.tables.fits import is_delta, is_iceberg
from readers.sample import SourceError
from readers.storage.unreadable import files_below

_MOST_LEVELS = 8  # levels of folders above a file in which a table is looked for


def detect_partitions(folder: ListedFolder, split: str | None) -> list[str] | None:
    """Detect a folder with partition folders such as ``label=3``; see `Format.detect`.

    Returns:
        The path of the folder, or, if a split is given, the paths of the split's files; None if the folder has no partition
        folders with Parquet files.
    """
    path = folder.path
    # If the folder itself holds shards, these are the data.
    if not any("=" in name for name in folder.folders) or any(map(is_shard, folder.files)):
        return None
    if next(_files_below(path), None) is None:
        return None
    files = [f"{path}/{file.relative_to(path).as_posix()}" for file in sorted(_files_below(path))]
    chosen = choose_split(files, split, str(path))
    return [str(path)] if split is None else chosen


def _files_below(folder: Path) -> Iterator[Path]:
    return (path for path in files_below(folder) if path.suffix == ".parquet")


def refuse_parts_of_tables(paths: Iterable[str]) -> None:
    """Check that no Parquet file belongs to a Delta or Iceberg table, whose files may hold deleted rows.

    Raises:
        SourceError: A file belongs to such a table.
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
