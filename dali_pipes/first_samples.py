"""A look at the first samples of a dataset, to refuse at once what none of them has."""

from collections.abc import Iterator

from dali_pipes.errors import LoaderError
from dali_pipes.fields import FieldError, FieldReader
from dali_pipes.image_fields import ImageFields
from dali_pipes.maps import MapReader
from dali_pipes.pipeline.image_of import VIDEOS_NEED_CLIPS
from readers import Dataset, HeaderError, Sample, read_header
from readers.describe import describe
from readers.prepare.kind import holds_videos
from readers.stream import is_stream

_PROBES = 8  # samples that are looked at, at most


def require_there(
    dataset: Dataset, fields: FieldReader, images: ImageFields, maps: MapReader
) -> None:
    """Refuse fields that the first sample lacks, and images and maps that none of the first samples has.

    Of a mixture each dataset is looked at.

    Raises:
        LoaderError: The text says what is there.
    """
    if is_stream(dataset) or not (fields or images.fields or maps):
        return
    for part in getattr(dataset, "datasets", (dataset,)):
        lacking = ""
        for number, sample in enumerate(_firsts(part)):
            if number == 0:
                _require_fields(sample, fields)
            found = _lacking(sample, images, maps)
            lacking = (lacking or found) if found else ""
            if not found:
                break
        if lacking:
            raise LoaderError(f"{lacking}; give a field that the samples have")


def require_no_videos(dataset: Dataset) -> None:
    """Refuse videos that nobody made clips of: the first sample that can be read tells.

    Of a mixture each dataset is looked at. A stream is not: a look would use up its first sample.

    Raises:
        LoaderError: The text has the call to write.
    """
    if is_stream(dataset):
        return
    for part in getattr(dataset, "datasets", (dataset,)):
        if holds_videos(part):
            raise LoaderError(f"dataset={describe(part)} holds videos; {VIDEOS_NEED_CLIPS}")


def _firsts(part: Dataset) -> Iterator[Sample]:
    for index in range(min(_PROBES, len(part))):
        [sample] = part.fetch([index])
        if isinstance(sample, Sample):
            yield sample


def _require_fields(sample: Sample, fields: FieldReader) -> None:
    try:
        fields.read(sample)
    except FieldError as error:
        raise LoaderError(f"fields: {sample.key}: {error}") from error


def _lacking(sample: Sample, images: ImageFields, maps: MapReader) -> str:
    """Return why a sample is without one of the images or maps, "" where it has them all."""
    wanted = [(f"images[{name!r}]", field) for name, field in images.fields]
    wanted += [(f"maps[{name!r}]", one.field) for name, one in maps.maps]
    for name, field in wanted:
        if field not in sample.fields:
            there = ", ".join(sample.fields) or "none"
            return f"{name}: {sample.key} has no field {field!r}, but {there}"
    for name, field in images.fields:
        try:
            read_header(sample.fields[field])
        except HeaderError as error:
            return f"images[{name!r}]: {sample.key}: {error}"
    return ""
