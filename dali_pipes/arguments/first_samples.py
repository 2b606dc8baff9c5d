"""A look at the first samples of a dataset, to refuse at once what none of them has."""

from dali_pipes.errors import LoaderError
from dali_pipes.samples.fields import FieldReader
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.samples.maps import MapReader
from dali_pipes.samples.read_field import FieldError
from dali_pipes.stages.encoded_image import VIDEOS_NEED_CLIPS
from readers import Dataset, HeaderError, Sample, read_header
from readers.dataset import Balanced, Subset
from readers.describe import describe
from readers.first_samples import probed_samples
from readers.sample import is_image_field, is_video_field
from readers.storage.shards import ShardDataset
from readers.stream import is_stream
from readers.video.files import ClipListDataset, VideoFolderDataset
from readers.video.frame_folder import FrameFolderDataset


def require_there(
    dataset: Dataset, fields: FieldReader, images: ImageFields, maps: MapReader
) -> None:
    """Refuse fields, images and maps that none of many samples has; what some of them lack makes bad samples.

    Of a mixture each dataset is looked at.

    Raises:
        LoaderError: The text says what is there.
    """
    if is_stream(dataset) or not (fields or images.fields or maps):
        return
    for part in getattr(dataset, "datasets", (dataset,)):
        lacking = []
        for sample in probed_samples(part):
            lacking.append(_lacking(sample, fields, images, maps))
            if not lacking[-1]:
                break
        if lacking and lacking[-1]:
            raise LoaderError(_refusal(lacking))


def require_no_videos(dataset: object) -> None:
    """Refuse videos that nobody made clips of, where names tell it: no sample is read, as storage may be slow or fail.

    Of a mixture each dataset is looked at.

    Raises:
        LoaderError: The text has the call to write.
    """
    for part in getattr(dataset, "datasets", (dataset,)):
        if _is_of_videos(part):
            raise LoaderError(f"dataset={describe(part)} holds videos; {VIDEOS_NEED_CLIPS}")


def _is_of_videos(dataset: object) -> bool:
    while isinstance(dataset, Subset | Balanced):
        dataset = dataset.whole
    if isinstance(dataset, ShardDataset):
        names = dataset.members
        return any(map(is_video_field, names)) and not any(map(is_image_field, names))
    return isinstance(dataset, FrameFolderDataset | VideoFolderDataset | ClipListDataset)


def _refusal(lacking: list[str]) -> str:
    first = f"{lacking[0]}; give a field that the samples have"
    if len(lacking) == 1:
        return first
    return (
        f"{first} (the same or another fault is in all {len(lacking)} samples that were looked at)"
    )


def _lacking(sample: Sample, fields: FieldReader, images: ImageFields, maps: MapReader) -> str:
    """Return why a sample is without one of the fields, images or maps, "" where it has them all."""
    try:
        fields.read(sample)
    except FieldError as error:
        return f"fields: {sample.key}: {error}"
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
