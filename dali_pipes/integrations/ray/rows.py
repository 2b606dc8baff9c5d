"""Rows of Ray Data as samples."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dali_pipes.integrations.ray.cluster import require_ray
from dali_pipes.integrations.ray.columns import IMAGE, INDEX, KEY, LABEL, VIDEO
from readers.describe import describe
from readers.formats.tar.webdataset import label_of
from readers.prepare.errors import PrepareError
from readers.sample import IMAGE_FIELDS, VIDEO_FIELDS, Payload, Sample

_MEANING = {KEY: "one that tells them apart", IMAGE: "the one with the encoded images"}
_TOLD_KEY = f"{KEY}.bin"  # what `columns.named_fields` makes of a field of that name
_SHARD = re.compile(r"[^/]*\.tar/(?=.)")
_FILE = re.compile(rf"(?<=[^/])\.({'|'.join(IMAGE_FIELDS + VIDEO_FIELDS)})$", re.IGNORECASE)


def samples_of(blocks: Iterable[Any], *, need_image: bool) -> Iterator[tuple[int | None, Sample]]:
    """Give the rows of blocks in order: the number in their column ``index``, and the sample.

    The key is that of the row without the shard or the ending of the file that it came from.

    Args:
        blocks: Of Ray Data.
        need_image: Whether what is written cannot be without an image.

    Raises:
        PrepareError: A column is not there, a row has no key, or a value that no field can hold.
    """
    accessor = require_ray("ray.data.block").BlockAccessor
    for block in blocks:
        table = accessor.for_block(block).to_arrow()
        needs_image = (
            need_image and VIDEO not in table.column_names
        )  # videos are refused one by one
        needed = (KEY, IMAGE) if needs_image else (KEY,)
        missing = next((name for name in needed if name not in table.column_names), None)
        if missing is not None:
            raise PrepareError(
                f"rows need a column {missing!r} and have {', '.join(table.column_names)}: rename "
                f"{_MEANING[missing]}, ds.rename_columns({{NAME: {missing!r}}})"
            )
        for piece in table.to_batches(max_chunksize=64):
            for row in piece.to_pylist():
                yield row.get(INDEX), _sample(row)


def _sample(row: Mapping[str, Any]) -> Sample:
    key, label = row[KEY], row.get(LABEL)
    if not isinstance(key, str) or not key:
        raise PrepareError(f"the key of a row is {_describe(key)}: give each a text")
    if label is not None and not _is_class(label):
        raise PrepareError(
            f"the label of row {key} is {_describe(label)}, and shards hold class numbers: make it an integer with ds.map, "
            "rename it to be kept as a field, or drop it with ds.drop_columns"
        )
    fields: dict[str, Payload] = {}
    for name, value in row.items():
        if name not in (KEY, INDEX, LABEL) and value is not None:
            fields[name] = _payload(key, name, value)
    if label is None:  # other readers of WebDataset have the file with the class alone
        label = -1 if LABEL in row else label_of(fields)
    main = next((name for name in (IMAGE, VIDEO) if name in fields), None)
    return Sample(0, f"/{_own_key(key, fields)}", fields, label, image_field=main)


def _own_key(key: str, fields: dict[str, Payload]) -> str:
    """A key without where it came from; what a Parquet shard calls the row is taken out of the fields."""
    told = bytes(fields.get(_TOLD_KEY, b"")).decode("utf-8", "backslashreplace")
    if told and key.endswith(f"/{told}"):
        del fields[_TOLD_KEY]
        return told
    return _FILE.sub("", _SHARD.sub("", key, count=1))


def _describe(value: Any) -> str:
    """A value in a few words; texts are none of paths here."""
    return describe(value).replace("the path", "the text")


def _is_class(label: Any) -> bool:
    return isinstance(label, int) and not isinstance(label, bool) and label >= -1


def _payload(key: str, name: str, value: Any) -> Payload:
    """The bytes of a field."""
    if isinstance(value, bytes):
        return value
    if name in (IMAGE, VIDEO) or not isinstance(value, str | bool | int | float):
        raise PrepareError(
            f"column {name} of row {key} holds {_describe(value)}: encode it as bytes (JPEG or PNG, JSON, NumPy's .npy) with "
            "ds.map, or drop it with ds.drop_columns"
        )
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
