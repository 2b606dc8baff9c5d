"""Convert a field of a sample to a value, or raise with the reason why the sample is bad."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from dali_pipes.batch import Batch
from dali_pipes.errors import DecodeError, LoaderError, error_text
from gpu_aug.errors import TargetsError
from readers import HeaderError
from readers.describe import describe
from readers.sample import Payload
from readers.storage.blob.mapped import copied

Value = TypeVar("Value")


class FieldError(TargetsError):
    """A field of one sample is missing or cannot be read; the message is a short reason."""


def read_field(fields: Mapping[str, Payload], name: str, read: Callable[[Payload], Value]) -> Value:
    """Convert a field of a sample with a function, and return the function's result.

    Every field that becomes a value (further fields, maps, masks, JSON of boxes and keypoints) is read here. Any
    exception of the function counts as an error of this sample alone, and so does a missing field.

    Args:
        fields: Encoded bytes by field name.
        name: The field.
        read: Converts the bytes; any exception that it raises makes the sample bad.

    Raises:
        FieldError: The field is missing or cannot be read; the message begins with the field's name.
    """
    if name not in fields:
        raise FieldError(missing_field(name, fields))
    payload: Any = fields[name]
    # A user's dataset may return anything.
    if not isinstance(payload, bytes | bytearray | memoryview):
        kind = "text" if isinstance(payload, str) else describe(payload)
        raise FieldError(
            f"the field {name!r}: it is {kind}, and a dataset hands fields over as bytes: "
            "encode it, or derive the dataset from readers.CustomDataset, which does"
        )
    try:
        # A copy, because reading an unreadable page of a mapped file would end the process here.
        return read(copied(fields[name]))
    # Libraries and users' functions raise any exception for damaged bytes.
    except Exception as error:
        is_reason = isinstance(error, TargetsError | DecodeError | HeaderError)
        reason = str(error) if is_reason else f"it cannot be read: {error_text(error)}"
        raise FieldError(f"the field {name!r}: {reason}") from error


def missing_field(name: str, fields: Iterable[str]) -> str:
    """Return the reason why a sample without the field `name` is bad; it lists the fields that the sample has."""
    return f"the field {name!r} is missing; the sample has {', '.join(fields) or 'none'}"


def require_batch_names(argument: str, names: Iterable[Any]) -> None:
    """Raise if a name of a further batch entry is not a string, or is reserved for an attribute of Batch.

    Raises:
        LoaderError: A name is not allowed.
    """
    taken = [own.name for own in fields(Batch)]
    for name in names:
        if not isinstance(name, str):
            raise LoaderError(f"{argument} has the name {name!r}; give text")
        if name in taken:
            raise LoaderError(
                f"{argument}={name!r} is not allowed: batch.{name} is something else; give it another name"
            )
