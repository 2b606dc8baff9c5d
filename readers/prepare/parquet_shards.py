"""Writing a stream of samples to Parquet shards, in the image format of the Hugging Face hub."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from readers.formats.registry import require
from readers.prepare.atomic_files import atomic_file
from readers.prepare.packer import Packed, free_key
from readers.prepare.tar_shards import Stream

_ROW_GROUP_BYTES = 16_000_000


def write_parquet(
    path: Path, stream: Stream, *, most_bytes: int, class_names: Sequence[str]
) -> dict[str, object]:
    """Write samples while they fit; the shard appears when it is whole.

    The columns are ``image`` (a struct of bytes and path), ``label``, ``key``, and one of bytes for every
    other field that the first row group has; where a later sample has a field more, the shard ends.

    Args:
        path: The name of the shard.
        stream: Where samples come from; there is one.
        most_bytes: The largest size, unless a single sample is larger.
        class_names: Name of each class number; may be empty.

    Returns:
        What the manifest notes of a shard.

    Raises:
        SourceError: pyarrow is not installed.
    """
    begin, before_bytes, num_bytes = stream.position, 0, 0
    keys: set[str] = set()
    reasons: Counter[str] = Counter()
    with atomic_file(path, to_disk=True) as file:
        groups = _RowGroups(file, class_names)
        while (sample := stream.peek()) is not None and groups.has_columns_of(sample):
            size_bytes = sum(len(data) for _, data in sample.fields) + len(sample.name)
            if keys and num_bytes + size_bytes > most_bytes:
                break
            key = free_key(sample.name, keys)
            keys.add(key)
            groups.add(sample._replace(name=key), size_bytes)
            num_bytes += size_bytes
            before_bytes += sample.before_bytes
            reasons.update(sample.reasons)
            stream.skip()
        groups.close()
        size = file.tell()
    return {
        "name": path.name,
        "begin": begin,
        "end": stream.position,
        "samples": len(keys),
        "bytes": size,
        "source_bytes": before_bytes,
        "tiled": reasons.pop("", 0),
        "left": dict(reasons),
    }


class _RowGroups:
    """Writes rows to a file, a group whenever enough are there; the first group decides about the columns."""

    def __init__(self, file: BinaryIO, class_names: Sequence[str]) -> None:
        self._file, self._class_names = file, class_names
        self._rows: list[Packed] = []
        self._num_bytes = 0
        self._fields: tuple[str, ...] | None = None
        self._writer: Any = None

    def has_columns_of(self, row: Packed) -> bool:
        return self._fields is None or set(_extra(row)) <= set(self._fields)

    def add(self, row: Packed, size_bytes: int) -> None:
        content = tuple(
            (name, bytes(data)) for name, data in row.fields
        )  # views go when their file does
        self._rows.append(row._replace(fields=content))
        self._num_bytes += size_bytes
        if self._num_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        if self._rows:
            self._flush()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        if self._fields is None:
            self._fields = tuple(dict.fromkeys(name for row in self._rows for name in _extra(row)))
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
        self._num_bytes = 0


def _extra(row: Packed) -> list[str]:
    """The columns besides key, image and label, none of which a field is called."""
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
    """The types of the columns, in the form of Hugging Face datasets."""
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
