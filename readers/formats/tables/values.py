"""Conversion of Arrow rows to samples, and of their values to fields."""

import base64
import datetime
import decimal
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from readers.formats.columns import to_label, to_payload
from readers.formats.tables.columns import UnreadableValue
from readers.formats.tables.layout import Layout
from readers.sample import BadSample, Payload, Sample

_ONLY_A_PATH = ": it is null or only a path; write the images themselves"


def make_samples(
    layout: Layout,
    indices: Sequence[int],
    rows: Sequence[int],
    name: str,
    values: Mapping[str, Sequence[Any]],
) -> list[Sample | BadSample]:
    """Return the samples of rows, given the values of their columns.

    Args:
        layout: Columns and their roles.
        indices: Indices of the samples in the dataset.
        rows: Rows of the samples in the file.
        name: Name of the file, with which keys begin.
        values: One value per row for each column of the layout, by name; an UnreadableValue makes the sample a BadSample.
    """
    names, image = layout.fields, layout.image
    no_bytes = UnreadableValue(
        f"the column {image!r} holds no bytes here" + _ONLY_A_PATH * layout.image_in_struct
    )
    labels = (
        [_converted(to_label, value) for value in values[layout.label]]
        if layout.label
        else [-1] * len(rows)
    )
    own = (
        [_own(*pair) for pair in zip(values[layout.key], rows, strict=True)] if layout.key else rows
    )
    payloads = [_each(payload, memoryview, values[column]) for column in names]
    if layout.names:
        names = tuple(layout.names.get(column, column) for column in names)
        image = image and layout.names.get(image, image)
    unseen = [values[column] for column in layout.columns if column not in layout.fields]
    samples: list[Sample | BadSample] = []
    for k, (index, label) in enumerate(zip(indices, labels, strict=True)):
        key = f"{name}/{own[k]}"
        fields = {
            column: found[k]
            for column, found in zip(names, payloads, strict=True)
            if found[k] is not None
        }
        unreadable = None
        if label.__class__ is UnreadableValue or UnreadableValue in map(type, fields.values()):
            unreadable = next(
                each for each in (*fields.values(), label) if isinstance(each, UnreadableValue)
            )
        elif image is not None and image not in fields:
            unreadable = no_bytes
        if unreadable is None and unseen:
            unreadable = next(
                (found[k] for found in unseen if isinstance(found[k], UnreadableValue)), None
            )
        samples.append(
            Sample(index, key, fields, label, image_field=image)
            if unreadable is None
            else BadSample(index, key, "read", unreadable.reason, transient=unreadable.transient)
        )
    return samples


def _own(value: Any, row: int) -> Any:
    """Return the second part of a sample's key: the value of the key column, or the row if it is null."""
    if isinstance(value, bytes | memoryview):
        return bytes(value[:200]).decode("utf-8", "backslashreplace")
    return row if value is None or isinstance(value, UnreadableValue) else value


def _each(convert: Callable[[Any], Any], done: type, values: Sequence[Any]) -> Sequence[Any]:
    """Return the results of `convert` for values; a value that cannot be converted becomes an UnreadableValue.

    Args:
        convert: Converts one value.
        done: Type that needs no conversion: if all values have it, they are returned unchanged.
        values: The values.
    """
    kinds = set(map(type, values))
    if kinds == {done}:
        return values
    if kinds == {int}:  # equals payload(), but is faster
        return [b"%d" % value for value in values]
    return [_converted(convert, value) for value in values]


def _converted(convert: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, UnreadableValue) or (value is None and convert is payload):
        return value
    try:
        return convert(value)
    except (ValueError, TypeError) as error:
        return UnreadableValue(str(error))


def payload(value: Any) -> Payload:
    """Return a value as the content of a field, by the rules of `readers.formats.columns.to_payload`.

    In addition, times become ISO 8601 text, decimals become text, and bytes within lists and structs become Base64 text.

    Raises:
        TypeError: The value is of a type that JSON cannot hold.
    """
    if isinstance(value, bytes | memoryview | str | int | float):
        return to_payload(value)
    return to_payload(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    return value
