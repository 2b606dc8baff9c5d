"""The rows of one split, where a column tells the split of each."""

from readers.formats.path_table.roles import find_split
from readers.formats.path_table.table import Table
from readers.formats.splits import canonical, in_order, no_such_split, several_splits, split_of
from readers.sample import SourceError


def choose_rows(table: Table, split: str | None, column: str | None, name: str) -> Table:
    """Return the rows of a split; all of them where they are of one.

    Args:
        table: All rows.
        split: The split, None where there is but one.
        column: The column that tells it; None looks for the usual name.
        name: The name of the file or of its folder, which may tell a split where no column does.

    Raises:
        SourceError: There is no such column or split, or there are several and none was asked for.
    """
    found = find_split(table, column)
    if found is None:
        if split is not None and split_of(name.partition(".")[0]) != canonical(split):
            raise SourceError(
                f"{table.source} has no split {split!r}: it has no column 'split', and its name tells no such split; name the "
                "column with split_column=, or leave out split="
            )
        return table
    told = [str(value).strip() if value is not None else "" for value in table.columns[found]]
    there = in_order({value for value in told if value})
    if split is None:
        if len(there) > 1:
            raise SourceError(several_splits(table.source, there, ""))
        return table
    wanted = (
        [split] if split in there else [one for one in there if canonical(one) == canonical(split)]
    )
    if not wanted:
        raise SourceError(no_such_split(table.source, split, there))
    if len(wanted) > 1:
        raise SourceError(
            f"{table.source}: the split {split!r} may be {' or '.join(wanted)}: say one of these"
        )
    return table.only([row for row, value in enumerate(told) if value == wanted[0]])
