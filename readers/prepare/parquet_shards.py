"""Write samples to a Parquet shard, with the image column of the Hugging Face Hub."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from readers.detect.registry import require
from readers.prepare.contents import Contents
from readers.prepare.packer import Packed

# Size of a row group, which is in memory while it is written.
_ROW_GROUP_BYTES = 16_000_000


class ColumnError(Exception):
    """The shard has no column for a field of a sample."""


class ParquetShard:
    """A Parquet shard that is being written; implements `readers.prepare.contents.Shard`.

    Its columns are ``key``, ``image`` (a struct of bytes and path), ``label``, and a column of bytes for every other field.

    Args:
        file: The file to write to, empty and open.
        class_names: Name of each class number; may be empty.
        fields: Names of the other fields, in the order of their columns; None takes the fields of the first row group.

    Raises:
        SourceError: pyarrow is not installed.
    """

    def __init__(
        self, file: BinaryIO, class_names: Sequence[str], fields: tuple[str, ...] | None = None
    ) -> None:
        self._file, self._class_names, self._fields = file, class_names, fields
        self.contents = Contents()
        self._rows: list[Packed] = []
        self._group_bytes = self._num_bytes = 0
        self._writer: Any = None

    def fits(self, sample: Packed, most_bytes: int) -> bool:
        """Return whether a sample fits: all of its fields have columns, and the fields add up to at most `most_bytes`.

        An empty shard takes a sample of any size.
        """
        if not self._has_columns_of(sample):
            return False
        return not self.contents.keys or self._num_bytes + _size_bytes(sample) <= most_bytes

    def add(self, sample: Packed) -> None:
        """Add a sample; it is written when its row group is complete.

        Raises:
            ColumnError: The shard has no column for a field of the sample.
        """
        if not self._has_columns_of(sample):
            raise ColumnError
        size_bytes = _size_bytes(sample)
        key = self.contents.add(sample)
        # Views of a source file may become invalid before the row group is written.
        content = tuple((name, bytes(data)) for name, data in sample.fields)
        self._rows.append(sample._replace(name=key, fields=content))
        self._num_bytes += size_bytes
        self._group_bytes += size_bytes
        if self._group_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> dict[str, Any]:
        if self._rows:
            self._flush()
        if self._writer is not None:
            self._writer.close()
        return self.contents.noted(self._file.tell())

    def abandon(self) -> None:
        if self._writer is not None:
            with suppress(Exception):  # a full disk may be why the shard is abandoned
                self._writer.close()
            self._writer.is_open = False  # otherwise its finalizer closes it again

    def _has_columns_of(self, row: Packed) -> bool:
        return self._fields is None or set(extra_fields(row)) <= set(self._fields)

    def _flush(self) -> None:
        if self._fields is None:
            names = (name for row in self._rows for name in extra_fields(row))
            self._fields = tuple(dict.fromkeys(names))
        table = _table(self._rows, self._fields, self._class_names)
        if self._writer is None:
            self._writer = require("pyarrow.parquet", extra="arrow").ParquetWriter(
                self._file,
                table.schema,
                compression="none",  # photographs are compressed already
                use_dictionary=False,
                write_page_index=True,
            )
        self._writer.write_table(table, row_group_size=len(self._rows))
        self._rows.clear()
        self._group_bytes = 0


def _size_bytes(sample: Packed) -> int:
    return sum(len(data) for _, data in sample.fields) + len(sample.name)


def extra_fields(row: Packed) -> list[str]:
    """Return the names of the fields of a sample that need a column besides key, image and label."""
    return [name for name, _ in row.fields[1:]]


def _table(rows: Sequence[Packed], fields: Sequence[str], class_names: Sequence[str]) -> Any:
    pa = require("pyarrow", extra="arrow")
    image_type = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = [
        pa.field("key", pa.string()),
        pa.field("image", image_type),
        pa.field("label", pa.int64()),
    ]
    columns += [pa.field(name, pa.binary()) for name in fields]
    images = [
        {"bytes": image, "path": f"{row.name}.{name}"}
        for row in rows
        for name, image in row.fields[:1]
    ]
    by_name = [dict(row.fields[1:]) for row in rows]
    values = [
        [row.name for row in rows],
        images,
        [None if row.label == -1 else row.label for row in rows],
        *([found.get(name) for found in by_name] for name in fields),
    ]
    schema = pa.schema(
        columns, metadata={"huggingface": json.dumps(_features(fields, class_names))}
    )
    arrays = [pa.array(column, field.type) for column, field in zip(values, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _features(fields: Sequence[str], class_names: Sequence[str]) -> dict[str, object]:
    """Return the types of the columns as metadata for Hugging Face datasets."""
    label: dict[str, object] = {"dtype": "int64", "_type": "Value"}
    if class_names:
        label = {"names": list(class_names), "_type": "ClassLabel"}
    features = {
        "key": {"dtype": "string", "_type": "Value"},
        "image": {"_type": "Image"},
        "label": label,
    }
    features |= {name: {"dtype": "binary", "_type": "Value"} for name in fields}
    return {"info": {"features": features}}
