"""Checks of the dataset: what a Loader accepts, what its first samples lack, and how to make a dataset of anything else."""

import os
from typing import Any

import torch.utils.data

from dali_pipes.errors import LoaderError
from dali_pipes.samples.fields import FieldReader
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.samples.maps import MapReader
from dali_pipes.samples.read_field import FieldError
from dali_pipes.stages.encoded_image import VIDEOS_NEED_CLIPS
from readers import Dataset, HeaderError, Sample, read_header
from readers.datasets.arrays import as_array
from readers.datasets.dataset import Balanced, Subset
from readers.datasets.first_samples import probed_samples
from readers.datasets.stream import is_stream
from readers.describe import describe
from readers.sample import is_image_field, is_video_field
from readers.storage.shards import ShardDataset
from readers.video.files import ClipListDataset, VideoFolderDataset
from readers.video.frame_folder import FrameFolderDataset

_FROM_TORCH = "dali_pipes.integrations.torch_dataset.from_torch"


def require_dataset(dataset: Dataset) -> None:
    """Refuse what is neither a dataset nor a stream, and a dataset without samples."""
    if is_stream(dataset):
        return
    require_fetch(dataset)
    if len(dataset) == 0:
        raise LoaderError("the dataset is empty; a loader needs at least one sample")


def require_fetch(dataset: Dataset) -> None:
    """Refuse what cannot be read at random."""
    if is_stream(dataset):
        raise LoaderError(
            f"{type(dataset).__name__} can only be read from front to back, and clips are taken from anywhere: make "
            "shards of it with gpu-aug pack SOURCE FOLDER, and open those"
        )
    if not hasattr(dataset, "fetch"):
        raise LoaderError(f"dataset={describe(dataset)} is not a dataset: {_advice(dataset)}")


def require_no_videos(dataset: object) -> None:
    """Refuse videos that are not wrapped in Clips, judged by names: no sample is read, as storage may be slow or fail.

    Of a mixture each dataset is checked.

    Raises:
        LoaderError: The text has the call to write.
    """
    for part in getattr(dataset, "datasets", (dataset,)):
        if _has_videos(part):
            raise LoaderError(f"dataset={describe(part)} holds videos; {VIDEOS_NEED_CLIPS}")


def require_there(
    dataset: Dataset, fields: FieldReader, images: ImageFields, maps: MapReader
) -> None:
    """Refuse fields, images and maps that all of the first samples lack; a single sample without them is a bad sample.

    Of a mixture each dataset is checked.

    Raises:
        LoaderError: The text names the fields that there are.
    """
    if is_stream(dataset) or not (fields or images.fields or maps):
        return
    for part in getattr(dataset, "datasets", (dataset,)):
        reasons = []
        for sample in probed_samples(part):
            reason = _reason_without(sample, fields, images, maps)
            if not reason:
                break
            reasons.append(reason)
        else:
            if reasons:
                count = len(reasons)
                others = (
                    f" (the same or another fault is in all {count} samples that were looked at)"
                )
                raise LoaderError(
                    f"{reasons[0]}; give a field that the samples have{others if count > 1 else ''}"
                )


def _has_videos(dataset: object) -> bool:
    while isinstance(dataset, Subset | Balanced):
        dataset = dataset.whole
    if isinstance(dataset, ShardDataset):
        names = dataset.members
        return any(map(is_video_field, names)) and not any(map(is_image_field, names))
    return isinstance(dataset, FrameFolderDataset | VideoFolderDataset | ClipListDataset)


def _reason_without(
    sample: Sample, fields: FieldReader, images: ImageFields, maps: MapReader
) -> str:
    """Return why a sample lacks one of the fields, images or maps, "" if it has them all."""
    try:
        fields.read(sample)
    except FieldError as error:
        return f"fields: {sample.key}: {error}"
    wanted = [(f"images[{name!r}]", field) for name, field in images.fields]
    wanted += [(f"maps[{name!r}]", one.field) for name, one in maps.maps]
    for name, field in wanted:
        if field not in sample.fields:
            present = ", ".join(sample.fields) or "none"
            return f"{name}: {sample.key} has no field {field!r}, but {present}"
    for name, field in images.fields:
        try:
            read_header(sample.fields[field])
        except HeaderError as error:
            return f"images[{name!r}]: {sample.key}: {error}"
    return ""


def _advice(value: Any) -> str:
    """Return the call that makes a dataset of a value, in one sentence."""
    # By name, so that a type of another library is recognised without importing it.
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}
    if isinstance(value, str | os.PathLike):
        return "open it, as in Loader(readers.open_dataset(path), ...)"
    if isinstance(value, torch.utils.data.DataLoader):
        return f"a Loader takes its place; give {_FROM_TORCH}(dataloader.dataset), or open the data with open_dataset"
    if kinds & {("webdataset", "WebDataset"), ("webdataset", "DataPipeline")}:
        return "give dali_pipes.integrations.webdataset.from_webdataset(dataset), or open its tars with open_dataset"
    if ("datasets", "Dataset") in kinds:
        return (
            "give dali_pipes.integrations.hf_datasets.from_huggingface(dataset), or open the folder of "
            "dataset.save_to_disk(folder) with open_dataset"
        )
    if ("datasets", "DatasetDict") in kinds:
        return "it is several splits; choose one of them, such as dataset['train'], and give from_huggingface of that"
    if isinstance(value, torch.utils.data.IterableDataset) or (
        ("datasets", "IterableDataset") in kinds
    ):
        return (
            'it can only be read forward; open its files with open_dataset, tars also with format="stream", or give '
            "from_webdataset of a webdataset.WebDataset"
        )
    is_list = isinstance(value, list | tuple)
    first = value[0] if is_list and value else None
    if as_array(value) is not None or (first is not None and as_array(first) is not None):
        return "give readers.from_arrays(images, labels)"
    if isinstance(first, str | os.PathLike):
        return "open the files, as in Loader(readers.open_dataset(list_of_paths), ...)"
    if is_list:
        return (
            "give readers.from_arrays(images, labels) for arrays, open_dataset(list_of_paths) for files, or "
            f"{_FROM_TORCH}(pairs) for a list of pairs (image, label)"
        )
    is_map_style = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    if isinstance(value, torch.utils.data.Dataset) or (
        is_map_style and not isinstance(value, dict | bytes)
    ):
        return f"give {_FROM_TORCH}(dataset), or derive its class from readers.CustomDataset"
    return (
        "give what readers.open_dataset(path) returns, or derive a class from readers.CustomDataset"
    )
