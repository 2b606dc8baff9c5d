"""Telling tables of image paths from lists of videos, from tables that hold images, and from other files."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal

from readers.formats.path_table.metadata_folder import METADATA_NAMES
from readers.formats.path_table.read import ARROW_SUFFIXES, schema_of, text_columns
from readers.formats.path_table.roles import IMAGE_NAMES, usual
from readers.formats.path_table.text_rows import find_delimiter, rows_of
from readers.formats.tables.layout import holds_images
from readers.sample import VIDEO_FIELDS, SourceError, is_image_file
from readers.storage.paths import is_url

_LOOKED_AT = 20  # rows
_TEXT = (".csv", ".tsv")
_TABLES, _NAMES = 4, 10_000  # tables that are looked at, and names among which they are looked for
_VIDEO_ENDINGS = tuple(f".{name}" for name in VIDEO_FIELDS)


def kind_of_csv(path: Path) -> Literal["csv", "clip-list"]:
    """Tell by the first rows whether a file of rows names images or videos.

    Raises:
        SourceError: It names both, or nothing tells it.
    """
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
    """Return whether a .tsv file begins with the names of columns, else it is a list of paths and labels."""
    first = next(rows_of(path, "\t", 1), (0, [""]))[1]
    names = [name.strip() for name in first]
    return not any(map(is_image_file, names)) and usual(names, IMAGE_NAMES) is not None


def tables_about(folder: Path) -> list[Path]:
    """Return the text tables in a folder, or called like it beside it, whose first row names an image in the folder."""
    found = []
    with suppress(OSError):  # a warning alone depends on it; what is read raises for itself
        inside = sorted(path for path in islice(folder.iterdir(), _NAMES) if path.suffix in _TEXT)
        beside = [folder.with_name(f"{folder.name}{ending}") for ending in _TEXT]
        for path in [*inside[:_TABLES], *beside]:
            if path.name not in METADATA_NAMES and path.is_file() and _names_in(path, folder):
                found.append(path)
    return found


def _names_in(path: Path, folder: Path) -> bool:
    with suppress(SourceError, OSError, ValueError):  # as above
        for _, cells in list(rows_of(path, find_delimiter(path), 3)):
            for name in (cell.strip() for cell in cells):
                files = [name] if is_image_file(name) else [f"{name}.jpg", f"{name}.png"]
                if name and any((folder / file).is_file() for file in files):
                    return True
    return False


def is_path_table(path: str, options: Mapping[str, object]) -> bool:
    """Return whether a Parquet or Arrow file holds paths of images and not images.

    Args:
        path: Of any kind.
        options: Those of the caller, who may name the column of the image.
    """
    if is_url(path) or not path.lower().endswith(ARROW_SUFFIXES) or not Path(path).is_file():
        return False
    try:
        schema = schema_of(Path(path))
    except SourceError:  # which its own reader says
        return False
    texts, asked = text_columns(schema), options.get("image")
    if asked is not None:
        return asked in texts
    return not any(holds_images(each.type) for each in schema) and (
        usual(texts, IMAGE_NAMES) is not None
    )
