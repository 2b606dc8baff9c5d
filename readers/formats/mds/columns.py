"""Conversion of the stored columns of an MDS sample to fields, a label and a key."""

import struct
from collections.abc import Callable
from typing import NamedTuple

from readers.formats.columns import ColumnOptions, Roles, ambiguity_warnings, find_roles, to_label
from readers.formats.mds.encoding import IMAGES, LISTS, get_decoder, scalar_type, split_list
from readers.sample import Payload, SourceError
from readers.storage.blob.mapped import copied, copied_if_small

_MAX_KEY_CHARACTERS = 256  # a key names a sample in messages and tables


class Column(NamedTuple):
    """A column of an MDS shard, and how its values become a field.

    Attributes:
        name: Name of the column and of its field.
        number: Index of the column among all stored columns.
        decode: Converts a stored value to the field's content; None if the stored bytes are the content.
        list_of: Encoding of the column if a value holds several images, otherwise "".
    """

    name: str
    number: int
    decode: Callable[[Payload], Payload] | None
    list_of: str


class Plan(NamedTuple):
    """The columns of a shard with their roles, and the conversion of stored samples to fields, label and key.

    Attributes:
        sizes: Size of each column in bytes, 0 if each sample states its own size.
        head: Struct of the sizes at the beginning of each sample.
        columns: The columns that become fields.
        label: The column that holds the label, None if there is none.
        key: The column that holds the key, None if there is none.
        image_field: Name of the field that holds the image, None if there is none.
        remarks: Warnings about columns that were chosen although others may be meant.
    """

    sizes: tuple[int, ...]
    head: struct.Struct
    columns: tuple[Column, ...]
    label: Column | None
    key: Column | None
    image_field: str | None
    remarks: tuple[str, ...]

    def split(self, data: Payload) -> list[Payload]:
        """Split a stored sample into the values of its columns; if the sample is a view of a mapped file, so are the values.

        Raises:
            ValueError: The sizes of the columns do not add up to the sample's size.
            OSError: The file has shrunk.
        """
        try:
            stated = iter(self.head.unpack_from(copied(data[: self.head.size])))
        except struct.error:
            raise ValueError(f"the shard is damaged: a sample of {len(data)} bytes") from None
        position, values = self.head.size, []
        for size in self.sizes:
            stop = position + (size or next(stated))
            values.append(data[position:stop])
            position = stop
        if position != len(data):
            raise ValueError(f"the shard is damaged: columns of {position} bytes in {len(data)}")
        return values

    def read(self, data: Payload) -> tuple[str | None, dict[str, Payload], int]:
        """Convert a stored sample to its key (None without a key column), its fields and its label.

        Raises:
            ValueError: The sample is damaged, or its label is no class number.
            OSError: The file has shrunk.
        """
        values = self.split(data)
        fields: dict[str, Payload] = {}
        try:
            for name, number, decode, list_of in self.columns:
                value = values[number]
                if list_of:
                    for row, item in enumerate(split_list(list_of, copied(value))):
                        fields[f"{name}.{row}"] = item
                else:
                    fields[name] = decode(copied(value)) if decode else copied_if_small(value)
        except ValueError as error:
            raise ValueError(f"the column {name} holds {error}") from None
        label = -1 if self.label is None else self.read_label(values)
        key = None
        if self.key is not None:
            value = copied(values[self.key.number])
            value = self.key.decode(value) if self.key.decode else value[: 4 * _MAX_KEY_CHARACTERS]
            key = str(value, "utf-8", "replace")[:_MAX_KEY_CHARACTERS]
        return key, fields, label

    @property
    def is_stored(self) -> bool:
        """Whether the stored bytes of every field are the field's content, without conversion."""
        return not any(column.decode or column.list_of for column in self.columns)

    def count_bytes(self, values: list[Payload]) -> int:
        """Return the total size of a sample's fields in bytes; valid only if `is_stored` is true."""
        return sum(len(values[column.number]) for column in self.columns)

    def read_label(self, values: list[Payload]) -> int:
        """Return the label of a sample, given its column values from `split`.

        Raises:
            ValueError: The label is no class number.
            OSError: The file has shrunk.
        """
        assert self.label is not None
        value = copied(values[self.label.number])
        payload = self.label.decode(value) if self.label.decode else value
        is_decimal = self.label.decode and b"." in bytes(payload)
        return to_label(float(payload) if is_decimal else payload)


def make_plan(
    stored: tuple[tuple[str, str, int], ...], options: ColumnOptions, source: str
) -> Plan:
    """Choose the roles of a shard's columns, and return the plan to read its samples.

    Args:
        stored: (name, encoding, size in bytes or 0 if it varies) of the shard's columns, in stored order.
        options: The columns that the caller names.
        source: The data, for errors.

    Raises:
        SourceError: A column is missing, pickled, or of an unknown encoding or one that does not fit its role.
    """
    encodings = {name: encoding for name, encoding, _ in stored}
    options.require_columns(encodings, source)
    wanted = list(filter(options.takes, encodings))
    pictures = [name for name in encodings if encodings[name] in (*IMAGES, "bytes")]
    plain = [name for name in encodings if _is_plain(encodings[name])]
    for role, taken, fit in (
        ("image", options.image, pictures),
        ("label", options.label, plain),
        ("key", options.key, plain),
    ):
        if taken is not None and taken not in fit:
            raise SourceError(
                f"{source} has {encodings[taken]} values in the column {taken}, which is unfit for {role}="
            )
    integers = [name for name in wanted if _is_integer(encodings[name])]
    able = list(filter(options.takes, pictures))
    others = list(filter(options.takes, plain))
    roles = find_roles(options, able, others, encoded=able, integers=integers)
    image = roles.image or next((name for name in able if encodings[name] in IMAGES), None)

    def column(name: str) -> Column:
        encoding = encodings[name]
        several = encoding in LISTS
        decode = None if several else get_decoder(encoding, source, name)
        return Column(name, list(encodings).index(name), decode, encoding if several else "")

    return Plan(
        tuple(size for _, _, size in stored),
        struct.Struct(f"<{sum(not size for _, _, size in stored)}I"),
        tuple(map(column, wanted)),
        column(roles.label) if roles.label else None,
        column(roles.key) if roles.key else None,
        f"{image}.0" if image and encodings[image] in LISTS else image,
        ambiguity_warnings(
            source, options, Roles(image, roles.label), encoded=able, integers=integers
        ),
    )


def _is_integer(encoding: str) -> bool:
    return "int" in encoding and (scalar_type(encoding) is not None or encoding == "str_int")


def _is_plain(encoding: str) -> bool:
    """Return whether a column of this encoding holds numbers, text or bytes, and so may be the label or key."""
    return scalar_type(encoding) is not None or encoding in (
        *("bytes", "str", "json", "str_int", "str_float", "str_decimal"),
    )
