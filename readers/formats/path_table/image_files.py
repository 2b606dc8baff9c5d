"""Resolution of the paths in a table to image files."""

import os
from pathlib import Path

from readers.describe import few_of
from readers.formats.path_table.table import Table
from readers.sample import IMAGE_FIELDS, SourceError, is_image_file
from readers.storage.unreadable import OptionalFile

_MOST_TRIED = 8  # first files of a table, one of which must exist


def find_image_files(table: Table, column: str, root: Path, *, strict: bool) -> list[str]:
    """Return the path of each row's image, relative to root or absolute.

    A name without an image extension stands for the only image file of that name. Other names are taken unchanged; only
    the first eight are checked, of which one must exist.

    Args:
        table: The rows.
        column: Name of the column of paths.
        root: Folder that paths are relative to.
        strict: Whether absolute paths are refused, as in metadata files, which may come from elsewhere.

    Raises:
        SourceError: A path is empty, a URL, leads out of the folder, or names no file or several; or none of the first
            eight files exists.
    """
    folders: dict[str, dict[str, list[str]]] = {}
    names = []
    for row, value in enumerate(table.columns[column]):
        try:
            name = checked_path(value, strict=strict)
            names.append(name if is_image_file(name) else _with_extension(name, root, folders))
        except ValueError as error:
            raise SourceError(f"{table.place(row)}: {error}") from None
    tried = names[:_MOST_TRIED]
    if not any((root / name).exists() for name in tried):
        raise SourceError(
            f"{table.place(0)}: the file {root / names[0]} is not there, nor are those of the next rows: say in which folder "
            "they lie with root="
        )
    return names


def checked_path(value: object, *, strict: bool) -> str:
    """Return a path in normalised form, after checking that it is allowed.

    Args:
        value: Value of a table's cell.
        strict: Whether absolute paths are refused.

    Raises:
        ValueError: The value is no path, is a URL, or leads out of the folder; the text is a short reason.
    """
    if not isinstance(value, str) or not value.strip():
        raise ValueError("it names no image: give a path")
    written = value.strip()
    if "://" in written:
        raise ValueError(
            f"the image {written} is a URL: download the images, and write their paths"
        )
    if "\0" in written:
        raise ValueError(f"{written!r} names no file")
    name = os.path.normpath(written)
    if name.split("/")[0] == "..":
        raise ValueError(
            f"{written} leaves the folder: move the table up"
            + ("" if strict else ", say root=, or write absolute paths")
        )
    if strict and name.startswith("/"):
        raise ValueError(f"{written} is absolute: write it relative to the table")
    return name


def _with_extension(name: str, root: Path, folders: dict[str, dict[str, list[str]]]) -> str:
    """Return the name of the image file that a name without extension stands for.

    Args:
        name: The name.
        root: Folder that it is relative to.
        folders: Cache that this function fills: image files by their stems, by folder.

    Raises:
        ValueError: No file or several files have this stem.
    """
    folder, _, stem = name.rpartition("/")
    if name.startswith("/") and not folder:
        folder = "/"
    if folder not in folders:
        folders[folder] = _files_by_stem(root / folder)
    found = folders[folder].get(stem, [])
    if len(found) == 1:
        return os.path.join(folder, found[0])  # noqa: PTH118 - names stay as they are written
    if found:
        raise ValueError(f"{name} names several files ({few_of(found)}): write the extension")
    if (root / name).is_file():  # a file without extension: the decoder recognises its format
        return name
    raise ValueError(
        f"no image {name} or {name}.jpg is in {root / folder}: say in which folder the images lie with root="
    )


def _files_by_stem(folder: Path) -> dict[str, list[str]]:
    stems: dict[str, list[str]] = {}
    with OptionalFile(folder):
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names are all that is wanted
            stem, _, ending = name.rpartition(".")
            if ending.lower() in IMAGE_FIELDS:
                stems.setdefault(stem, []).append(name)
    return stems
