"""What people put into the fields of samples (text, numbers, lists, arrays) as the bytes that fields are."""

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from readers.arrays import as_array
from readers.describe import describe
from readers.formats.columns import shorten, to_payload
from readers.sample import (
    Payload,
    Sample,
    SourceError,
    is_image_field,
    is_video_field,
    mask_number,
)


def with_bytes(sample: Sample) -> Sample:
    """Return a sample whose fields are all bytes, as `field_bytes` makes them; the same one where they are already.

    Raises:
        ValueError: A field cannot be bytes; the text is a short reason.
    """
    given: Any = sample.fields
    if not isinstance(given, Mapping):
        raise ValueError(f"fields is {describe(given)}: give a dictionary of bytes by name")
    fields = {}
    for name, value in given.items():
        if not isinstance(name, str):
            raise ValueError(f"a field has the name {shorten(name)}: give text, such as 'jpg'")
        is_file = (
            name == sample.image_field
            or is_image_field(name)
            or is_video_field(name)
            or mask_number(name) is not None
        )
        if is_file and not isinstance(value, bytes | bytearray | memoryview):
            raise ValueError(
                f"the field {name!r} is {describe(value)}: give the bytes of an image or video file; pixels are for "
                "readers.from_arrays, or for from_torch of dali_pipes.integrations.torch_dataset"
            )
        try:
            fields[name] = field_bytes(value)
        except ValueError as error:
            raise ValueError(f"the field {name!r}: {error}") from None
    if all(fields[name] is value for name, value in given.items()):
        return sample
    return replace(sample, fields=fields)


def field_bytes(value: Any) -> Payload:
    """Return anything as the bytes of a field.

    Bytes stay as they are, text becomes UTF-8, an array or tensor of numbers a NumPy file (.npy), and numbers, lists
    and dictionaries become JSON, with arrays in them as lists.

    Raises:
        ValueError: It cannot be bytes; the text is a short reason.
    """
    if isinstance(value, bytearray):
        return bytes(value)
    try:
        array = as_array(value)
        if array is not None and array.ndim and array.dtype.kind in "biuf":
            stream = io.BytesIO()
            np.save(stream, array, allow_pickle=False)
            return stream.getvalue()
        return to_payload(value, _plain)
    except (TypeError, SourceError) as error:
        raise ValueError(
            f"it is or holds what no field can ({error}): give bytes, text, numbers, lists, dictionaries or arrays"
        ) from None


def _plain(value: Any) -> Any:
    """What JSON writes for a value that it does not know."""
    array = as_array(value)
    if array is not None:
        return array.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(describe(value))
