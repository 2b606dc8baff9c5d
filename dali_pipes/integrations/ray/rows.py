"""Convert samples to rows of Ray Data, and rows to samples."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_pipes.errors import LoaderError
from dali_pipes.integrations.ray.cluster import require_ray
from readers import IndexedDataset, Sample
from readers.describe import describe
from readers.detect.registry import require
from readers.formats.tar.webdataset import label_of
from readers.labels.label_vector import class_number, label_shape_of
from readers.prepare.errors import PrepareError
from readers.prepare.inspection.kind import is_video
from readers.sample import IMAGE_FIELDS, VIDEO_FIELDS, Payload, is_image_field, is_video_field

KEY, INDEX, LABEL = "key", "index", "label"
IMAGE, VIDEO = "image", "video"
_NOT_FIELDS = (KEY, INDEX, LABEL)
_RESERVED = (*_NOT_FIELDS, IMAGE, VIDEO)
# Fields of WebDataset and of Parquet shards that hold the class number as text.
_LABEL_FIELDS = ("cls", "label")
# No class number has more digits. A longer field may be a large file, which is not copied for a comparison.
_LONGEST_LABEL_BYTES = 32
_EXPLANATIONS = {
    KEY: "the one with a text that identifies each row",
    IMAGE: "the one with the encoded images",
}
_KEY_FIELD = f"{KEY}.bin"  # the column of a field named "key"
# Parts of a key that describe the origin of the row: the shard, and the file extension.
_SHARD = re.compile(r"[^/]*\.tar/(?=.)")
_ENDING = re.compile(rf"(?<=[^/])\.({'|'.join(IMAGE_FIELDS + VIDEO_FIELDS)})$", re.IGNORECASE)
# Rows that become Python objects at a time, to limit their memory.
_ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Columns:
    """How samples of a dataset become rows of Ray Data; equal for all blocks.

    Attributes:
        fields: The columns for fields, in order.
        has_main: Whether every sample has one image or video, whose column is called "image" or "video".
        has_vectors: Whether labels are vectors.
        is_given: Whether the user chose the columns; if so, all other fields of samples are left out.
    """

    fields: tuple[str, ...]
    has_main: bool
    has_vectors: bool
    is_given: bool

    @property
    def schema(self) -> Any:
        """Return the Arrow schema of the rows."""
        pa = require("pyarrow", extra="arrow")
        label = pa.list_(pa.float32()) if self.has_vectors else pa.int64()
        columns = [(KEY, pa.string()), (INDEX, pa.int64()), (LABEL, label)]
        return pa.schema([*columns, *((name, pa.binary()) for name in self.fields)])

    def table(self, samples: Sequence[Sample]) -> Any:
        """Return samples as an Arrow table.

        Raises:
            LoaderError: A sample has a field without a column.
        """
        pa = require("pyarrow", extra="arrow")
        rows = [self._row(sample) for sample in samples]
        schema = self.schema
        arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _row(self, sample: Sample) -> dict[str, Any]:
        fields = named_fields(
            sample if self.is_given else without_label(sample), has_main=self.has_main
        )
        further = [] if self.is_given else [name for name in fields if name not in self.fields]
        if further:
            raise LoaderError(
                f"sample {sample.index} ({sample.key}) has the field {further[0]}, and none of the samples that the columns "
                f"were taken from has: give DatasetSource fields={[*self.fields, further[0]]}, or leave out what is not needed"
            )
        label: Any = sample.label
        if not isinstance(label, np.ndarray) and label == -1:
            label = None
        key = sample.key.encode("utf-8", "backslashreplace").decode()
        return {**fields, KEY: key, INDEX: sample.index, LABEL: label}


def find_columns(
    dataset: IndexedDataset, samples: Sequence[Sample], fields: Sequence[str] | None
) -> Columns:
    """Return the columns that rows of Ray Data have for the samples of a dataset.

    Args:
        dataset: The dataset, which knows the type of its labels.
        samples: Some samples of the dataset.
        fields: Names of the columns for fields; None uses the fields of the samples in order of appearance.

    Raises:
        LoaderError: `fields` is not a list of different names, or contains names of other columns.
    """
    has_main = all(len(_main_fields(sample)) <= 1 for sample in samples)
    has_vectors = label_shape_of(dataset) != ()
    if fields is None:
        rows = [named_fields(without_label(sample), has_main=has_main) for sample in samples]
        names = tuple(dict.fromkeys(name for row in rows for name in row))
        return Columns(names, has_main, has_vectors, is_given=False)
    wrong = [name for name in fields if not isinstance(name, str) or name in _NOT_FIELDS]
    if wrong or isinstance(fields, str) or len({*fields}) < len(fields):
        raise LoaderError(
            f"fields={fields!r} is not allowed; give a list of names of fields, each once and none of {', '.join(_NOT_FIELDS)}"
        )
    return Columns(tuple(fields), has_main, has_vectors, is_given=True)


def named_fields(sample: Sample, *, has_main: bool) -> dict[str, Payload]:
    """Return the fields of a sample by column name, the image or video first.

    Args:
        sample: The sample.
        has_main: Whether the column of the sample's image or video is called "image" or "video"; see Columns.
    """
    main = next(iter(_main_fields(sample)), None) if has_main else None
    named = {}
    if main is not None:
        name = VIDEO if main == sample.video_field and is_video(sample) else IMAGE
        named[name] = sample.fields[main]
    for name, payload in sample.fields.items():
        if name != main:
            named[f"{name}.bin" if name in _RESERVED else name] = payload
    return named


def without_label(sample: Sample) -> Sample:
    """Return a sample without the field that repeats its class number, which would be wrong if the column changes."""
    number = class_number(sample.label)
    text = b"%d" % number
    repeated = [
        name
        for name in _LABEL_FIELDS
        if number >= 0
        and bytes(sample.fields.get(name, b"")[:_LONGEST_LABEL_BYTES]).strip() == text
    ]
    fields = {name: payload for name, payload in sample.fields.items() if name not in repeated}
    return replace(sample, fields=fields) if repeated else sample


def samples_of(blocks: Iterable[Any], *, need_image: bool) -> Iterator[tuple[int | None, Sample]]:
    """Yield for each row of some blocks, in order, the value of its column ``index`` and its sample.

    The key of a sample is that of the row, without the shard and the file extension of its origin.

    Args:
        blocks: Blocks of Ray Data.
        need_image: Whether every row must have an image, unless the block has videos.

    Raises:
        PrepareError: A column is missing, or a row has no key or a value that no field can hold.
    """
    accessor = require_ray("ray.data.block").BlockAccessor
    for block in blocks:
        table = accessor.for_block(block).to_arrow()
        # Rows without a video are not checked here; the packer refuses them.
        needed = (KEY, IMAGE) if need_image and VIDEO not in table.column_names else (KEY,)
        missing = next((name for name in needed if name not in table.column_names), None)
        if missing is not None:
            raise PrepareError(
                f"rows need a column {missing!r} and have {', '.join(table.column_names)}: rename "
                f"{_EXPLANATIONS[missing]}, ds.rename_columns({{NAME: {missing!r}}})"
            )
        for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
            for row in batch.to_pylist():
                yield row.get(INDEX), _sample(row)


def _main_fields(sample: Sample) -> list[str]:
    """Return the fields that may be the sample's image or, if it has no image, its video."""
    if sample.image_field is not None and sample.image_field in sample.fields:
        return [sample.image_field]
    images = list(filter(is_image_field, sample.fields))
    return images or list(filter(is_video_field, sample.fields))


def _sample(row: Mapping[str, Any]) -> Sample:
    key, label = row[KEY], row.get(LABEL)
    if not isinstance(key, str) or not key:
        raise PrepareError(f"the key of a row is {_in_words(key)}: give each row a text")
    is_class = isinstance(label, int) and not isinstance(label, bool) and label >= -1
    if label is not None and not is_class:
        raise PrepareError(
            f"the label of row {key} is {_in_words(label)}, and shards hold class numbers: make it an integer with ds.map, "
            "rename it to store it as a field, or drop it with ds.drop_columns"
        )
    fields = {
        name: _payload(key, name, value)
        for name, value in row.items()
        if name not in _NOT_FIELDS and value is not None
    }
    if (
        label is None
    ):  # Ray's WebDataset reader returns no label, but the file with the class number
        label = -1 if LABEL in row else label_of(fields)
    main = next((name for name in (IMAGE, VIDEO) if name in fields), None)
    return Sample(0, f"/{_own_key(key, fields)}", fields, label, image_field=main)


def _own_key(key: str, fields: dict[str, Payload]) -> str:
    """Return a row's key without shard and extension; remove from `fields` the key that a Parquet shard has stored."""
    stored = bytes(fields.get(_KEY_FIELD, b"")).decode("utf-8", "backslashreplace")
    if stored and key.endswith(f"/{stored}"):
        del fields[_KEY_FIELD]
        return stored
    return _ENDING.sub("", _SHARD.sub("", key, count=1))


def _in_words(value: Any) -> str:
    return describe(value).replace("the path", "the text")  # a string is not a path here


def _payload(key: str, name: str, value: Any) -> Payload:
    """Return the value of a column as the bytes of a field: text in UTF-8, numbers and booleans in JSON."""
    if isinstance(value, bytes):
        return value
    if name in (IMAGE, VIDEO) or not isinstance(value, str | bool | int | float):
        raise PrepareError(
            f"column {name} of row {key} holds {_in_words(value)}: encode it as bytes (JPEG or PNG, JSON, NumPy's .npy) with "
            "ds.map, or drop it with ds.drop_columns"
        )
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
