"""Label maps of TensorFlow's object detection: ``.pbtxt`` files with the numbers and names of classes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from readers.sample import PathLike, SourceError
from readers.storage.whole_files import read_text

Classes = PathLike | Sequence[str] | Mapping[int, str]
"""A label map as callers give it: path of a ``.pbtxt`` file, names of the numbers 1, 2, ..., or dict from number to name."""

_USUAL_NAME = "label_map.pbtxt"
_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<sign>[{}:;,<>])|"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)'|(?P<word>[-+.\w]+)"""
)
_ESCAPED = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True)
class LabelMap:
    """Mapping from the numbers and names in records to class numbers, which count from 0 in the order of the numbers.

    Attributes:
        names: Dict from number in records to name, sorted by number.
        source: Name of the file or argument that defines the map, for errors.
    """

    names: Mapping[int, str]
    source: str

    @cached_property
    def of_number(self) -> dict[int, int]:
        """Dict from number in records to class number."""
        return {number: label for label, number in enumerate(self.names)}

    @cached_property
    def number_of(self) -> dict[str, int]:
        """Dict from name to number in records."""
        return {name: number for number, name in self.names.items()}

    def to_class(self, number: int | None, text: str) -> int:
        """Return the class number of an object.

        Args:
            number: Number of the class in the record, None if it has none.
            text: Name of the class in the record, "" if it has none.

        Raises:
            ValueError: The number or the name is not in the map, or they belong to different classes.
        """
        if text and text not in self.number_of:
            raise ValueError(f"the class {text!r} is not in {self.source}")
        if number is not None and number not in self.of_number:
            raise ValueError(f"the label {number} is not in {self.source}")
        if text and number is not None and self.number_of[text] != number:
            raise ValueError(
                f"the class {text!r} has the number {self.number_of[text]} in {self.source}, and the label is {number}"
            )
        return self.of_number[self.number_of[text] if number is None else number]


def read_label_map(classes: Classes) -> LabelMap:
    """Return the label map that a caller gives as a path, names or a dict.

    Raises:
        SourceError: The file or the argument is no valid label map.
    """
    if isinstance(classes, Mapping):
        return _checked(list(classes.items()), "classes=")
    if not isinstance(classes, str) and isinstance(classes, Sequence):
        return _checked(list(enumerate(classes, 1)), "classes=")
    path = Path(classes)
    text = read_text(path, "a label map")
    try:
        return _checked(list(_items(_tokens(text))), path.name)
    except ValueError as error:
        raise SourceError(
            f"{path} is no label map ({error}): it has lines such as item {{ id: 1 name: 'person' }}"
        ) from None


def find_label_map(folder: Path) -> Path | None:
    """Return the path of the label map in a folder: ``label_map.pbtxt``, or else the only ``.pbtxt`` file; None without one.

    Raises:
        SourceError: There are several ``.pbtxt`` files and no ``label_map.pbtxt``.
    """
    found = sorted(folder.glob("*.pbtxt"))
    usual = [path for path in found if path.name == _USUAL_NAME]
    if len(usual or found) > 1:
        raise SourceError(
            f"{folder} has several label maps ({found[0].name}, {found[1].name}): name one with classes="
        )
    return next(iter(usual or found), None)


def _checked(pairs: Sequence[tuple[int, str]], source: str) -> LabelMap:
    for number, name in pairs:
        if type(number) is not int or number < 0 or not isinstance(name, str) or not name:
            raise SourceError(
                f"{source} must have whole numbers from 0 and names, got {number!r}: {name!r}"
            )
    names = dict(sorted(pairs))
    for kind, count in (("number", len(names)), ("name", len({*names.values()}))):
        if count < len(pairs):
            raise SourceError(f"{source} has the same {kind} for two classes: correct it")
    if not names:
        raise SourceError(f"{source} lists no classes: write an item for each")
    return LabelMap(names, source)


def _tokens(text: str) -> Iterator[str]:
    """Yield the signs, words and strings in a text; a string is yielded with a quotation mark in front."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"character {position} is none of this kind of file")
        position = found.end()
        string = found["double"] if found["double"] is not None else found["single"]
        if string is not None:
            yield f'"{_ESCAPED.sub(_unescape, string)}'
        elif found["sign"] or found["word"]:
            yield found["sign"] or found["word"]


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return chr(int(code[1:], 16)) if code[0] == "x" and code[1:] else _LETTERS.get(code, code)


def _items(tokens: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Yield (number, name) of each item; items within items (keypoints) are ignored."""
    depth, field, item = 0, "", dict[str, str]()
    for token in tokens:
        if token in "{<":
            depth += 1
            item = {} if depth == 1 else item
        elif token in "}>":
            depth -= 1
            if depth == 0:
                if not item.get("id", "").isdigit() or item.get("name", "")[:1] != '"':
                    raise ValueError("an item has no id or no name")
                yield int(item["id"]), item["name"][1:]
        elif token not in ":;," and depth == 1:
            if field:
                item[field] = token
            field = "" if field else token
        if token in "{<}>":
            field = ""
    if depth:
        raise ValueError("it ends within an item")
