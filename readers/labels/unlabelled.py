"""Make the warning about samples without a label."""

import json
import re
from collections.abc import Collection, Iterable
from itertools import islice

from readers.formats.columns import FURTHER_LABEL_NAMES, LABEL_NAMES
from readers.plural import counted
from readers.sample import Payload, Sample

Unlabelled = tuple[int, Collection[str], str]
"""Facts about samples without a label: their count, the names of the dataset's fields, and why they have no label (part of a
sentence, or "")."""

# Words in names of fields with other targets or texts: data with such a field needs no class numbers.
_OTHER_TARGETS = frozenset(
    [
        "json",
        "txt",
        "text",
        "texts",
        "caption",
        "captions",
        "box",
        "boxes",
        "bbox",
        "bboxes",
        "object",
        "objects",
        "mask",
        "masks",
        "seg",
        "segmentation",
        "annotation",
        "annotations",
        "keypoint",
        "keypoints",
        "depth",
        "flow",
        "prompt",
        "question",
        "answer",
        "conversation",
        "conversations",
        "messages",
        "action",
    ]
)
_WORDS = re.compile(r"[a-z]+")


def label_key(data: Payload | None) -> str:
    """Return the key of a JSON object that probably holds the label, such as "label" or "Class"; "" if there is none.

    Objects with boxes have none, as their labels are those of boxes.

    Args:
        data: The encoded JSON, or None.
    """
    try:
        found = json.loads(bytes(data or b"null"))
    except (ValueError, RecursionError):
        return ""
    if not isinstance(found, dict) or "boxes" in found:
        return ""
    named = (key for name in (*LABEL_NAMES, *FURTHER_LABEL_NAMES) for key in (name, name.title()))
    return next((key for key in named if isinstance(found.get(key), int | str | list)), "")


def unlabelled_warnings(
    found: Unlabelled | None, length: int, source: str, probed: Iterable[Sample]
) -> list[str]:
    """Return a list with the warning about samples without a label; empty if all samples have one.

    The list is also empty if no sample has a label, but other fields, such as masks or captions, hold targets.

    Args:
        found: Facts about samples without a label; None if none are known.
        length: Number of samples in the dataset.
        source: Name of the data, for the warning.
        probed: Samples of the dataset; the first one is read if its field ``json`` may hold the label.
    """
    if not found or not found[0]:
        return []
    count, fields, reason = found
    if count < length:
        return [
            f"{count:,} of {counted(length, 'sample')} of {source} have no label (label -1){': ' * bool(reason)}{reason}, "
            "which a loss of classes refuses: "
            'leave them out with where("label >= 0"), or give labels with labels='
        ]
    if not reason and "json" in fields:
        key = next((label_key(one.fields.get("json")) for one in islice(probed, 1)), "")
        reason = key and (
            f"{key!r} in the field json is not read as one: dataset.with_labels([json.loads(bytes(one.fields['json']))[{key!r}] "
            "for one in dataset]) does"
        )
    words = {word for name in fields for word in _WORDS.findall(name.lower())}
    if not reason and not words.isdisjoint(_OTHER_TARGETS):
        return []
    return [
        f"no sample of {source} has a label (all are -1, which a loss of classes refuses){': ' * bool(reason)}{reason}; give "
        "labels with labels=, or name another column of a table with label="
    ]
