"""Records with named columns as samples: which column is the image, the label, the key, and how others are converted."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.sample import VIDEO_FIELDS, Payload, SourceError

IMAGE_NAMES = ("image", "img", "jpg", "jpeg", "png", "webp", "image/encoded", "picture", "bytes")
LABEL_NAMES = ("label", "cls", "class", "target", "labels", "image/class/label")
# Names that may as well mean something else: taken where the values may be an encoded image, or are whole numbers.
FURTHER_IMAGE_NAMES = (
    *(
        "image_png",
        "image_jpg",
        "image_jpeg",
        "image_bytes",
        "image_data",
        "image_raw",
        "img_bytes",
    ),
    *("photo", "x", "X"),
)
FURTHER_LABEL_NAMES = (
    *("fine_label", "class_id", "class_idx", "class_label", "label_id", "category", "digit"),
    *("y", "Y", "coarse_label"),
)
VIDEO_NAMES = ("video", *VIDEO_FIELDS)
LABEL_LIMIT = 1 << 63  # class numbers are smaller
UNREADABLE = -2
"""In arrays of labels: the sample has a label that cannot be read. No sample is ever labelled so; -1 is "no label"."""
_WHOLE = re.compile(r"[-+]?[0-9]+")
_LONGEST_NUMBER = (
    1024  # bytes; so much white space is no number's, and files of any size are called cls
)
_MAX_SHOWN = 60
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
    names: Iterable[str],
    *,
    image: str | None,
    label: str | None,
    key: str | None,
    source: str,
    encoded: Collection[str] = (),
    whole: Collection[str] = (),
) -> Roles:
    """Take the columns that were named, and for the others the first of the usual names.

    Args:
        names: The columns that there are.
        image: Asked for by the caller, or None.
        label: Likewise.
        key: Likewise.
        source: The data, for the error.
        encoded: The columns that may hold encoded images; further names are looked for among them.
        whole: The columns that hold whole numbers, likewise.

    Raises:
        SourceError: A column that was asked for is not there.
    """
    there = list(names)
    images = [name for name in FURTHER_IMAGE_NAMES if name in encoded]
    labels = [name for name in FURTHER_LABEL_NAMES if name in whole]

    def pick(role: str, asked: str | None, usual: tuple[str, ...]) -> str | None:
        if asked is not None and asked not in there:
            raise SourceError(
                f"{source} has no column {asked!r} for {role}=: its columns are {', '.join(there)}"
            )
        return asked or next((name for name in usual if name in there), None)

    return Roles(
        pick("image", image, (*IMAGE_NAMES, *images)),
        pick("label", label, (*LABEL_NAMES, *labels)),
        pick("key", key, KEY_NAMES),
    )


def usual_roles(pictures: Collection[str], others: Iterable[str], whole: Collection[str]) -> Roles:
    """The roles that columns have by their names.

    Args:
        pictures: Those that may hold encoded images.
        others: Those that may hold labels and keys.
        whole: Those of them that hold whole numbers.
    """
    image = find_roles(pictures, image=None, label=None, key=None, source="", encoded=pictures)
    found = find_roles(others, image=None, label=None, key=None, source="", whole=whole)
    return Roles(image.image, found.label, found.key)


def require_columns(asked: Collection[str] | None, there: Collection[str], source: str) -> None:
    """See that the columns are there that shall become fields.

    Raises:
        SourceError: One is not.
    """
    missing = [name for name in asked or () if name not in there]
    if missing:
        raise SourceError(
            f"{source} has no column {missing[0]!r} for columns=: its columns are {', '.join(there)}"
        )


def remarks_on(
    source: str,
    *,
    image: str | None,
    label: str | None,
    encoded: Collection[str],
    whole: Collection[str],
) -> tuple[str, ...]:
    """Sentences about columns of which another one might have been meant.

    Args:
        source: The data.
        image: The column that was taken without having been asked for, else None.
        label: Likewise.
        encoded: Columns that may hold encoded images.
        whole: Columns of whole numbers.
    """
    found = []
    for role, taken, able, usual in (
        ("image", image, encoded, (*IMAGE_NAMES, *FURTHER_IMAGE_NAMES)),
        ("label", label, whole, (*LABEL_NAMES, *FURTHER_LABEL_NAMES)),
    ):
        others = [name for name in usual if name in able and name != taken]
        if taken not in (None, role) and others:  # what is called label is the label
            found.append(
                f"{source}: of the columns {', '.join([str(taken), *others])}, which may each be the {role}, {taken} was "
                f"taken; say {role}={taken!r}, or name another one"
            )
    return tuple(found)


def to_payload(value: Any, plain: Callable[[Any], Any] | None = None) -> Payload:
    """Convert a column's value to the bytes of a sample's field.

    Bytes stay as they are and text becomes UTF-8; numbers, lists and dictionaries become JSON, so the
    number 7 is ``b"7"`` as in a ``.cls`` file.

    Args:
        value: The value.
        plain: Returns what JSON holds for a value that it does not know, or raises a TypeError.

    Raises:
        TypeError: JSON cannot hold the value.
        ValueError: It is text that UTF-8 cannot hold, or nested too deeply.
    """
    if isinstance(value, bytes | memoryview):
        return value
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ValueError(
                f"the text {shorten(value)} has half a character, which UTF-8 cannot hold"
            ) from None
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=plain)
    except RecursionError:
        raise ValueError("a value is nested too deeply") from None
    try:
        return text.encode()
    except UnicodeEncodeError:  # half characters, which JSON can write as \ud800
        return json.dumps(value, separators=(",", ":"), default=plain).encode()


CORNERS = {"box_format": "xyxy"}
"""What the field json says of boxes that a reader made, so that a recipe for boxes of another form does not misread them."""


def to_key(value: Any) -> str:
    """A column's value as the name of a sample, in which half characters (U+D800) are written out.

    Those that stand for a byte which is not UTF-8, as in names of files, stay.
    """
    text = str(value)
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


class LabelError(ValueError):
    """A label is there and is no class number; the text is a short reason."""


def to_label(value: Any) -> int:
    """Return a value of any format as class number, 0 <= label < 2**63; -1 where it is missing (None), or -1 itself.

    Text (and bytes, which are UTF-8) is a number in digits, around which white space and a byte-order mark do not count.

    Raises:
        LabelError: The value is there and is no whole number of this range.
    """
    if value.__class__ is int and -1 <= value < LABEL_LIMIT:  # nearly always
        return int(value)
    if value is None:
        return -1
    if isinstance(value, bytes | bytearray | memoryview):
        value = bytes(value[:_LONGEST_NUMBER]).decode("utf-8", "replace")
    if isinstance(value, np.ndarray) and value.ndim:  # one of length 1 would become a number
        raise LabelError(f"the label is an array of shape {list(value.shape)}, not a class number")
    number = _digits_of(value) if isinstance(value, str) else value
    try:
        label = int(number)
    except (TypeError, ValueError, OverflowError):
        raise LabelError(_refusal_of(value)) from None
    if label != number and not isinstance(number, str):  # 1.5, also as a decimal
        raise LabelError(f"the label {shorten(value)} is not a whole number")
    if -1 <= label < LABEL_LIMIT:
        return label
    kind = "negative" if label < 0 else "2**63 or more"
    raise LabelError(f"the label {shorten(value)} is {kind}: a class number is from 0 to 2**63 - 1")


def to_labels(values: NDArray[Any] | Sequence[Any]) -> NDArray[np.int64]:
    """Return `to_label` of many values, int64 [n], with `UNREADABLE` for those that it refuses."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        return np.array([_label_or_mark(value) for value in values], np.int64)
    with np.errstate(invalid="ignore"):  # NaN, and what exceeds 64 bits: both are refused below
        labels = values.astype(np.int64)
    is_good = labels >= (0 if values.dtype.kind == "u" else -1)  # large ones turn negative
    if values.dtype.kind == "f":
        values = values.astype(np.float64)
        is_good = (values >= -1) & (values < LABEL_LIMIT) & (values == np.floor(values))
    return labels if is_good.all() else np.where(is_good, labels, UNREADABLE)


def _label_or_mark(value: Any) -> int:
    try:
        return to_label(value)
    except LabelError:
        return UNREADABLE


def _digits_of(text: str) -> str:
    digits = text.strip().removeprefix("\ufeff").strip()
    return digits if _WHOLE.fullmatch(digits) else ""  # Python takes 1_000 and other scripts, too


def _refusal_of(value: Any) -> str:
    if isinstance(value, str) and not value.strip("\ufeff \t\r\n"):
        return "the label is empty: write a class number, or leave it out"
    return f"the label {shorten(value)} is not a whole number: number the classes, or leave it out"


def shorten(value: Any) -> str:
    """A value as a message shows it."""
    try:
        text = repr(value)
    except ValueError:  # of a number with thousands of digits
        return f"of {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
