"""The texts of tasks and subtasks, by their numbers."""

from pathlib import Path

from readers.formats.lerobot.meta import Feature, Info
from readers.formats.lerobot.tables import Table, to_array
from readers.sample import SourceError

_WORDS = ("task", "subtask")
_TEXT_COLUMNS = ("__index_level_0__",)  # what pandas calls an index without a name


def read_all_texts(root: Path, info: Info) -> dict[str, dict[int, str]]:
    """Read the texts that features of the dataset refer to, by word: "task", "subtask"; see `read_texts`."""
    return {word: read_texts(root, word) for word in _WORDS if f"{word}_index" in info.features}


def read_texts(root: Path, word: str) -> dict[int, str]:
    """Read meta/tasks.parquet or meta/subtasks.parquet: number -> text.

    The text is the table's index, whose column has the word as its name or pandas' own; rows may come in any
    order.

    Args:
        root: Folder of the dataset.
        word: "task" or "subtask".

    Raises:
        SourceError: It is missing, or has no such columns.
    """
    name = f"meta/{word}s.parquet"
    if not (root / name).is_file():
        raise SourceError(f"{root} has no {name}, which its {word}_index refers to: copy it whole")
    table = Table(root, name)
    footer = table.footer()
    column = next((each for each in (word, *_TEXT_COLUMNS) if each in footer.names), None)
    if column is None:
        raise SourceError(
            f"{name} of {root} has no column of texts called {word!r} or {_TEXT_COLUMNS[0]!r}: write it with lerobot"
        )
    number, text = Feature(f"{word}_index", "number", "int64", ()), Feature(column, "text", "", ())
    found: dict[int, str] = {}
    for group in table.groups([number.name, column]):
        numbers = to_array(group.column(number.name), number, name).tolist()
        for key, value in zip(numbers, to_array(group.column(column), text, name), strict=True):
            if found.setdefault(key, value) != value:
                raise SourceError(
                    f"{name} of {root} has two texts for {word}_index {key}: give each a number of its own"
                )
    return found
