"""Detection of tables and lists of files, by their first rows or by the metadata file of a folder."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal

from readers.detect.listed_folder import ListedFolder
from readers.formats.openimages.dataset import fits as fits_open_images
from readers.formats.path_table.metadata_folder import (
    METADATA_NAMES,
    find_metadata,
    has_named_files,
)
from readers.formats.path_table.read import ARROW_SUFFIXES, schema_of, text_columns
from readers.formats.path_table.roles import IMAGE_NAMES, usual
from readers.formats.path_table.text_rows import find_delimiter, rows_of
from readers.formats.tables.layout import holds_images
from readers.sample import VIDEO_FIELDS, SourceError, is_image_file
from readers.storage.whole_files import read_head
from readers.video.files import is_header

_LOOKED_AT = 20  # rows that are read to recognise a table
_TEXT = (".csv", ".tsv")
_TABLES, _NAMES = 4, 10_000  # most tables that are opened, and names that are listed to find them
_VIDEO_ENDINGS = tuple(f".{name}" for name in VIDEO_FIELDS)
_VIDEO_IN_LINE = re.compile(rf"\.({'|'.join(VIDEO_FIELDS)})(\s|$)", re.IGNORECASE)
_LIST_BYTES = 1 << 16  # bytes of a list that are read to recognise it
_JSON_LINES = "metadata.jsonl"  # describes the images in its folder, by the rules of Hugging Face's ImageFolder


def detect_metadata(folder: ListedFolder, _split: str | None) -> list[str] | None:
    """Return the path of a folder's metadata file if it is read as a table, None otherwise; see `Format.detect`."""
    found = find_metadata(folder.path, folder.files)
    is_table = found is not None and (found.name != _JSON_LINES or has_named_files(found))
    return [str(found)] if is_table else None


def detect_json_lines(folder: ListedFolder, split: str | None) -> list[str] | None:
    """Return the path of a folder's metadata.jsonl, None if there is none or a split is given; see `Format.detect`."""
    is_there = _JSON_LINES in folder.files and split is None
    return [str(folder.path / _JSON_LINES)] if is_there else None


def kind_of_list(path: Path, _options: Mapping[str, object]) -> str:
    """Return the name of the format of a list file, judged by its first line that is neither empty nor a comment."""
    if path.suffix.lower() == ".tsv" and is_table_of_tsv(path):
        return "csv"
    stripped = map(
        str.strip, read_head(path, _LIST_BYTES).decode("utf-8-sig", "replace").split("\n")
    )
    lines = (line for line in stripped if line and not line.startswith("#"))
    first = next(lines, "")
    first = (next(lines, "") if is_header(first) else "") or first
    if _VIDEO_IN_LINE.search(first):
        return "clip-list"
    named = (first, first.rpartition(" ")[0], first.rpartition(" ")[0].rpartition(" ")[0])
    is_folder = any(os.path.isdir(path.parent / name) for name in named if name)  # noqa: PTH112 - long names, too
    return "frame-folder" if is_folder else "list"


def kind_of_csv(
    path: Path, _options: Mapping[str, object]
) -> Literal["csv", "clip-list", "openimages"]:
    """Return the name of the format of a CSV file, judged by its first rows.

    Raises:
        SourceError: The rows name both images and videos, or neither.
    """
    if fits_open_images(path):
        return "openimages"
    rows = [cells for _, cells in rows_of(path, find_delimiter(path), _LOOKED_AT)]
    cells = [cell.strip() for row in rows for cell in row]
    images = next((cell for cell in cells if is_image_file(cell)), "")
    videos = next((cell for cell in cells if cell.lower().endswith(_VIDEO_ENDINGS)), "")
    if images and videos:
        raise SourceError(
            f"{path} names images ({images}) and videos ({videos}): say format='csv' to read the images, format='clip-list' to "
            "read the videos"
        )
    if images or (not videos and rows and usual(map(str.strip, rows[0]), IMAGE_NAMES)):
        return "csv"
    if videos or not rows:
        return "clip-list"
    raise SourceError(
        f"{path} names neither images nor videos in its first rows, and has no column of a usual name for them: say "
        "format='csv' and image=COLUMN for images, format='clip-list' for videos"
    )


def is_table_of_tsv(path: Path) -> bool:
    """Return whether a .tsv file begins with a header row that names an image column; if not, it is a list."""
    first = next(rows_of(path, "\t", 1), (0, [""]))[1]
    names = [name.strip() for name in first]
    return not any(map(is_image_file, names)) and usual(names, IMAGE_NAMES) is not None


def tables_about(folder: Path) -> list[Path]:
    """Return the CSV and TSV files whose first rows name an image in a folder.

    The files in the folder are searched, and those next to it that have its name.
    """
    found = []
    with suppress(OSError):  # only a warning depends on it; reading the data raises its own errors
        inside = sorted(path for path in islice(folder.iterdir(), _NAMES) if path.suffix in _TEXT)
        beside = [folder.with_name(f"{folder.name}{ending}") for ending in _TEXT]
        for path in [*inside[:_TABLES], *beside]:
            if path.name not in METADATA_NAMES and path.is_file() and _names_in(path, folder):
                found.append(path)
    return found


def _names_in(path: Path, folder: Path) -> bool:
    with suppress(SourceError, OSError, ValueError):  # only a warning depends on it
        for _, cells in list(rows_of(path, find_delimiter(path), 3)):
            for name in (cell.strip() for cell in cells):
                files = [name] if is_image_file(name) else [f"{name}.jpg", f"{name}.png"]
                if name and any((folder / file).is_file() for file in files):
                    return True
    return False


def kind_of_arrow(path: Path, options: Mapping[str, object]) -> str | None:
    """Return "csv", the format name of tables, if a Parquet or Arrow file holds paths of images and no images.

    Args:
        path: Path of a local file.
        options: Options of the caller, which may name the image column.

    Returns:
        None for all other files.
    """
    if path.suffix.lower() not in ARROW_SUFFIXES:
        return None
    try:
        schema = schema_of(path)
    except SourceError:  # the reader of the file's format reports it
        return None
    texts, asked = text_columns(schema), options.get("image")
    if asked is not None:
        return "csv" if asked in texts else None
    holds_paths = not any(holds_images(each.type) for each in schema)
    return "csv" if holds_paths and usual(texts, IMAGE_NAMES) is not None else None
