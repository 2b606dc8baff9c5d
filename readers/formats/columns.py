"""Choice of the image, label and key column of a record, and conversion of column values to fields and labels."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.sample import VIDEO_FIELDS, Payload, SourceError

IMAGE_NAMES = (
    *("image", "img", "jpg", "jpeg", "png", "webp", "image/encoded", "picture", "bytes"),
    *("avif", "heic", "jxl", "jp2"),
)
LABEL_NAMES = ("label", "cls", "class", "target", "labels", "image/class/label")
KEY_NAMES = ("__key__", "key", "id", "name", "filename", "file_name", "image/filename", "path")
VIDEO_NAMES = ("video", *VIDEO_FIELDS)
# Ambiguous names: taken only if the values may be encoded images, or are integers.
FURTHER_IMAGE_NAMES = (
    *("image_png", "image_jpg", "image_jpeg", "image_bytes", "image_data", "image_raw"),
    *("img_bytes", "photo", "x", "X"),
)
FURTHER_LABEL_NAMES = (
    *("fine_label", "class_id", "class_idx", "class_label", "label_id", "category", "digit"),
    *("y", "Y", "coarse_label"),
)
# HDF5 files hold all images in one array, so that plural names, and "data", are usual there.
HDF5_IMAGE_NAMES = (
    *(*IMAGE_NAMES, "images", "imgs", "data", "x", "X", *FURTHER_IMAGE_NAMES),
    *(*VIDEO_NAMES, "videos"),
)
LABEL_LIMIT = 1 << 63  # class numbers are smaller, as labels are int64
UNREADABLE = -2
"""Entry in an array of labels for a label that cannot be read. -1 stands for a sample without a label."""
_INTEGER = re.compile(r"[-+]?[0-9]+")
# A class number with white space is shorter; a field cls may hold a file of any size.
_MAX_NUMBER_BYTES = 1024
_MAX_SHOWN = 60  # characters of a value in a message, which has to fit one line


@dataclass(frozen=True)
class Roles:
    """Names of the columns that hold the image, the label and the key.

    Attributes:
        image: Column of the encoded image, None if there is none.
        label: Column of the class number, None if there is none.
        key: Column of the sample's key; None if the key is the row's index.
    """

    image: str | None = None
    label: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class ColumnOptions(Roles):
    """The column names that a caller passes. For a role that is None, the first usual name that exists is taken.

    Attributes:
        columns: Names of the columns that become fields, None for all.

    Raises:
        SourceError: `columns` is a str instead of a sequence.
    """

    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise SourceError(
                f"columns must be a sequence of names, got {self.columns!r}: write [{self.columns!r}]"
            )
        if self.columns is not None:  # hashable, and safe from changes of the caller's list
            object.__setattr__(self, "columns", tuple(self.columns))

    def takes(self, name: str) -> bool:
        """Return whether the column with this name becomes a field."""
        return self.columns is None or name in self.columns

    def require_columns(self, available: Collection[str], source: str) -> None:
        """Check that the data has all columns that the caller names.

        Args:
            available: Names of the columns of the data.
            source: The data, for the error.

        Raises:
            SourceError: A column is missing.
        """
        roles = {"image": self.image, "label": self.label, "key": self.key}
        named = [*roles.items(), *(("columns", name) for name in self.columns or ())]
        for option, name in named:
            if name is not None and name not in available:
                raise SourceError(
                    f"{source} has no column {name!r} for {option}=: its columns are {', '.join(available)}"
                )


def find_roles(
    options: ColumnOptions,
    images: Collection[str],
    others: Collection[str],
    *,
    encoded: Collection[str] = (),
    integers: Collection[str] = (),
) -> Roles:
    """Return the column of each role: the one that the caller names, or else the first usual name that exists.

    Args:
        options: The columns that the caller names.
        images: Columns that may be the image.
        others: Columns that may be the label or the key.
        encoded: Columns that may hold encoded images; only for these, `FURTHER_IMAGE_NAMES` are usual names too.
        integers: Columns of integers; only for these, `FURTHER_LABEL_NAMES` are usual names too.
    """
    image_names = (*IMAGE_NAMES, *(name for name in FURTHER_IMAGE_NAMES if name in encoded))
    label_names = (*LABEL_NAMES, *(name for name in FURTHER_LABEL_NAMES if name in integers))
    return Roles(
        options.image or first_of(image_names, images),
        options.label or first_of(label_names, others),
        options.key or first_of(KEY_NAMES, others),
    )


def require_unique(names: Sequence[str], source: str) -> None:
    """Check that no two columns have the same name.

    Raises:
        SourceError: Two columns have the same name.
    """
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise SourceError(f"{source} has two columns {twice!r}: rename one of them")


def first_of(usual: Iterable[str], available: Collection[str]) -> str | None:
    """Return the first of the usual names that is available, None if none is."""
    return next((name for name in usual if name in available), None)


def ambiguity_warnings(
    source: str,
    options: ColumnOptions,
    taken: Roles,
    *,
    encoded: Collection[str],
    integers: Collection[str],
) -> tuple[str, ...]:
    """Return a warning for each role that was given to a column although other columns could have it too.

    Args:
        source: The data.
        options: The columns that the caller named; there is no warning about these.
        taken: The columns that were taken for the roles.
        encoded: Columns that may hold encoded images.
        integers: Columns of integers.
    """
    found = []
    for role, asked, name, able, usual in (
        ("image", options.image, taken.image, encoded, (*IMAGE_NAMES, *FURTHER_IMAGE_NAMES)),
        ("label", options.label, taken.label, integers, (*LABEL_NAMES, *FURTHER_LABEL_NAMES)),
    ):
        others = [other for other in usual if other in able and other != name]
        if asked is None and name not in (None, role) and others:  # a column "label" is the label
            found.append(
                f"{source}: of the columns {', '.join([str(name), *others])}, which may each be the {role}, {name} was "
                f"taken; say {role}={name!r}, or name another one"
            )
    return tuple(found)


def to_payload(value: Any, plain: Callable[[Any], Any] | None = None) -> Payload:
    """Return a column's value as the bytes of a sample's field.

    Bytes stay unchanged, text becomes UTF-8, and all other values become JSON, so that the number 7 is ``b"7"``
    as in a ``.cls`` file.

    Args:
        value: The value.
        plain: The argument ``default`` of `json.dumps`: converts a value that JSON does not know, or raises a TypeError.

    Raises:
        TypeError: JSON cannot hold the value.
        ValueError: The value is text that UTF-8 cannot hold, or it is nested too deeply.
    """
    if isinstance(value, bytes | memoryview):
        return value
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ValueError(
                f"the text {shorten(value)} has an unpaired surrogate, which UTF-8 cannot hold"
            ) from None
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=plain)
    except RecursionError:
        raise ValueError("a value is nested too deeply") from None
    try:
        return text.encode()
    except UnicodeEncodeError:  # unpaired surrogates, which JSON can write as \ud800
        return json.dumps(value, separators=(",", ":"), default=plain).encode()


CORNERS = {"box_format": "xyxy"}
"""Entry of the field json that states the format of boxes which a reader wrote, so that a recipe cannot misread them."""


def to_key(value: Any) -> str:
    """Return a column's value as a key, with unpaired surrogates such as U+D800 written as escapes.

    Surrogates by which Python represents non-UTF-8 bytes in file names stay unchanged.
    """
    text = str(value)
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


class LabelError(ValueError):
    """Raised for a label that is not a class number; the text is a short reason."""


def to_label(value: Any) -> int:
    """Return a value as a class number, 0 <= label < 2**63; return -1 if the value is None or -1.

    Text and UTF-8 bytes must hold the number in decimal digits; white space and a byte-order mark around it are ignored.

    Args:
        value: The label as a file or table holds it: a number, text or bytes.

    Raises:
        LabelError: The value is not an integer from -1 to 2**63 - 1.
    """
    if value.__class__ is int and -1 <= value < LABEL_LIMIT:  # nearly always
        return int(value)
    if value is None:
        return -1
    if isinstance(value, bytes | bytearray | memoryview):
        value = bytes(value[:_MAX_NUMBER_BYTES]).decode("utf-8", "replace")
    if isinstance(value, np.ndarray) and value.ndim:  # int() would accept an array of length 1
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
    """Return values as class numbers, int64 [n]; see `to_label`. A value that is not one becomes `UNREADABLE`."""
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
    return digits if _INTEGER.fullmatch(digits) else ""  # Python takes 1_000 and other scripts, too


def _refusal_of(value: Any) -> str:
    if isinstance(value, str) and not value.strip("\ufeff \t\r\n"):
        return "the label is empty: write a class number, or leave it out"
    return f"the label {shorten(value)} is not a whole number: number the classes, or leave it out"


def shorten(value: Any) -> str:
    """Return a value as text for a message, at most 60 characters long."""
    try:
        text = repr(value)
    except ValueError:  # of a number with thousands of digits
        return f"of {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
