"""Documents: YAML and JSON files as plain values, with the line of every value.

YAML is read by the rules of YAML 1.2 (`on` is text, `1e-3` a number), without tags: a document holds
lists, dictionaries, text, numbers, true, false and null, and can run nothing.
"""

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from gpu_aug.errors import RecipeError

Place = tuple[str | int, ...]
"""Where a value stands in a document: keys of dictionaries and places in lists."""

SUFFIXES = (".yaml", ".yml", ".json")

_MOST_BYTES = 1 << 20
_MOST_VALUES = 100_000
_MOST_DEPTH = 100
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Document:
    """A file's value, and where each of its parts stands.

    Attributes:
        name: The file's path, for errors.
        value: Lists, dictionaries with text as keys, text, numbers, bool and None.
        lines: The line, from 1, on which the value at each place begins; of a dictionary's value, that
            of its key.
    """

    name: str
    value: Any
    lines: dict[Place, int]

    def fault(self, place: Place, text: str) -> RecipeError:
        """Return the error "file:line: text" for a value; of a missing one, for what should hold it."""
        while place and place not in self.lines:
            place = place[:-1]
        return RecipeError(f"{self.name}:{self.lines.get(place, 1)}: {text}")


def read_document(path: str | PathLike[str]) -> Document:
    """Read a file that ends with .json, .yaml or .yml; any other is JSON if it starts with { or [.

    Raises:
        RecipeError: It cannot be read, is neither, or has a key twice. ``file:line`` stands first.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        text = content.decode("utf-8-sig") if len(content) <= _MOST_BYTES else ""
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"recipe file {str(path)!r} cannot be read ({error}): give a YAML or JSON file such as "
            "Recipe.save writes, or name a preset in Recipe.preset(name)"
        ) from error
    if len(content) > _MOST_BYTES:
        raise RecipeError(
            f"{path}:1: the file is too large for a recipe: it may have {_MOST_BYTES} bytes, and "
            "this one has more: give the file of a recipe"
        )
    ending = path.suffix.lower()
    is_json = ending == ".json" or (
        ending not in (".yaml", ".yml") and text.lstrip()[:1] in ("{", "[")
    )
    return parse_json(text, str(path)) if is_json else parse_yaml(text, str(path))


def parse_json(text: str, name: str = "<text>") -> Document:
    """Read JSON text; ``name`` stands for the file in errors."""
    builder = _Builder(name)
    decoder = json.JSONDecoder()
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def line_at(place: int) -> int:
        return bisect_right(starts, place)

    def wrong(place: int, what: str) -> RecipeError:
        return RecipeError(f"{name}:{line_at(place)}: the file cannot be read as JSON: {what}")

    def skip(at: int) -> int:
        found = _SPACE.match(text, at)
        return found.end() if found else at

    def value_at(at: int, place: Place) -> tuple[Any, int]:
        builder.enter(place, line_at(at))
        if text[at : at + 1] == "{":
            return members(at, place, "}")
        if text[at : at + 1] == "[":
            return members(at, place, "]")
        return scalar_at(at)

    def scalar_at(at: int) -> tuple[Any, int]:
        try:
            return decoder.raw_decode(text, at)
        except ValueError as error:
            raise wrong(at, getattr(error, "msg", str(error))) from None

    def members(at: int, place: Place, end: str) -> tuple[Any, int]:
        values: dict[Any, Any] = {}
        at = skip(at + 1)
        while text[at : at + 1] != end:
            key: str | int = len(values)
            if end == "}":
                if text[at : at + 1] != '"':
                    raise wrong(at, 'a key in " or the closing } is missing')
                first = at
                key, at = scalar_at(at)
                at = skip(at)
                if text[at : at + 1] != ":":
                    raise wrong(at, f"a colon is missing after {key!r}")
                builder.check_key(key, values, line_at(first))
                at = skip(at + 1)
            values[key], at = value_at(at, (*place, key))
            if end == "}":
                builder.lines[(*place, key)] = line_at(first)
            at = skip(at)
            if text[at : at + 1] == ",":
                at = skip(at + 1)
                if text[at : at + 1] == end:
                    raise wrong(at, f"a value is missing after the last comma, before {end}")
            elif text[at : at + 1] != end:
                raise wrong(at, f"a comma or {end} is missing")
        return (values if end == "}" else list(values.values())), at + 1

    value, at = value_at(skip(0), ())
    if skip(at) != len(text):
        raise wrong(skip(at), "there is more after its end")
    return Document(name, value, builder.lines)


def parse_yaml(text: str, name: str = "<text>") -> Document:
    """Read YAML text; ``name`` stands for the file in errors."""
    import yaml

    builder = _Builder(name)
    try:
        node = yaml.compose(text, _yaml_loader(name))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise RecipeError(
            f"{name}:{line}: the file cannot be read as YAML: it holds the character "
            f"{error.character:#04x}, which is no text"
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or str(error)
        begun = getattr(error, "context_mark", None)
        if begun and begun.line + 1 < line:
            problem += f" ({error.context} that begins on line {begun.line + 1})"
        raise RecipeError(f"{name}:{line}: the file cannot be read as YAML: {problem}") from None
    if node is None:
        raise RecipeError(f"{name}:1: the file is empty: it must hold a recipe")

    def build(node: Any, place: Place) -> Any:
        line = node.start_mark.line + 1
        builder.enter(place, line)
        if isinstance(node, yaml.SequenceNode):
            return [build(item, (*place, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            values: dict[str, Any] = {}
            merged: dict[str, Any] = {}
            for key_node, value_node in node.value:
                if key_node.tag == "tag:yaml.org,2002:merge":
                    sources = (
                        value_node.value
                        if isinstance(value_node, yaml.SequenceNode)
                        else [value_node]
                    )
                    for source in reversed(sources):
                        if not isinstance(source, yaml.MappingNode):
                            raise RecipeError(f"{name}:{line}: << must be followed by a mapping")
                        merged |= build(source, place)
                    continue
                key = build(key_node, (*place, "?"))
                builder.lines.pop((*place, "?"))
                builder.check_key(key, values, key_node.start_mark.line + 1)
                values[key] = build(value_node, (*place, key))
                builder.lines[(*place, key)] = key_node.start_mark.line + 1
            return merged | values
        known = _SCALARS.get(node.tag)
        if known is None:
            raise RecipeError(
                f"{name}:{line}: the tag {node.tag} is not read from files: write plain values"
            )
        try:
            return known(node.value)
        except ValueError:  # thousands of digits
            raise RecipeError(f"{name}:{line}: {node.value[:40]}... is no number") from None

    return Document(name, build(node, ()), builder.lines)


def write_document(value: Any, path: str | PathLike[str]) -> None:
    """Write plain values as YAML where the path ends with .yaml or .yml, else as JSON."""
    path = Path(path)
    if path.suffix.lower() in (".yaml", ".yml"):
        import yaml

        text = yaml.safe_dump(
            value, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None
        )
    else:
        text = json.dumps(value, indent=2) + "\n"
    path.write_text(text, encoding="utf-8")


class _Builder:
    """Notes lines, and stops documents that are built to fill the memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[Place, int] = {}
        self._count = 0

    def enter(self, place: Place, line: int) -> None:
        self._count += 1
        if why := _excess(self._count, len(place)):
            raise RecipeError(f"{self.name}:{line}: {why}")
        self.lines[place] = line

    def check_key(self, key: Any, values: dict[Any, Any], line: int) -> None:
        if not isinstance(key, str):
            raise RecipeError(
                f"{self.name}:{line}: a key must be text, got {key!r}: put it in quotes"
            )
        if key in values:
            raise RecipeError(f"{self.name}:{line}: the key {key!r} stands here a second time")


def _excess(num_values: int, depth: int) -> str:
    """Return what is wrong with so many values, or values so deep; "" where nothing is."""
    if depth > _MOST_DEPTH:
        return (
            f"the file is too deep for a recipe: values stand in each other more than {_MOST_DEPTH} deep: take out "
            "levels, and in YAML references (*name) to what they stand in"
        )
    if num_values > _MOST_VALUES:
        return (
            f"the file is too large for a recipe: it holds more than {_MOST_VALUES} values: take out values, and "
            "in YAML references (*name), each of which counts as all that it refers to"
        )
    return ""


def _whole(text: str) -> int:
    text = text.replace("_", "")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    base = {"0x": 16, "0o": 8}.get(digits[:2].lower(), 10)
    return sign * int(digits, base)


def _real(text: str) -> float:
    text = text.lower().replace("_", "")
    if text.lstrip("+-") == ".inf":
        return -math.inf if text.startswith("-") else math.inf
    return math.nan if text == ".nan" else float(text)


_SCALARS: dict[str, Callable[[str], Any]] = {
    "tag:yaml.org,2002:null": lambda _: None,
    "tag:yaml.org,2002:bool": lambda text: text.lower() == "true",
    "tag:yaml.org,2002:int": _whole,
    "tag:yaml.org,2002:float": _real,
    "tag:yaml.org,2002:str": str,
}

_RESOLVERS = [  # YAML 1.2 core schema, and its merge key
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*|0[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    ("merge", r"<<", ["<"]),
]


def _yaml_loader(name: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Stops at what is too large while it is read."""

        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}
        num_nodes = depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.num_nodes += 1
            self.depth += 1
            if why := _excess(self.num_nodes, self.depth):
                line = self.peek_event().start_mark.line + 1
                raise RecipeError(f"{name}:{line}: {why}")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    for tag, pattern, first in _RESOLVERS:
        Loader.add_implicit_resolver(
            f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first
        )
    return Loader
