"""Warnings about tables of images: missing images, inconsistent class numbers, and tables that are not read."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from readers.detect.registry import Opened
from readers.detect.splits import train_beside
from readers.formats.path_table.detect import tables_about
from readers.formats.path_table.image_files import find_image_files
from readers.formats.path_table.metadata_folder import (
    METADATA_NAMES,
    about_files,
    about_objects,
    image_column,
)
from readers.formats.path_table.read import read_json_lines, read_table
from readers.formats.path_table.roles import find_label
from readers.labels.classes import numbering_of
from readers.plural import counted
from readers.sample import SourceError

_MOST_NAMED = 10  # classes that a warning lists
_MOST_BYTES = 1 << 25  # size of a file that is still read for a warning


def warn_table(opened: Opened) -> Iterator[str]:
    """Yield a warning if a split's metadata file has other class numbers than that of the training data next to it."""
    file, names = Path(opened.path).absolute(), opened.dataset.class_names
    train = train_beside(file.parent)
    if not names or not train or "classes" in opened.options or file.name not in METADATA_NAMES:
        return
    others = _read_class_names(train / file.name, opened.options.get("label"))
    if others and names != others[: len(names)]:
        every = sorted({*names, *others})
        given = every if len(every) <= _MOST_NAMED else "[...]"
        yield (
            f"{file.parent} has {counted(len(names), 'class')} and {train} {len(others)}, so that their numbers differ: give "
            f"both classes={given}"
        )


def _read_class_names(file: Path, label: object) -> tuple[str, ...]:
    """Return the class names in a metadata file's label column; empty if there are none or it cannot be read."""
    # Only a warning depends on this file.
    with suppress(OSError, SourceError, ValueError):
        table = read_table(file)
        column = label if isinstance(label, str) else find_label(table, [])[0]
        values = [value for value in table.columns.get(column or "", []) if value]
        return numbering_of(values, None).names
    return ()


def warn_manifest(opened: Opened) -> list[str]:
    """Return warnings about a metadata.jsonl: images that it does not name, paths without an image, and unread boxes."""
    path = Path(opened.path).absolute()
    if path.name not in METADATA_NAMES or path.stat().st_size > _MOST_BYTES:
        return []
    try:
        table = read_json_lines(path)
        names = find_image_files(table, image_column(table), path.parent, strict=False)
    except SourceError:  # another kind of file, or one with bad lines, which become bad samples
        return []
    return [*about_files(path.parent, str(path), names), *about_objects(table)]


def warn_unread(root: Path, _images: Sequence[Path]) -> Iterator[str]:
    """Yield warnings about tables that describe a folder's images and are not read; see `Format.warn_unread`."""
    for name in ("metadata.csv", "metadata.parquet"):
        if (root / name).is_file():
            yield f"{root} is read without {root / name}: to have what it says of the images, name them in a column file_name"
    for path in tables_about(root):
        where = "" if path.parent == root else f", root={str(root)!r}"
        yield f"{root} is read without the rows of {path}: open that file to have them, open_dataset({str(path)!r}{where})"
