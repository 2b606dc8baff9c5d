"""The files that the paths in a table name."""

import os
from collections.abc import Sequence
from pathlib import Path

from readers.describe import few_of
from readers.formats.path_table.table import Table
from readers.sample import IMAGE_FIELDS, SourceError, is_image_file
from readers.storage.unreadable import OptionalFile

_MOST_TRIED = 8  # files, one of which must exist


def find_image_files(table: Table, column: str, root: Path, *, strict: bool) -> list[str]:
    """Return the path of each row's image, relative to root, or absolute.

    A name without the extension of an image stands for the one image file of that name. Other names are taken as they
    are written; only the first few are checked, and one of these must exist.

    Args:
        table: The rows.
        column: The column of paths.
        root: Folder that paths are relative to.
        strict: Whether absolute paths are refused, too, as in tables that others wrote.

    Raises:
        SourceError: A path is empty, a URL, leaves the folder, or names no file or several; or none of the first is there.
    """
    stems = _Stems(root)
    names = []
    for row, value in enumerate(table.columns[column]):
        try:
            name = checked_path(value, strict=strict)
            names.append(name if is_image_file(name) else stems.find(name))
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
    """Return a path as it is written, without ``.`` and empty parts.

    Args:
        value: What a table says.
        strict: Whether absolute paths are refused, too.

    Raises:
        ValueError: It is no path, a URL, or leaves the folder; the text is a short reason.
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


class _Stems:
    """The image files of folders by their names without extension; a folder is listed once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folders: dict[str, dict[str, list[str]]] = {}

    def find(self, name: str) -> str:
        """Return the file that a name without extension stands for.

        Raises:
            ValueError: There is no such file, or there are several.
        """
        folder, _, stem = name.rpartition("/")
        if name.startswith("/") and not folder:
            folder = "/"
        found = self._listed(folder).get(stem, [])
        if len(found) == 1:
            return os.path.join(folder, found[0])  # noqa: PTH118 - names stay as they are written
        if found:
            raise ValueError(f"{name} names several files ({few_of(found)}): write the extension")
        if (self._root / name).is_file():  # without any extension: its bytes say what it is
            return name
        raise ValueError(
            f"no image {name} or {name}.jpg is in {self._root / folder}: say in which folder the images lie with root="
        )

    def _listed(self, folder: str) -> dict[str, list[str]]:
        if folder not in self._folders:
            stems: dict[str, list[str]] = {}
            for name in _names(self._root / folder):
                stem, _, ending = name.rpartition(".")
                if ending.lower() in IMAGE_FIELDS:
                    stems.setdefault(stem, []).append(name)
            self._folders[folder] = stems
        return self._folders[folder]


def _names(folder: Path) -> Sequence[str]:
    with OptionalFile(folder):
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    return ()
