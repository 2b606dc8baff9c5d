"""YAML as plain values with their lines, read by the rules of YAML 1.2 and without tags."""

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from gpu_aug.errors import RecipeError
from gpu_aug.files.limits import Keys, excess

# Tags of YAML's own types begin with this.
_TAG = "tag:yaml.org,2002:"
# Types that become Python's; all others are refused, so that a file runs nothing.
_SCALARS = tuple(f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float"))
# Types that stay text, such as a date.
_TEXTS = tuple(f"{_TAG}{kind}" for kind in ("str", "timestamp", "value"))


def read_yaml(text: str, name: str) -> tuple[Any, dict[Keys, int]]:
    """Return the value of a YAML text, and the line, from 1, of each of its parts.

    Raises:
        RecipeError: The text is not YAML, or holds more than a recipe may.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _Composer
    try:
        node = yaml.compose(text)
        if node is None:
            raise RecipeError(f"{name}:1: the file is empty: it must hold a recipe")
        builder = _Builder(name, yaml.constructor)
        return builder.build(node, ()), builder.lines
    except _ExcessError as error:
        raise RecipeError(f"{name}:{error.line}: {error}") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"it holds the character {error.character:#04x}, which is no text"
    except MarkedYAMLError as error:
        mark, begun = error.problem_mark, error.context_mark
        line = mark.line + 1 if mark else 1
        what = error.problem or str(error)
        if begun and begun.line + 1 < line:
            what += f" ({error.context} that begins on line {begun.line + 1})"
    except YAMLError as error:
        line, what = 1, str(error)
    raise RecipeError(f"{name}:{line}: the file cannot be read as YAML: {what}")


class _ExcessError(Exception):
    """An error for a document that is too large or too deep.

    Attributes:
        line: Line of the first value beyond the limit.
    """

    def __init__(self, why: str, line: int) -> None:
        super().__init__(why)
        self.line = line


class _Composer(Composer):
    """A composer of YAML nodes that stops as soon as the document is too large."""

    num_nodes = num_open = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.num_nodes += 1
        self.num_open += 1
        if why := excess(self.num_nodes, self.num_open):
            raise _ExcessError(why, self.parser.peek_event().start_mark.line + 1)
        node = super().compose_node(parent, index)
        self.num_open -= 1
        return node


class _Builder:
    """Builds plain values from YAML nodes and records their lines; it stops if references unfold to too many values."""

    def __init__(self, name: str, constructor: Any) -> None:
        self.lines: dict[Keys, int] = {}
        self._name, self._constructor, self._count = name, constructor, 0

    def build(self, node: Node, keys: Keys) -> Any:
        """Return the value of the node whose path in the document is ``keys``."""
        self._count += 1
        line = self.lines[keys] = _line(node)
        if why := excess(self._count, len(keys)):
            raise _ExcessError(why, line)
        if isinstance(node, SequenceNode):
            return [self.build(item, (*keys, number)) for number, item in enumerate(node.value)]
        if isinstance(node, MappingNode):
            return self._dictionary(node, keys)
        return self._scalar(node)

    def _dictionary(self, node: MappingNode, keys: Keys) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged |= self._merged(value_node, keys)
                continue
            key = self._key(key_node)
            if key in values:
                raise self._fault(key_node, f"the key {key!r} is repeated")
            values[key] = self.build(value_node, (*keys, key))
            self.lines[(*keys, key)] = _line(key_node)
        return merged | values

    def _merged(self, node: Node, keys: Keys) -> dict[str, Any]:
        """Return the dictionaries after a merge key <<, merged; values of earlier ones take precedence."""
        merged: dict[str, Any] = {}
        for source in reversed(node.value if isinstance(node, SequenceNode) else [node]):
            if not isinstance(source, MappingNode):
                raise self._fault(node, "<< must be followed by a mapping")
            merged |= self.build(source, keys)
        return merged

    def _key(self, node: Node) -> str:
        key = self._scalar(node) if isinstance(node, ScalarNode) else "a list or dictionary"
        if not isinstance(key, str) or not isinstance(node, ScalarNode):
            raise self._fault(node, f"a key must be text, got {key}: put it in quotes")
        return key

    def _scalar(self, node: Node) -> Any:
        if node.tag in _TEXTS:
            return str(node.value)
        if node.tag not in _SCALARS:
            raise self._fault(
                node, f"the tag {node.tag} is not read from files: write plain values"
            )
        try:
            return self._constructor.construct_object(node)
        except ValueError:  # thousands of digits
            raise self._fault(node, f"{node.value[:40]}... is no number") from None

    def _fault(self, node: Node, text: str) -> RecipeError:
        return RecipeError(f"{self._name}:{_line(node)}: {text}")


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1
