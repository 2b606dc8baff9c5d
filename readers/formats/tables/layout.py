"""Choice of the columns of Arrow data to read, and of their roles."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.describe import few_of
from readers.detect.registry import require
from readers.formats.columns import (
    VIDEO_NAMES,
    ColumnOptions,
    Roles,
    ambiguity_warnings,
    find_roles,
    first_of,
    require_unique,
)
from readers.labels.unlabelled import Unlabelled
from readers.plural import counted
from readers.sample import ColumnName, SourceError

_PICKLED = (b"arrow.py_extension_type",)


def unknown_column(name: ColumnName, length: int) -> NDArray[np.int64]:
    """Return the array for `IndexedDataset.column` if values are unknown: -1 for labels and num_bytes, 0 for sizes."""
    return np.full(length, -1 if name in ("label", "num_bytes") else 0, np.int64)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns to read, and their roles.

    Attributes:
        columns: Names of the columns to read, in stored order, including image, label and key.
        image: Column of the encoded image, None if there is none.
        image_in_struct: Whether the image column is Hugging Face's struct of bytes and path.
        label: Column of the class number, None if there is none.
        key: Column of the key, None if there is none.
        fields: Names of the columns that become fields.
        class_names: Class names in Hugging Face's ClassLabel, by class number; empty if there are none.
        remarks: Warnings about columns that were chosen although others may be meant.
        names: Names of fields that differ from their column's name, by name of the column.
        unread_label: Warning about a column with a usual name of labels whose type cannot hold class numbers, "" if none.
    """

    columns: tuple[str, ...]
    image: str | None
    image_in_struct: bool
    label: str | None
    key: str | None
    fields: tuple[str, ...]
    class_names: tuple[str, ...]
    remarks: tuple[str, ...] = field(default=(), compare=False)
    names: Mapping[str, str] = field(default_factory=dict, hash=False)
    unread_label: str = field(default="", compare=False)

    def unlabelled(
        self,
        length: int,
        nulls: Iterable[Mapping[str, int]],
        lacking: Sequence[tuple[str, int]] = (),
    ) -> Unlabelled:
        """Count the samples without a label.

        Args:
            length: Number of all samples.
            nulls: For each file, a dict from column name to number of nulls; columns without nulls may be left out.
            lacking: (name, number of rows) of each file without the label column.

        Returns:
            The number of samples without a label, the names of the fields, and the reason for a warning, "" if there is none.
        """
        has_none = self.label is None or bool(self.unread_label)
        count = length if has_none else sum(file.get(self.label or "", 0) for file in nulls)
        without = f"{counted(len(lacking), 'file')} ({few_of(name for name, _ in lacking)}) without the column {self.label!r}"
        count = min(length, count + sum(rows for _, rows in lacking))
        return count, self.fields, self.unread_label or without * bool(lacking)

    @property
    def identity(self) -> str:
        """Text that represents the layout in fingerprints; it must not change if names in the code do."""
        return (
            f"Layout(columns={self.columns!r}, image={self.image!r}, image_in_struct={self.image_in_struct!r}, "
            f"label={self.label!r}, key={self.key!r}, fields={self.fields!r}, class_names={self.class_names!r})"
        )


def find_layout(
    schema: Any, options: ColumnOptions, source: str, further: Iterable[str] = ()
) -> Layout:
    """Choose the columns to read, and their roles.

    Args:
        schema: The pyarrow.Schema of the data.
        options: The columns that the caller names.
        source: The data, for errors.
        further: Names of partition columns, whose values are text in folder names (``label=3/part-0.parquet``).

    Raises:
        SourceError: A column that the caller names is missing, or has a type that does not fit its role.
    """
    types = dict.fromkeys(further) | {each.name: each.type for each in schema}
    _refuse_names_and_types(schema, source)
    options.require_columns(types, source)
    asked = (options.image, options.label, options.key)
    names = [name for name in types if options.takes(name) or name in asked]
    encoded = [name for name in names if types[name] is not None and holds_images(types[name])]
    integers = [name for name in names if types[name] is not None and _holds_integers(types[name])]
    hints = hugging_face_features(schema)
    roles = find_roles(options, names, names, encoded=encoded, integers=integers)
    image = _image(types, roles.image, names, options, source)
    usual = roles.label or _only_class_label(hints, integers)
    label = _label(types, usual, options, source)
    unread = ""
    if usual and (label is None or str(types[usual]) == "null"):
        unread = f"the column {usual!r} holds {types[usual]}, which is no class number"
    class_names = hints.get(label, {}).get("names", ()) if label else ()
    return Layout(
        columns=tuple(names),
        image=image,
        image_in_struct=image is not None and _is_struct(types[image]),
        label=label,
        key=roles.key,
        fields=tuple(name for name in names if options.takes(name) or name == image),
        class_names=tuple(map(str, class_names)) if isinstance(class_names, list) else (),
        remarks=ambiguity_warnings(
            source, options, Roles(image, label), encoded=encoded, integers=integers
        ),
        unread_label=unread,
    )


def _refuse_names_and_types(schema: Any, source: str) -> None:
    require_unique(schema.names, source)
    for each in schema:
        if (each.metadata or {}).get(b"ARROW:extension:name") in _PICKLED:
            raise SourceError(
                f"the type of column {each.name!r} of {source} is a pickled Python object, which is "
                "never loaded: write the column as binary or as numbers"
            )


def _label(
    types: Mapping[str, Any], name: str | None, options: ColumnOptions, source: str
) -> str | None:
    """Return the label column; None if there is none, or if its type cannot hold labels and the caller did not name it."""
    if name is None or _holds_labels(types[name]):
        return name
    if options.label is not None:
        raise SourceError(
            f"column {name!r} of {source} holds {types[name]}, which is no class number: "
            "name another one with label=, or give vectors with labels="
        )
    return None


def _image(
    types: Mapping[str, Any],
    name: str | None,
    names: list[str],
    options: ColumnOptions,
    source: str,
) -> str | None:
    """Return the image column, found by its name, or by its type if only one column has such a type.

    If several columns hold bytes, the first with a usual name of videos is taken. None if there is no image column and the
    caller restricts the columns.
    """
    able = [each for each in names if types[each] is not None and holds_images(types[each])]
    if name in able:
        return name
    if options.image is None:
        only = able[0] if len(able) == 1 else first_of(VIDEO_NAMES, able)
        if only is not None:
            return only
        if options.columns is not None and name is None:
            return None
    if name is not None:
        raise SourceError(
            f"column {name!r} of {source} holds {types[name] or 'text'}, not the bytes of images: name "
            f"another one with image= (columns of bytes: {', '.join(able) or 'none'})"
        )
    raise SourceError(
        f"{source} has no column that looks like an image or video: name one of {', '.join(types)} with image="
    )


def _only_class_label(hints: Mapping[str, Mapping[str, Any]], whole: Sequence[str]) -> str | None:
    """Return the name of the only integer column that Hugging Face's datasets marks as ClassLabel; None if not exactly one."""
    found = [name for name in whole if hints.get(name, {}).get("_type") == "ClassLabel"]
    return found[0] if len(found) == 1 else None


def _is_struct(kind: Any) -> bool:
    return bool(require("pyarrow", extra="arrow").types.is_struct(kind))


def _is_binary(kind: Any) -> bool:
    test = require("pyarrow", extra="arrow").types
    if test.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        test.is_binary(kind)
        or test.is_large_binary(kind)
        or test.is_fixed_size_binary(kind)
        or test.is_binary_view(kind)
    )


def holds_images(kind: Any) -> bool:
    """Return whether columns of an Arrow type may hold encoded images: bytes, or Hugging Face's struct of bytes and path."""
    if _is_struct(kind):
        number = kind.get_field_index("bytes")
        return number >= 0 and _is_binary(kind.field(number).type)
    return _is_binary(kind)


def is_text(kind: Any) -> bool:
    """Return whether columns of an Arrow type hold text, directly or dictionary-encoded."""
    test = require("pyarrow", extra="arrow").types
    if test.is_dictionary(kind):
        kind = kind.value_type
    return bool(test.is_string(kind) or test.is_large_string(kind) or test.is_string_view(kind))


def _holds_integers(kind: Any) -> bool:
    return bool(require("pyarrow", extra="arrow").types.is_integer(kind))


def _holds_labels(kind: Any) -> bool:
    if kind is None:  # a partition column: text in folder names
        return True
    test = require("pyarrow", extra="arrow").types
    if test.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        test.is_integer(kind)
        or test.is_boolean(kind)
        or test.is_floating(kind)
        or is_text(kind)
        or test.is_null(kind)
        or (test.is_decimal(kind) and kind.scale <= 0)
    )


def hugging_face_features(schema: Any) -> dict[str, dict[str, Any]]:
    """Return the features that Hugging Face's datasets stored in a schema's metadata, by column; empty without them."""
    noted = (schema.metadata or {}).get(b"huggingface")
    try:
        features = json.loads(noted)["info"]["features"] if noted else {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    if not isinstance(features, dict):
        return {}
    return {name: feature for name, feature in features.items() if isinstance(feature, dict)}
