"""The warning of samples without a label."""

import re
from collections.abc import Collection

from readers.plural import counted

Unlabelled = tuple[int, Collection[str], str]
"""Of samples without a label: how many there are, names of fields, and why (part of a sentence, or "")."""

# What data is for whose samples have such a field: targets and texts. Nobody misses class numbers there.
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


def unlabelled_warnings(found: Unlabelled | None, length: int, source: str) -> list[str]:
    """Return a sentence if samples have no label; none where other fields say what the data is for.

    Args:
        found: What the dataset tells of them, None where it does not.
        length: Number of all samples.
        source: Names the data.
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
    words = {word for name in fields for word in _WORDS.findall(name.lower())}
    if not reason and not words.isdisjoint(_OTHER_TARGETS):
        return []
    return [
        f"no sample of {source} has a label (all are -1, which a loss of classes refuses){': ' * bool(reason)}{reason}; give "
        "labels with labels=, or name another column of a table with label="
    ]
