"""Documents: YAML and JSON files as plain values, with the line of every value.

YAML is read by the rules of YAML 1.2 (`on` is text, `1e-3` a number), without tags: a document consists of lists, dictionaries,
text, numbers, true, false and null, and cannot run code.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from gpu_aug.errors import RecipeError
from gpu_aug.files.limits import MOST_BYTES, MOST_DEPTH, Keys, excess

# Endings of recipe files.
SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Document:
    """The value of a file, with the line of each part.

    Attributes:
        name: Path of the file, for errors; "" for values that come from no file.
        value: The value: lists, dictionaries with text as keys, text, numbers, bool and None.
        text: Content of the file.
    """

    name: str
    value: Any
    text: str

    @cached_property
    def lines(self) -> dict[Keys, int]:
        """Line, from 1, on which each value begins, by its keys; for a value in a dictionary, the line of its key."""
        from gpu_aug.files.yaml_reader import read_yaml

        try:
            return read_yaml(self.text.replace("\t", " "), self.name)[1]  # YAML holds JSON
        except RecipeError:  # but for keys of more than 1024 characters
            return {}

    def fault(self, keys: Keys, text: str) -> RecipeError:
        """Return the error "file:line: text" for a value, or for its container if the value is missing.

        Without a file the error is only ``text``.
        """
        if not self.name:
            return RecipeError(text)
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return RecipeError(f"{self.name}:{self.lines.get(keys, 1)}: {text}")


def read_document(path: str | PathLike[str]) -> Document:
    """Return the content of a JSON or YAML file.

    The ending .json, .yaml or .yml decides; files with other endings are JSON if they start with { or [, and YAML otherwise.

    Raises:
        RecipeError: The file cannot be read, is neither JSON nor YAML, or has a repeated key. The text begins with
            ``file:line``.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode("utf-8-sig") if len(content) <= MOST_BYTES else ""
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"recipe file {str(path)!r} "
            f"{'is missing' if isinstance(error, FileNotFoundError) else f'cannot be read ({error})'}: give a YAML or "
            "JSON file such as Recipe.save or A.save writes, or name a preset in Recipe.preset(name)"
        ) from error
    if len(content) > MOST_BYTES:
        raise RecipeError(
            f"{path}:1: the file is too large for a recipe: it may have {MOST_BYTES} bytes, and "
            "this one has more: give the file of a recipe"
        )
    ending = path.suffix.lower()
    is_json = ending == ".json" or (
        ending not in (".yaml", ".yml") and text.lstrip()[:1] in ("{", "[")
    )
    return parse_json(text, str(path)) if is_json else parse_yaml(text, str(path))


def parse_json(text: str, name: str = "<text>") -> Document:
    """Return JSON text as a Document; errors call the file ``name``."""
    try:
        value = json.loads(text, object_pairs_hook=_as_dictionary)
    except KeyError as error:
        [key] = error.args
        line = text.count("\n", 0, text.rfind(json.dumps(key))) + 1
        raise RecipeError(f"{name}:{line}: the key {key!r} is repeated") from None
    except ValueError as error:
        line, what = getattr(error, "lineno", 1), getattr(error, "msg", error)
        raise RecipeError(f"{name}:{line}: the file cannot be read as JSON: {what}") from None
    except RecursionError:
        raise RecipeError(f"{name}:1: {excess(0, MOST_DEPTH + 1)}") from None
    level, depth, num_values = [value], 0, 0
    while level:
        depth, num_values = depth + 1, num_values + len(level)
        if why := excess(num_values, depth):
            raise RecipeError(f"{name}:1: {why}")
        holding = [one for one in level if isinstance(one, dict | list)]
        inner = [one.values() if isinstance(one, dict) else one for one in holding]
        level = [item for items in inner for item in items]
    return Document(name, value, text)


def _as_dictionary(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise KeyError(key)
        values[key] = value
    return values


def parse_yaml(text: str, name: str = "<text>") -> Document:
    """Return YAML text as a Document; errors call the file ``name``."""
    from gpu_aug.files.yaml_reader import read_yaml

    return Document(name, read_yaml(text, name)[0], text)


def write_document(value: Any, path: str | PathLike[str]) -> None:
    """Write plain values as YAML if the path ends with .yaml or .yml, and as JSON otherwise."""
    path = Path(path)
    if path.suffix.lower() in (".yaml", ".yml"):
        from ruamel.yaml import YAML

        yaml = YAML(typ="safe", pure=True)
        yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment] # declared as None
        yaml.width, yaml.default_flow_style = 100, None
        yaml.dump(value, path)
    else:
        path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
