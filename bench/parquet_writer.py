"""One Parquet shard after the other out of a stream of samples, as the Hugging Face hub keeps images."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.packing import Packed, free_key
from bench.shard_writer import Stream
from bench.whole import whole_file
from readers.formats import require

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
    pq = require("pyarrow.parquet", extra="arrow")
    begin, before_bytes, num_bytes = stream.position, 0, 0
    keys: set[str] = set()
    reasons: Counter[str] = Counter()
    fields: tuple[str, ...] | None = None
    with whole_file(path, to_disk=True) as file:
        writer = None
        rows: list[Packed] = []
        pending_bytes = 0

        def flush() -> None:
            nonlocal writer, fields, pending_bytes
            if fields is None:
                fields = tuple(dict.fromkeys(name for row in rows for name in _extra(row)))
            table = _table(rows, fields, class_names)
            if writer is None:
                writer = pq.ParquetWriter(
                    file,
                    table.schema,
                    compression="none",  # photographs are compressed already
                    use_dictionary=False,
                    write_page_index=True,
                )
            writer.write_table(table, row_group_size=len(rows))
            rows.clear()
            pending_bytes = 0

        while (sample := stream.peek()) is not None:
            size_bytes = sum(len(data) for _, data in sample.fields) + len(sample.name)
            if keys and num_bytes + size_bytes > most_bytes:
                break
            if fields is not None and not set(_extra(sample)) <= set(fields):
                break
            key = free_key(sample.name, keys)
            keys.add(key)
            content = tuple((name, bytes(data)) for name, data in sample.fields)
            rows.append(sample._replace(name=key, fields=content))
            num_bytes += size_bytes
            pending_bytes += size_bytes
            before_bytes += sample.before_bytes
            reasons.update(sample.reasons)
            stream.skip()
            if pending_bytes >= _ROW_GROUP_BYTES:
                flush()
        if rows:
            flush()
        if writer is not None:
            writer.close()
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
    """What the columns are, in the words of Hugging Face datasets."""
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
