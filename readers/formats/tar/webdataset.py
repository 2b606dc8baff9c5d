"""Rules of the WebDataset format: keys and fields of file names, and labels of samples."""

import re
from collections.abc import Collection, Mapping
from typing import Literal, get_args

from readers.formats.columns import to_label
from readers.sample import Payload, SourceError, is_image_field, is_video_field

KeyRule = Literal["first-dot", "last-dot"]
"""Rule for where the key of a sample ends in the names of its files; see `key_and_field`."""

# The part before the first dot of the base name, and the part after it. Names that begin with a dot have no key.
_KEY_AND_FIELD = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)
# The parts before and after the last dot, except that mask.0.png and mask_values.json stay together: a.v1.mask.0.png.
_BEFORE_LAST_DOT = re.compile(
    r"((?:.*/)?[^./][^/]*?)\.((?:(?:mask|seg)\.(?:[0-9]+\.)?|mask_values\.)?[^./]+)", re.DOTALL
)
_PREFIX_AND_OWN = re.compile(
    r"(.+)\.(cls|json|(?:mask|seg)\.(?:[0-9]+\.)?(?:png|gif|bmp|tiff?)|mask_values\.json)",
    re.DOTALL,
)
_META = re.compile(r"__[^/]*__(/|$)")  # names that WebDataset reserves for metadata


def key_and_field(name: str, keys: KeyRule = "first-dot") -> tuple[str, str] | None:
    """Split the name of a stored file into key and field: ``n01/10026.JPG`` gives ``n01/10026`` and jpg.

    Args:
        name: Name of the file, with folders.
        keys: Where the key ends: "first-dot" as for WebDataset (``a.v1.png`` is the field v1.png of the key a), or
            "last-dot" (the field png of the key a.v1; ``mask.png`` and ``mask.0.png`` stay fields).

    Returns:
        (key, field), the field in lower case; None if the file belongs to no sample.
    """
    if _META.match(name):
        return None
    found = (_KEY_AND_FIELD if keys == "first-dot" else _BEFORE_LAST_DOT).fullmatch(name)
    return (found[1], found[2].lower()) if found else None


def checked_rule(keys: KeyRule) -> KeyRule:
    """Check that a rule for keys is known, and return it.

    Raises:
        SourceError: The rule is unknown.
    """
    if keys not in get_args(KeyRule):
        raise SourceError(f"keys={keys!r} is not known: give one of {', '.join(get_args(KeyRule))}")
    return keys


def unread_fields(names: Collection[str]) -> list[str]:
    """Return the fields of a sample that may be meant as label, targets or masks, but have a prefix: ``v1.cls``.

    Such fields come from file names with several dots. A JSON field is included only if a picture or video has its prefix,
    since other JSON files have such names on purpose.
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
    """Return the class number in the field cls, -1 without such a field.

    Raises:
        LabelError: The field holds no class number; see `readers.formats.columns.to_label`.
    """
    return to_label(fields.get("cls"))
