"""Conversion of tf.train.Examples to samples: roles of the features, and their locations in the record."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from readers.formats.columns import (
    ColumnOptions,
    LabelError,
    Roles,
    find_roles,
    to_label,
    to_payload,
)
from readers.formats.protobuf.wire import (
    Feature,
    WireError,
    find_features,
    find_values,
    read_numbers,
)
from readers.sample import Payload, SourceError
from readers.storage.blob.mapped import copied

# Prefixes of a member's name if its bytes are a message Feature, which is decoded when the sample is fetched.
_NUMBERS, _SEVERAL = "\0", "\1"
_MAX_KEY_CHARACTERS = 256  # a key names a sample in messages and tables
_MAX_LABEL_BYTES = 64  # a class number has fewer digits
_CLASS = "image/class/label"
# Features of records of object detection, in which image/class/label may list the classes of all objects.
_OBJECT_CLASSES = ("image/object/class/label", "image/object/class/text")


class Example(NamedTuple):
    """A parsed tf.train.Example: key, label, and the locations of its fields.

    Attributes:
        members: (name, start, stop) of each field, with offsets in the record; `decode_fields` converts the bytes there to
            the fields' content.
        key: Key of the sample, None if the record has none.
        label: Class number, -1 if the record has none.
        image: Name of the field that holds the image, None if there is none.
    """

    members: tuple[tuple[str, int, int], ...]
    key: str | None
    label: int
    image: str | None


class ExampleReader(ColumnOptions):
    """Parses tf.train.Examples; the options name features instead of columns."""

    def accepts(self, record: Payload, source: str) -> bool:
        """Return whether a record is a tf.train.Example.

        Args:
            record: The first record of a source.
            source: The source, for errors.

        Raises:
            SourceError: The record is a SequenceExample, or lacks a feature that the caller names.
        """
        try:
            features = find_features(record)
        except WireError as error:
            if "SequenceExample" in str(error):
                raise SourceError(
                    f"{source} holds tf.train.SequenceExamples, which are not read: "
                    "write each image as a tf.train.Example"
                ) from None
            features = {}
        given = [name for name, value in vars(self).items() if value is not None]
        if not features and given:
            raise SourceError(
                f"{source} holds records that are no tf.train.Example and so have no features: "
                f"leave out {given[0]}="
            )
        self.require_columns(features, source)
        if self.image is not None and features[self.image].kind not in ("bytes", None):
            raise SourceError(
                f"{source} has {features[self.image].kind} values in the feature {self.image}, which was asked "
                "for as image: name a feature that holds encoded images"
            )
        return bool(features)

    def read(self, record: Payload) -> Example:
        """Parse a record.

        Raises:
            ValueError: The record is damaged or no Example, lacks the image feature that the caller names, or its label is
                no class number; the text gives the reason.
        """
        features = find_features(record)
        if self.image is not None and self.image not in features:
            raise ValueError(f"it has no feature {self.image}")
        members, kinds = [], []
        for name in sorted(
            features
        ):  # protocol buffers have no fixed order, and an index should hold few different lists of fields
            feature = features[name]
            kinds.append((name, feature.kind))
            if feature.kind is not None and self.takes(name):
                members.append(_member(record, name, feature))
        roles = _roles(self, tuple(kinds))
        image = roles.image
        if image is not None and all(member[0] != image for member in members):
            image = f"{image}.0"
        label = features.get(roles.label) if roles.label is not None else None
        is_of_objects = any(name in features for name in _OBJECT_CLASSES)
        if label and is_of_objects and roles.label == _CLASS and self.label is None:
            numbers = read_numbers(record, label.start, label.stop)
            label = label if len(numbers) == 1 else None
        key = features.get(roles.key) if roles.key is not None else None
        return Example(
            tuple(members),
            None if key is None else _read_key(record, key),
            -1 if label is None else _read_label(record, label),
            image,
        )


def _to_json(value: float | list[int] | list[float]) -> Payload:
    """Return numbers as JSON, like `to_payload` but in a fraction of the time."""
    text = repr(value)
    if "n" in text:  # nan and inf
        return to_payload(value)
    return text.replace(" ", "").encode()


def is_decoded(member: str) -> bool:
    """Return whether a member, by its name, is stored as a message Feature that `decode_fields` must convert."""
    return member[:1] in (_NUMBERS, _SEVERAL)


def decode_fields(stored: Mapping[str, Payload]) -> dict[str, Payload]:
    """Convert the stored members of an Example to fields: bytes stay unchanged, numbers become JSON.

    Args:
        stored: The bytes of each member, by name of the member.

    Returns:
        Content of the fields, by name; several byte strings in one feature become ``NAME.0``, ``NAME.1`` and so on.

    Raises:
        WireError: A feature is damaged.
        OSError: The file that holds the bytes has shrunk.
    """
    fields: dict[str, Payload] = {}
    for name, data in stored.items():
        if name[:1] == _NUMBERS:
            data = copied(data)
            numbers = read_numbers(data, 0, len(data))
            if len(numbers) == 1 and isinstance(numbers[0], int):
                fields[name[1:]] = b"%d" % numbers[0]
            elif numbers:
                fields[name[1:]] = _to_json(numbers[0] if len(numbers) == 1 else numbers)
        elif name[:1] == _SEVERAL:
            data = copied(data)
            spans = find_values(data, 0, len(data))
            for number, (start, stop) in enumerate(spans):
                fields[f"{name[1:]}.{number}"] = data[start:stop]
        else:
            fields[name] = data
    return fields


def _member(record: Payload, name: str, feature: Feature) -> tuple[str, int, int]:
    if feature.kind != "bytes":
        return _NUMBERS + name, feature.start, feature.stop
    values = find_values(record, feature.start, feature.stop)
    if len(values) != 1:
        return _SEVERAL + name, feature.start, feature.stop
    if name[:1] in (_NUMBERS, _SEVERAL):
        raise ValueError(f"the name {name!r} of a feature begins with a control character")
    return name, *values[0]


@lru_cache(maxsize=256)
def _roles(reader: ExampleReader, kinds: tuple[tuple[str, str | None], ...]) -> Roles:
    wanted = {name: kind for name, kind in kinds if reader.takes(name)}
    images = [name for name, kind in wanted.items() if kind == "bytes"]
    integers = [name for name, kind in wanted.items() if kind == "int64"]
    return find_roles(reader, images, wanted, encoded=images, integers=integers)


def _read_label(record: Payload, feature: Feature) -> int:
    value: int | float | bytes | None
    if feature.kind == "bytes":
        spans = find_values(record, feature.start, feature.stop)
        texts = [bytes(record[start:stop][:_MAX_LABEL_BYTES]) for start, stop in spans[:2]]
        if len(texts) > 1:
            raise LabelError(f"the label {texts} is not one whole number")
        value = texts[0] if texts else None
    else:
        numbers = read_numbers(record, feature.start, feature.stop)
        if len(numbers) > 1:
            raise LabelError(f"the label {numbers[:8]} is not one whole number")
        value = numbers[0] if numbers else None
    return to_label(value)


def _read_key(record: Payload, feature: Feature) -> str | None:
    if feature.kind == "bytes":
        spans = find_values(record, feature.start, feature.stop)
        if len(spans) != 1 or spans[0][0] == spans[0][1]:
            return None
        text = bytes(record[slice(*spans[0])][: 4 * _MAX_KEY_CHARACTERS])
        return text.decode("utf-8", "replace")[:_MAX_KEY_CHARACTERS]
    numbers = read_numbers(record, feature.start, feature.stop)
    return str(numbers[0]) if len(numbers) == 1 else None
