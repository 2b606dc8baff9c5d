"""Records with named columns as samples: which column is the image, the label, the key, and what the rest becomes."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from readers.sample import Payload, SourceError

IMAGE_NAMES = ("image", "img", "jpg", "jpeg", "png", "webp", "image/encoded", "picture", "bytes")
LABEL_NAMES = ("label", "cls", "class", "target", "labels", "image/class/label")
KEY_NAMES = ("__key__", "key", "id", "name", "filename", "file_name", "image/filename", "path")


@dataclass(frozen=True, slots=True)
class Roles:
    """Which column of a record plays which part.

    Attributes:
        image: Holds the encoded image, None where no column looks like one.
        label: Holds the class number, or None.
        key: Names the sample for people, or None: then its number does.
    """

    image: str | None
    label: str | None
    key: str | None


def find_roles(
    names: Iterable[str], *, image: str | None, label: str | None, key: str | None, source: str
) -> Roles:
    """Take the columns that were named, and for the others the first of the usual names.

    Args:
        names: The columns that there are.
        image: Asked for by the caller, or None.
        label: Likewise.
        key: Likewise.
        source: The data, for the error.

    Raises:
        SourceError: A column that was asked for is not there.
    """
    there = list(names)

    def pick(role: str, asked: str | None, usual: tuple[str, ...]) -> str | None:
        if asked is not None and asked not in there:
            raise SourceError(
                f"{source} has no column {asked!r} for {role}=: its columns are {', '.join(there)}"
            )
        return asked or next((name for name in usual if name in there), None)

    return Roles(
        pick("image", image, IMAGE_NAMES),
        pick("label", label, LABEL_NAMES),
        pick("key", key, KEY_NAMES),
    )


def to_payload(value: Any) -> Payload:
    """The bytes that stand for a column's value in a sample's fields.

    Bytes stay as they are and text becomes UTF-8; numbers, lists and dictionaries become JSON, so the
    number 7 is ``b"7"`` as in a ``.cls`` file.

    Raises:
        TypeError: JSON cannot hold the value.
    """
    if isinstance(value, bytes | memoryview):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def to_label(value: Any) -> int:
    """A column's value as class number; -1 where there is none.

    Raises:
        ValueError: It is neither None nor a whole number, not even written as text.
    """
    if value is None:
        return -1
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"the label {value!r} is not a whole number")
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"the label {value!r} is not a whole number") from None
