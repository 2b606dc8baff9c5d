"""Samples as rows of Arrow tables."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_pipes.errors import LoaderError
from readers import IndexedDataset, Sample
from readers.formats.registry import require
from readers.label_vector import class_number, label_shape_of
from readers.prepare.kind import is_video
from readers.sample import Payload, is_image_field, is_video_field

KEY, INDEX, LABEL = "key", "index", "label"
IMAGE, VIDEO = "image", "video"
RESERVED = (KEY, INDEX, LABEL, IMAGE, VIDEO)
_LABEL_FIELDS = ("cls", "label")  # of WebDataset and of Parquet shards
_LONGEST_LABEL = 32


@dataclass(frozen=True)
class Columns:
    """How samples of a dataset become rows; the same for all of its blocks.

    Attributes:
        fields: The columns for fields, in order.
        has_main: Whether the image or video of a sample is called so, whatever its field is called.
        has_vectors: Whether labels are vectors.
        is_given: Whether somebody chose the columns, so that samples may have further fields.
    """

    fields: tuple[str, ...]
    has_main: bool
    has_vectors: bool
    is_given: bool

    @property
    def schema(self) -> Any:
        """The schema of Arrow."""
        pa = require("pyarrow", extra="arrow")
        label = pa.list_(pa.float32()) if self.has_vectors else pa.int64()
        columns = [(KEY, pa.string()), (INDEX, pa.int64()), (LABEL, label)]
        return pa.schema([*columns, *((name, pa.binary()) for name in self.fields)])

    def table(self, samples: Sequence[Sample]) -> Any:
        """Return samples as a table.

        Raises:
            LoaderError: A sample has a field for which there is no column.
        """
        pa = require("pyarrow", extra="arrow")
        found = [self._values(sample) for sample in samples]
        values: list[list[Any]] = [
            [sample.key.encode("utf-8", "backslashreplace").decode() for sample in samples],
            [sample.index for sample in samples],
            [_label(sample) for sample in samples],
            *([one.get(name) for one in found] for name in self.fields),
        ]
        schema = self.schema
        arrays = [
            pa.array(column, field.type) for column, field in zip(values, schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _values(self, sample: Sample) -> dict[str, Payload]:
        if not self.is_given:
            sample = without_label(sample)
        values = named_fields(sample, has_main=self.has_main)
        further = [] if self.is_given else [name for name in values if name not in self.fields]
        if further:
            raise LoaderError(
                f"sample {sample.index} ({sample.key}) has the field {further[0]}, and none of the samples that the columns "
                f"were taken from has: give DatasetSource fields={[*self.fields, further[0]]}, or leave out what is not needed"
            )
        return values


def find_columns(
    dataset: IndexedDataset, samples: Iterable[Sample], fields: Sequence[str] | None
) -> Columns:
    """Decide about the columns of a dataset.

    Args:
        dataset: Tells the kind of its labels.
        samples: Some of its samples.
        fields: Those that are wanted; None are those of the samples, in the order in which they turn up.

    Raises:
        LoaderError: The wanted ones are no names, or those of other columns.
    """
    samples = list(samples)
    has_main = all(_count(sample) == 1 for sample in samples)
    is_vectors = label_shape_of(dataset) != ()
    if fields is None:
        rows = [named_fields(without_label(sample), has_main=has_main) for sample in samples]
        return Columns(
            tuple(dict.fromkeys(name for row in rows for name in row)), has_main, is_vectors, False
        )
    names = (KEY, INDEX, LABEL)
    wrong = [name for name in fields if not isinstance(name, str) or name in names]
    if wrong or isinstance(fields, str) or len({*fields}) < len(fields):
        raise LoaderError(
            f"fields={fields!r} is not allowed; give a list of names of fields, each once and none of {', '.join(names)}"
        )
    return Columns(tuple(fields), has_main, is_vectors, True)


def named_fields(sample: Sample, *, has_main: bool) -> dict[str, Payload]:
    """The contents of a sample by the names of their columns, the image or video first."""
    main = main_field(sample) if has_main else None
    found = {} if main is None else {_main_name(sample, main): sample.fields[main]}
    for name, payload in sample.fields.items():
        if name != main:
            found[f"{name}.bin" if name in RESERVED else name] = payload
    return found


def without_label(sample: Sample) -> Sample:
    """A sample without the field that says its class number, since the column label does: one of them would go stale."""
    number = class_number(sample.label)
    told = [
        name
        for name in _LABEL_FIELDS
        if number >= 0
        and bytes(sample.fields.get(name, b"")[:_LONGEST_LABEL]).strip() == b"%d" % number
    ]
    fields = {name: payload for name, payload in sample.fields.items() if name not in told}
    return replace(sample, fields=fields) if told else sample


def main_field(sample: Sample) -> str | None:
    """The field that holds the image or, where there is none, the video."""
    if sample.image_field in sample.fields:
        return sample.image_field
    return next(filter(is_image_field, sample.fields), None) or sample.video_field


def _main_name(sample: Sample, main: str) -> str:
    return VIDEO if main == sample.video_field and is_video(sample) else IMAGE


def _count(sample: Sample) -> int:
    """Images of a sample, or its videos."""
    if sample.image_field in sample.fields:
        return 1
    images = sum(map(is_image_field, sample.fields))
    return images or sum(map(is_video_field, sample.fields)) or 1


def _label(sample: Sample) -> Any:
    label = sample.label
    if isinstance(label, np.ndarray):
        return label
    return None if label == -1 else label
