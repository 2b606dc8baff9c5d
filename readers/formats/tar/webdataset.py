"""The convention of WebDataset: grouping the files of a tar into samples, and their field names."""

import re
from collections.abc import Collection, Mapping
from typing import Literal, get_args

from readers.formats.columns import to_label
from readers.sample import Payload, SourceError, is_image_field, is_video_field

KeyRule = Literal["first-dot", "last-dot"]
"""Where the key of a sample ends in the names of its files."""

# Up to the first dot of the base name, and behind it. Names that begin with a dot have no key.
_KEY_AND_FIELD = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)
# Before the last dot, but that parts of masks and what says their values belong together: a.v1.mask.0.png.
_BEFORE_LAST_DOT = re.compile(
    r"((?:.*/)?[^./][^/]*?)\.((?:(?:mask|seg)\.(?:[0-9]+\.)?|mask_values\.)?[^./]+)", re.DOTALL
)
_PREFIX_AND_OWN = re.compile(
    r"(.+)\.(cls|json|(?:mask|seg)\.(?:[0-9]+\.)?(?:png|gif|bmp|tiff?)|mask_values\.json)",
    re.DOTALL,
)
_META = re.compile(r"__[^/]*__(/|$)")  # WebDataset keeps such names to itself


def key_and_field(name: str, keys: KeyRule = "first-dot") -> tuple[str, str] | None:
    """Split the name of a stored file: ``n01/10026.JPG`` is the field jpg of the key ``n01/10026``.

    None if it belongs to no sample. The files of a sample follow one another in the tar.

    Args:
        name: The name.
        keys: Where the key ends: "first-dot" as for WebDataset (``a.v1.png`` is the field v1.png of the key a), or
            "last-dot" (the field png of the key a.v1; ``mask.png`` and ``mask.0.png`` stay fields).
    """
    if _META.match(name):
        return None
    found = (_KEY_AND_FIELD if keys == "first-dot" else _BEFORE_LAST_DOT).fullmatch(name)
    return (found[1], found[2].lower()) if found else None


def checked_rule(keys: KeyRule) -> KeyRule:
    """Return the rule.

    Raises:
        SourceError: The rule is unknown.
    """
    if keys not in get_args(KeyRule):
        raise SourceError(f"keys={keys!r} is not known: give one of {', '.join(get_args(KeyRule))}")
    return keys


def unread_fields(names: Collection[str]) -> list[str]:
    """Return the fields of a sample that would be its label, targets or masks without a prefix: ``v1.cls``.

    They come from file names with several dots. JSON counts only beside a picture or video with the same prefix:
    other JSON has a name of its own.
    """
    pictures = {
        name.rpartition(".")[0] for name in names if is_image_field(name) or is_video_field(name)
    }
    found = [(name, _PREFIX_AND_OWN.fullmatch(name)) for name in names]
    return [
        name
        for name, parts in found
        if parts and parts[2] not in names and (parts[2] != "json" or parts[1] in pictures)
    ]


def label_of(fields: Mapping[str, Payload]) -> int:
    """Return the number in the field cls, -1 without such a field.

    Raises:
        LabelError: See `readers.formats.columns.to_label`.
    """
    return to_label(fields.get("cls"))
