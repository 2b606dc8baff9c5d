"""Parsing YAML of datasets into plain values of limited size, also through references."""

from typing import Any

_MOST_BYTES = 16 << 20
"""A dataset of Energon has a line for each shard; lists of classes have less than 1 MB."""
_MOST_DEPTH = 100
"""As in recipe files: the parser takes quadratic time for nested brackets."""
_MOST_SHOWN = 200
"""Characters of an error message, since it quotes the file."""
_MOST_REFERRED = 100_000
"""Values that references stand for, as in recipe files."""


def parse_yaml(text: str) -> Any:
    """Return the values in a YAML text, without executing anything.

    Raises:
        ValueError: It is no YAML, too large or too deep, or its references (``*name``) stand for too many values.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer
    from ruamel.yaml.error import YAMLError

    class Limited(Composer):
        """Raises an error for values that are too deep, and counts the values of references before they are built."""

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
    """Count the values below a node; those of references count each time.

    Args:
        node: Of a document; None for an empty one.
        written: Counts of nodes that are done; added to.
    """
    if id(node) in written:
        return written[id(node)]
    written[id(node)] = _MOST_REFERRED + 1  # for one that refers to itself
    value = getattr(node, "value", None)
    inside = [part for one in value for part in (one if isinstance(one, tuple) else (one,))] if isinstance(value, list) else []  # fmt: skip
    written[id(node)] = 1 + sum(_num_values(part, written) for part in inside)
    return written[id(node)]
