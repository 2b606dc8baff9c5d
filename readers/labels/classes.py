"""Read the names of classes, and turn labels that are text into class numbers."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from readers.describe import few_of
from readers.formats.columns import LABEL_LIMIT, shorten
from readers.plural import counted
from readers.sample import PathLike, SourceError
from readers.storage.whole_files import read_text

_INTEGER = re.compile(r"-?[0-9]+")  # numbers that are too large are refused and not taken for names
# Numbers to regress, which are no names of classes.
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")

Classes = PathLike | Sequence[str] | Mapping[str, int]
"""What ``classes=`` takes: names in the order of their numbers, or a text file with one name per line."""


def read_classes(classes: Classes | None) -> tuple[str, ...] | None:
    """Return class names in the order of their numbers; None if `classes` is None.

    Args:
        classes: A list of names; a dict from names to the numbers 0 to K - 1; or the path of a text file with one name
            per line, in which empty lines are skipped.

    Raises:
        SourceError: The file cannot be read, or there are no names, or a name is not a text or occurs twice.
    """
    if classes is None:
        return None
    if isinstance(classes, (str, os.PathLike)):
        return _checked(_read_names(Path(classes)), f"the file of classes {os.fspath(classes)}")
    if isinstance(classes, Mapping):
        names = sorted(classes, key=lambda name: classes[name])
        if [classes[name] for name in names] != list(range(len(names))):
            raise SourceError(
                f"classes= numbers {len(names)} names, but not from 0 to {len(names) - 1}: give a list of names in the "
                "order of their numbers"
            )
        return _checked(names, "classes=")
    return _checked(list(classes), "classes=")


def _read_names(path: Path) -> list[str]:
    try:
        lines = read_text(path, "text").splitlines()
    except SourceError as error:
        raise SourceError(
            f"the file of classes {error}: give a list of names, or a text file with a name per line"
        ) from None
    return [line.strip() for line in lines if line.strip()]


def _checked(names: Sequence[str], source: str) -> tuple[str, ...]:
    if not names or not all(isinstance(name, str) and name for name in names):
        wrong = next((name for name in names if not (isinstance(name, str) and name)), names)
        raise SourceError(
            f"{source} must hold names of classes, got {shorten(wrong)}: give at least one name, in the order of the "
            "class numbers"
        )
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise SourceError(f"{source} names the class {twice!r} twice: give each name once")
    return tuple(names)


class Numbering:
    """A mapping from labels, which are names or integers, to class numbers.

    Args:
        names: Class names in the order of their numbers; empty if the classes have no names.
        as_numbers: Whether labels that are text are parsed as integers rather than looked up in `names`.
    """

    def __init__(self, names: tuple[str, ...], *, as_numbers: bool) -> None:
        self.names, self._as_numbers = names, as_numbers
        self._numbers = {name: number for number, name in enumerate(names)}

    def number(self, label: str | int) -> int:
        """Return the class number of a label; the integer -1 is returned unchanged, as it means "no label".

        Raises:
            ValueError: The label is not a known class; the text is a short reason.
        """
        if isinstance(label, str) and not self._as_numbers:
            if label not in self._numbers:
                raise ValueError(self._unknown(label))
            return self._numbers[label]
        number = int(label)
        if not -1 <= number < (len(self.names) or LABEL_LIMIT):
            raise ValueError(self._unknown(label))
        return number

    def _unknown(self, label: str | int) -> str:
        if not self.names:
            return f"the label {shorten(label)} is no class number, which is from 0 to 2**63 - 1, or -1 for none: names that look so need classes=[...]"
        return f"the label {shorten(label)} is not among the {counted(len(self.names), 'class')} ({few_of(self.names)})"


def numbering_of(labels: Iterable[str | int], classes: tuple[str, ...] | None) -> Numbering:
    """Return the mapping from labels to class numbers, after deciding whether the labels are names or numbers.

    Labels that are integers are class numbers. Labels that are text are class names; but if all texts look like integers
    and none of them is among `classes`, they are class numbers.

    Args:
        labels: All labels of a dataset.
        classes: Class names in the order of their numbers; None numbers the names among the labels in sorted order.

    Raises:
        ValueError: `classes` is None, and the labels mix integers with names or contain a decimal number; the text is a
            short reason.
    """
    different = set(labels)
    texts = {one for one in different if isinstance(one, str)}
    integers = {one for one in texts if _INTEGER.fullmatch(one)}
    if classes is not None:
        return Numbering(classes, as_numbers=texts == integers and integers.isdisjoint(classes))
    numbers = [*sorted(integers), *sorted(one for one in different if not isinstance(one, str))]
    names = sorted(texts - integers)
    decimal = next((name for name in names if _DECIMAL.fullmatch(name)), None)
    if decimal is not None:
        raise ValueError(
            f"the label {shorten(decimal)} is no whole number: numbers to regress are vectors (of a table label=[column]), "
            "names that look so need classes=[...]"
        )
    if names and numbers:
        raise ValueError(
            f"some labels are whole numbers ({shorten(numbers[0])}) and others are names ({shorten(names[0])}): say what "
            "each means with classes=[...]"
        )
    return Numbering(tuple(names), as_numbers=not names)
