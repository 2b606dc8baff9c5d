"""Metadata files of Hugging Face's ImageFolder, and their columns that name files.

``file_name``, ``NAME_file_name`` and ``NAME_file_names`` hold paths below the file's folder; the rules are those of
``datasets.load_dataset("imagefolder", data_dir=...)``.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from readers.detect.splits import canonical, split_of
from readers.formats.path_table.image_files import checked_path
from readers.formats.path_table.read import schema_of
from readers.formats.path_table.table import Table
from readers.formats.path_table.text_rows import find_delimiter, rows_of
from readers.formats.text import parse_object
from readers.plural import counted
from readers.sample import SourceError, is_image_file
from readers.storage.unreadable import OptionalFile, refuse_folder_error
from readers.storage.whole_files import read_head

METADATA_NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_ONE, _SEVERAL = "file_name", "file_names"
_FIRST_LINE_BYTES = (
    1 << 20
)  # of the first line, whose keys are the columns; a longer line counts as having none
_OBJECTS = "objects"  # {"bbox": [[left, top, width, height], ...], "categories": [...]}


def find_metadata(folder: Path, files: Iterable[str]) -> Path | None:
    """Return the path of the metadata file in a folder, None if there is none.

    Args:
        folder: The folder.
        files: Names of the files in it.

    Raises:
        SourceError: There are several metadata files.
    """
    there = {*files}
    found = [
        folder / name
        for name in METADATA_NAMES
        if name in there and any(map(names_files, _columns_of(folder / name)))
    ]
    if len(found) > 1:
        raise SourceError(
            f"{folder} holds {found[0].name} and {found[1].name}, which both describe its images: keep one of them"
        )
    return found[0] if found else None


def is_named_split(path: Path, split: str | None) -> bool:
    """Return whether a file is named after a split; for a metadata file, whether its folder is."""
    name = path.parent.name if path.name in METADATA_NAMES else path.name
    return split is not None and split_of(name.partition(".")[0]) == canonical(split)


def has_named_files(path: Path) -> bool:
    """Return whether a metadata file has columns of further files, such as ``mask_file_name``."""
    return any(names_files(name) and name != _ONE for name in _columns_of(path))


def names_files(column: str) -> bool:
    """Return whether a column holds paths, by its name."""
    return column in (_ONE, _SEVERAL) or column.endswith((f"_{_ONE}", f"_{_SEVERAL}"))


def image_column(table: Table) -> str:
    """Return the name of the image column: ``file_name``, or else the first column that holds paths.

    Raises:
        SourceError: There is no such column.
    """
    found = [name for name in table.columns if names_files(name)]
    if not found:
        raise SourceError(
            f"{table.source} has no column {_ONE}, *_{_ONE} or *_{_SEVERAL}: add {_ONE} with the paths of the images"
        )
    return _ONE if _ONE in found else found[0]


def with_first_files(table: Table, image: str) -> Table:
    """Return the table with one path per row in the image column; of a list of paths the first is taken."""
    if not image.endswith(_SEVERAL):
        return table
    first = [
        value[0] if isinstance(value, list) and value else value for value in table.columns[image]
    ]
    return Table(table.source, {**table.columns, image: first}, table.lines, table.class_names)


def further_files(table: Table, image: str, firsts: Sequence[int]) -> list[dict[str, str]]:
    """Return the paths of each sample's further files by field name: ``mask_file_name`` gives ``mask.png``.

    The files of a list are numbered, ``NAME.0.jpg``. The first file in a list of the image column is the image itself, and
    is left out.

    Args:
        table: The rows.
        image: Name of the image column.
        firsts: First row of each sample.

    Returns:
        One dict per sample; an empty list if no sample has further files.

    Raises:
        SourceError: A path leads out of the folder, or a value is no path.
    """
    found: list[dict[str, str]] = [{} for _ in firsts]
    for column, values in table.columns.items():
        if not names_files(column) or (column == image and not column.endswith(_SEVERAL)):
            continue
        name = column.removesuffix(_SEVERAL).removesuffix(_ONE).removesuffix("_")
        for number, row in enumerate(firsts):
            value = values[row]
            listed = isinstance(value, list)
            for k, written in enumerate(value if listed else [value]):
                if written in (None, "") or (column == image and k == 0):
                    continue
                try:
                    path = checked_path(written, strict=True)
                except ValueError as error:
                    raise SourceError(f"{table.place(row)}, column {column}: {error}") from None
                ending = path.rpartition(".")[2].lower()
                found[number][".".join([name or "images", *([str(k)] * listed), ending])] = path
    return found if any(found) else []


def about_files(folder: Path, source: str, names: Iterable[str]) -> list[str]:
    """Return a warning about images without a row and paths without an image, in a list that is empty if all match.

    Args:
        folder: Folder of the images.
        source: The metadata file, for the warning.
        names: Paths in the rows, relative to the folder.
    """
    named = {*names}
    there = {
        os.path.relpath(os.path.join(path, name), folder)  # noqa: PTH118 - 10 times as fast
        for path, _, files in os.walk(folder, onerror=refuse_folder_error)
        for name in files
        if name[0] != "." and is_image_file(name)
    }
    without_row, without_file = sorted(there - named), sorted(named - there)
    faults = []
    if without_row:
        faults.append(
            f"no row for {counted(len(without_row), 'image')} ({without_row[0]}), which are left out"
        )
    if without_file:
        faults.append(
            f"no image for {counted(len(without_file), 'path')} ({without_file[0]}), which are bad samples"
        )
    if not faults:
        return []
    return [
        f"{source} has {' and '.join(faults)}: correct {Path(source).name}, or remove what is too much"
    ]


def about_objects(table: Table) -> list[str]:
    """Return a warning if a column ``objects`` holds boxes in the form of Hugging Face's guide, which are not read."""
    values = table.columns.get(_OBJECTS, [])
    first = next((value for value in values if isinstance(value, dict) and "bbox" in value), None)
    if first is None:
        return []
    return [
        f"{table.source} is read without the boxes of its column {_OBJECTS} ({', '.join(first)}): to train on them write "
        "columns boxes, [[left, top, right, bottom], ...] in pixels, and labels, [class number, ...], into a .jsonl with "
        "a column image"
    ]


def _columns_of(path: Path) -> list[str]:
    """Return the names of a file's columns, by its schema or first row; an empty list if it cannot be read."""
    # If the file is chosen, its reader raises the error.
    with OptionalFile(path), suppress(ValueError, SourceError):
        if path.suffix == ".parquet":
            return list(schema_of(path).names)
        if path.suffix == ".csv":
            first = next(rows_of(path, find_delimiter(path), 1), (0, []))[1]
            return [name.strip() for name in first]
        head = read_head(path, _FIRST_LINE_BYTES).decode("utf-8-sig", "ignore").lstrip()
        return list(parse_object(head.partition("\n")[0].encode()))
    return []
