"""The rows of one split, where a column tells the split of each."""

from collections import Counter

from readers.detect.splits import choose_split_of_column
from readers.formats.path_table.roles import find_split
from readers.formats.path_table.table import Table


def choose_rows(
    table: Table, split: str | None, column: str | None, is_named: bool
) -> tuple[Table, str]:
    """Return the rows of a split, all of them where they are of one; and a sentence about rows without a split, or "".

    Args:
        table: All rows.
        split: The split, None where there is but one.
        column: The column that tells it; None looks for the usual name.
        is_named: See `choose_split_of_column`.

    Raises:
        SourceError: There is no such column or split, or there are several and none was asked for.
    """
    found = find_split(table, column)
    values = table.columns[found] if found else []
    told = ["" if value is None else str(value).strip() for value in values]
    wanted, remark = choose_split_of_column(
        Counter(told), split, table.source, is_named, found or "split"
    )
    if wanted is None:
        return table, remark
    return table.only([row for row, value in enumerate(told) if value == wanted]), remark
