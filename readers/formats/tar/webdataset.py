"""The convention of WebDataset: grouping the files of a tar into samples, and their field names."""

import re
from collections.abc import Mapping

from readers.formats.columns import to_label
from readers.sample import Payload

# Up to the first dot of the base name, and behind it. Names that begin with a dot have no key.
_KEY_AND_FIELD = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)
_META = re.compile(r"__[^/]*__(/|$)")  # WebDataset keeps such names to itself


def key_and_field(name: str) -> tuple[str, str] | None:
    """Split the name of a stored file: ``n01/10026.JPG`` is the field jpg of the key ``n01/10026``.

    None when it belongs to no sample. The files of a sample follow one another in the tar.
    """
    if _META.match(name):
        return None
    found = _KEY_AND_FIELD.fullmatch(name)
    return (found[1], found[2].lower()) if found else None


def label_of(fields: Mapping[str, Payload]) -> int:
    """Return the number in the field cls, -1 where there is no such field.

    Raises:
        LabelError: See `readers.formats.columns.to_label`.
    """
    return to_label(fields.get("cls"))
