"""Choose the rows of one split by a column ``split`` of a table or of JSON lines; several splits are never mixed."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from readers.datasets.dataset import IndexedDataset
from readers.detect.splits import choose_split_of_column


def rows_of_split(
    dataset: IndexedDataset,
    reopen: Callable[[dict[str, Any]], Any],
    options: Mapping[str, Any],
    split: str | None,
    source: str,
    is_named: bool,
) -> tuple[IndexedDataset, list[str]]:
    """Return the samples whose column ``split`` names the requested split, and a list of warnings.

    The column is read once, which takes 5 us per row. A dataset without such a column is returned unchanged.

    Args:
        dataset: The dataset with the rows of all splits.
        reopen: Opens the dataset again, given other options.
        options: The options with which `dataset` was opened.
        split: The requested split; None if the caller requested none.
        source: Name of the data for warnings and errors.
        is_named: Whether files or folders are named after this split.

    Raises:
        SourceError: The requested split does not exist, or several exist and none is requested.
    """
    values = _column_of(dataset, reopen, options)
    wanted, remark = choose_split_of_column(Counter(values), split, source, is_named)
    remarks = [remark] if remark else []
    rows = [row for row, value in enumerate(values) if value == wanted]
    if wanted is None or len(rows) == len(values):
        return dataset, remarks
    if is_named:
        remarks.append(
            f"{source} is of the split {split!r} by its name, and {len(values) - len(rows):,} of its {len(values):,} rows are of "
            "no or another one by their column 'split': they are left out, and columns= without it keeps them"
        )
    chosen = dataset.take(rows)
    chosen.unlabelled = chosen._of_whole()
    return chosen, remarks


def _column_of(
    dataset: IndexedDataset,
    reopen: Callable[[dict[str, Any]], Any],
    options: Mapping[str, Any],
) -> list[str]:
    """Return the value of the column ``split`` for each sample; an empty list if there is no such column.

    No other column of a table is read.
    """
    if hasattr(dataset, "splits_of_lines"):
        return dataset.splits_of_lines()  # type: ignore[no-any-return]
    fields = (getattr(dataset, "whole", dataset).unlabelled or (0, (), ""))[1]
    column = next((name for name in fields if name.lower() == "split"), "")
    if not column:
        return []
    kept = {name: options[name] for name in options.keys() - {"image", "label", "key"}}
    rows = reopen({**kept, "columns": [column]})
    return [bytes(row.fields.get(column, b"")).decode("utf-8", "replace").strip() for row in rows]
