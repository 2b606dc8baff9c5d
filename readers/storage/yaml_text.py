"""Parse YAML files of datasets into plain values, with limits on their size and depth."""

from typing import Any

_MOST_BYTES = 16 << 20
"""Longest text: a dataset of Energon has a line for each shard, and lists of classes have less than 1 MB."""
_MOST_DEPTH = 100
"""Deepest nesting, as in recipe files: the parser takes quadratic time for nested brackets."""
_MOST_SHOWN = 200
"""Largest number of characters in an error, since it quotes the file."""
_MOST_REFERRED = 100_000
"""Largest number of values after references (``*name``) are replaced, as in recipe files: they can grow exponentially."""


def parse_yaml(text: str) -> Any:
    """Return the value that a YAML text describes: dicts, lists, texts, numbers; tags that run code are refused.

    Raises:
        ValueError: The text is not valid YAML, is too long or too deeply nested, or its references (``*name``) stand for too
            many values.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer
    from ruamel.yaml.error import YAMLError

    class Limited(Composer):
        """A composer that refuses values that are nested too deeply, or too many values, before they are built."""

        depth = 0

        def compose_document(self) -> Any:
            node = super().compose_document()
            written: dict[int, int] = {}
            if _num_values(node, written) > max(len(written), _MOST_REFERRED):
                raise ValueError(
                    f"references (*name) make more than {_MOST_REFERRED} values of it: write out what is needed"
                )
            return node

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.depth += 1
            if self.depth > _MOST_DEPTH:
                raise ValueError(f"values stand in each other more than {_MOST_DEPTH} deep")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    if len(text) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES} characters")
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = Limited
    try:
        return yaml.load(text)
    except YAMLError as error:
        raise ValueError(" ".join(str(error).split())[:_MOST_SHOWN]) from None


def _num_values(node: Any, written: dict[int, int]) -> int:
    """Return the number of values in a node and below it; a value counts again for each reference to it.

    Args:
        node: A node of a YAML document; None for an empty document.
        written: Counts of finished nodes by id; this function adds to it.
    """
    if id(node) in written:
        return written[id(node)]
    written[id(node)] = _MOST_REFERRED + 1  # for one that refers to itself
    value = getattr(node, "value", None)
    inside = [part for one in value for part in (one if isinstance(one, tuple) else (one,))] if isinstance(value, list) else []  # fmt: skip
    written[id(node)] = 1 + sum(_num_values(part, written) for part in inside)
    return written[id(node)]
