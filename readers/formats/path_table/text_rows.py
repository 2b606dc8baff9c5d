"""Reading of CSV and TSV files; cells stay text, so that "0007" keeps its zeros and "NA" is not a missing value."""

import codecs
import csv
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from itertools import islice
from pathlib import Path

from readers.describe import few_of
from readers.formats.columns import require_unique
from readers.formats.path_table.table import Table
from readers.plural import counted
from readers.sample import VIDEO_FIELDS, SourceError, is_image_file
from readers.storage.limits import check_bytes
from readers.storage.whole_files import TEXT_TIMES, open_regular, read_head

DELIMITERS = (",", ";", "\t")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # the first also begins UTF-32
_LOOKED_AT = 20  # rows that are read to find the delimiter
_VIDEO_ENDINGS = tuple(f".{name}" for name in VIDEO_FIELDS)


def read_text_table(path: Path, delimiter: str | None, header: Sequence[str] | None) -> Table:
    """Return the rows of a UTF-8 text table.

    The first row is the header, unless it names an image or video file; then the columns are image and label, in either
    order, unless ``header`` names them. A column without a name, as pandas writes its index, is left out.

    Args:
        path: Path of the file.
        delimiter: Character between cells; None to recognise comma, semicolon or tab.
        header: Names of the columns, for a file without a header row; None otherwise.

    Raises:
        SourceError: The file cannot be read or has no rows, a row has too few or too many cells, or two columns have one
            name.
    """
    if delimiter is not None and len(delimiter) != 1:
        raise SourceError(f"delimiter={delimiter!r} must be one character, such as ',' or '\\t'")
    delimiter = delimiter or find_delimiter(path)
    names: list[str] | None = None if header is None else list(header)
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, cells in rows_of(path, delimiter):
        if names is None:
            names, is_header = _names_of(path, [cell.strip() for cell in cells])
            if is_header:
                continue
        if len(cells) != len(names):
            raise SourceError(
                f"{path}, line {line} has {counted(len(cells), 'cell')}, the header {len(names)} ({few_of(names)}): quote "
                "cells that hold the delimiter, or name it with delimiter="
            )
        rows.append(cells)
        lines.append(line)
    if not rows or names is None:
        raise SourceError(f"{path} has no rows: write a row for each image, such as cats/1.jpg,cat")
    require_unique(list(filter(None, names)), str(path))
    columns = {
        name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    columns.pop("", None)
    return Table(str(path), columns, lines)


def rows_of(path: Path, delimiter: str, most: int | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its last line, cells) of each row that is not empty.

    Args:
        path: Path of the file.
        delimiter: Character between cells.
        most: Number of rows after which reading stops; None for all.

    Raises:
        SourceError: The file cannot be read.
    """
    line = 0
    try:
        check_bytes(path.stat().st_size, "it", times=TEXT_TIMES)
        head = read_head(path, 4)
        if head[:2] in _UTF16 or b"\0" in head:
            raise SourceError(f"{path} is in UTF-16 or UTF-32: write it as CSV in UTF-8")
        with TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
            for cells in islice(reader, most):
                line = reader.line_num
                if any(map(str.strip, cells)):
                    yield line, cells
    except FileNotFoundError:
        raise SourceError(f"{path} does not exist: give a file that is there") from None
    except csv.Error as error:
        raise csv_refusal(path, reader.line_num, error) from None
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{path} cannot be read as a table behind line {line} ({error}): write it as CSV in UTF-8"
        ) from None


def csv_refusal(path: Path, line: int, error: csv.Error) -> SourceError:
    """Return the error to raise if Python's csv module cannot read a line."""
    # The limit of Python's csv module is global to the process, so only the user may raise it.
    advice = (
        "write it as CSV in UTF-8"
        if "field limit" not in str(error)
        else (
            f"a cell may have {csv.field_size_limit():,} characters: close the quote of the cell, shorten it, or call "
            "csv.field_size_limit(n) before for more"
        )
    )
    return SourceError(f"{path}, line {line} cannot be read as a table ({error}): {advice}")


def find_delimiter(path: Path) -> str:
    """Return the delimiter that splits all of the first 20 rows into an equal number of cells, more than one.

    If there is none, return the delimiter that is most frequent in the first row.

    Raises:
        SourceError: Several delimiters fit.
    """
    fitting = []
    for delimiter in DELIMITERS:
        try:
            counts = {len(cells) for _, cells in rows_of(path, delimiter, _LOOKED_AT)}
        except SourceError:
            continue
        if len(counts) == 1 and counts != {1}:
            fitting.append(delimiter)
    if len(fitting) > 1:
        raise SourceError(
            f"{path} may be separated by {' or '.join(map(repr, fitting))}: say which with delimiter="
        )
    if fitting:
        return fitting[0]
    first = next(rows_of(path, "\0", 1), (0, [""]))[1][0]
    return max(DELIMITERS, key=first.count)


def names_a_file(cell: str) -> bool:
    """Return whether a cell is the path of an image or video, by its ending."""
    return is_image_file(cell) or cell.lower().endswith(_VIDEO_ENDINGS)


def _names_of(path: Path, cells: list[str]) -> tuple[list[str], bool]:
    """Return the names of the columns, and whether the first row is the header.

    A first row that names no image or video file is always the header.

    Args:
        path: Path of the file, for the error.
        cells: Cells of the first row.
    """
    files = [number for number, cell in enumerate(cells) if names_a_file(cell)]
    if not files:
        return cells, True
    if len(files) == 1 and len(cells) < 3:
        return ["image" if number in files else "label" for number in range(len(cells))], False
    raise SourceError(
        f"{path} has no row of names above its first file ({cells[files[0]]}): name its {len(cells)} columns with "
        'header=["image", ...]'
    )
