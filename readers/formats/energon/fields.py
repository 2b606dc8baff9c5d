"""Parts of samples under the names that a field_map gives them."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from readers.formats.columns import to_label, to_payload
from readers.sample import BadSample, Payload, Sample

IMAGE_NAMES = ("image", "images", "video", "videos")
LABEL_NAMES = ("label", "labels", "cls", "class_label")
_PATH = re.compile(r"([^\[\]]+)((?:\[[^\[\]]+\])+)")


class FieldMap:
    """Names for parts of samples.

    Args:
        told: Name -> parts: ``jpg``, the first that is there of ``jpg,png``, or a value in JSON, ``json[key][0]``.

    Attributes:
        label: The part that holds the label, "" where none is named.
    """

    def __init__(self, told: Mapping[str, str]) -> None:
        self._told = dict(told)
        self._image = next((told[name] for name in IMAGE_NAMES if name in told), "")
        self.label = next((told[name] for name in LABEL_NAMES if name in told), "")

    @property
    def identity(self) -> str:
        """Text that no other map has."""
        return json.dumps(self._told)

    @property
    def adds_fields(self) -> bool:
        """Whether samples get fields besides those that are stored."""
        return any(name not in (*IMAGE_NAMES, *LABEL_NAMES) for name in self._told)

    def apply(self, sample: Sample | BadSample) -> Sample | BadSample:
        """Return the sample with its label, its image, and what has a name of its own as further fields."""
        if isinstance(sample, BadSample):
            return sample
        fields, label = dict(sample.fields), sample.label
        image = next((part for part in self._image.split(",") if part in fields), None)
        try:
            for name, part in self._told.items():
                if name in (*IMAGE_NAMES, *LABEL_NAMES) or name in fields:
                    continue
                value = _value(sample.fields, part)
                if value is not None:
                    fields[name] = to_payload(value)
            if self.label:
                found = _value(sample.fields, self.label)
                label = to_label(found)
        except (ValueError, TypeError) as error:
            return BadSample(sample.index, sample.key, "read", str(error))
        return replace(sample, fields=fields, label=label, image_field=image or sample.image_field)


def _value(fields: Mapping[str, Payload], parts: str) -> Any:
    """The first of the parts that is there; None where none is.

    Raises:
        ValueError: What should be JSON is none.
    """
    for part in (one.strip() for one in parts.split(",")):
        if part in fields:
            return fields[part]
        found = _PATH.fullmatch(part)
        if found and found[1] in fields:
            return _inside(fields[found[1]], found[1], found[2])
    return None


def _inside(data: Payload, field: str, path: str) -> Any:
    try:
        value = json.loads(bytes(data))
    except (ValueError, RecursionError):
        raise ValueError(
            f"the field {field!r} holds no JSON, in which {path} is looked for"
        ) from None
    for key in re.findall(r"\[([^\[\]]+)\]", path):
        name = key.strip("'\"")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value
