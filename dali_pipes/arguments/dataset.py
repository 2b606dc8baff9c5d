"""Check the dataset (its type, the contents of its first samples), and advise how to convert other objects."""

import os
from contextlib import suppress
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.samples.fields import FieldReader
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.samples.maps import MapReader
from dali_pipes.samples.read_field import FieldError, read_field
from dali_pipes.stages.encoded_image import VIDEOS_NEED_CLIPS
from readers import Dataset, Sample, read_header
from readers.datasets.arrays import as_array
from readers.datasets.dataset import Balanced, Subset
from readers.datasets.first_samples import probed_samples
from readers.datasets.stream import is_stream
from readers.describe import describe
from readers.image.kinds import HEAD_BYTES, not_video
from readers.sample import is_image_field, is_video_field
from readers.storage.blob.mapped import copied
from readers.storage.shards import ShardDataset
from readers.video.files import ClipListDataset, VideoFolderDataset
from readers.video.frame_folder import FrameFolderDataset

_FROM_TORCH = "dali_pipes.integrations.torch_dataset.from_torch"

# The first part of a class's module name -> how to convert objects of the class to a dataset.
_ADVICE = {
    "webdataset": "give dali_pipes.integrations.webdataset.from_webdataset(dataset), or open its tars with open_dataset",
    "datasets.": "give dali_pipes.integrations.hf_datasets.from_huggingface(dataset) of one split, or open the folder of "
    "dataset.save_to_disk(folder) with open_dataset",
    "torch.utils.data": f"give {_FROM_TORCH}(dataset), or derive a class from readers.CustomDataset. A Loader replaces a "
    "DataLoader: give the dataset that the DataLoader reads",
}


def require_dataset(dataset: Dataset) -> None:
    """Raise if an object is neither a dataset nor a stream, or a dataset has no samples."""
    if is_stream(dataset):
        return
    require_fetch(dataset)
    if len(dataset) == 0:
        raise LoaderError("the dataset is empty; a loader needs at least one sample")


def require_fetch(dataset: Dataset) -> None:
    """Raise if samples cannot be read by index."""
    if is_stream(dataset):
        raise LoaderError(
            f"{type(dataset).__name__} can only be read from front to back, and clips are taken from anywhere: make "
            "shards of it with gpu-aug pack SOURCE FOLDER, and open those"
        )
    if not hasattr(dataset, "fetch"):
        raise LoaderError(f"dataset={describe(dataset)} is not a dataset: {_advice(dataset)}")


def require_no_videos(dataset: object) -> None:
    """Raise if the samples are videos that are not wrapped in Clips, judged by file names.

    No sample is read unless an error is raised, because storage may be slow or fail. Each dataset of a mixture is checked.

    Raises:
        LoaderError: Samples are videos, or images that are named like videos; the message says what to do.
    """
    parts: tuple[Any, ...] = getattr(dataset, "datasets", (dataset,))
    for part in parts:
        if _has_videos(part):
            images = next(map(_named_like_video, probed_samples(part, 1)), "")
            raise LoaderError(
                f"dataset={describe(part)} holds {images or f'videos; {VIDEOS_NEED_CLIPS}'}"
            )


def require_there(
    dataset: Dataset, fields: FieldReader, images: ImageFields, maps: MapReader
) -> None:
    """Raise if each of the first samples lacks a field, image or map that the loader reads.

    If only some samples lack it, these are bad samples, and nothing is raised here. Each dataset of a mixture is
    checked.

    Raises:
        LoaderError: All of the first samples lack it; the message names the fields that exist.
    """
    if is_stream(dataset) or not (fields or images.fields or maps):
        return
    parts = getattr(dataset, "datasets", (dataset,))
    for number, part in enumerate(parts):
        faults = (_find_fault(sample, fields, images, maps) for sample in probed_samples(part))
        first = next(faults, "")
        if first and all(faults):  # stops at the first sample that has everything
            where = f"dataset {number} of the mixture: " * (len(parts) > 1)
            raise LoaderError(
                f"{where}{first}; the same or another fault is in all samples that were looked at: give fields that they have"
            )


def _has_videos(dataset: object) -> bool:
    while isinstance(dataset, Subset | Balanced):
        dataset = dataset.whole
    if isinstance(dataset, ShardDataset):
        names = dataset.members
        return any(map(is_video_field, names)) and not any(map(is_image_field, names))
    return isinstance(dataset, FrameFolderDataset | VideoFolderDataset | ClipListDataset)


def _named_like_video(sample: Sample) -> str:
    """Return what is wrong with a sample's field that is named like a video and holds an image; "" for other samples."""
    name = sample.video_field
    if name is None or not is_video_field(name):  # a folder of frames
        return ""
    with suppress(OSError):  # a mapped file was truncated
        reason = not_video(copied(sample.fields[name][:HEAD_BYTES]))
        return reason and f"{reason} (the field {name} of {sample.key})"
    return ""


def _find_fault(sample: Sample, fields: FieldReader, images: ImageFields, maps: MapReader) -> str:
    """Return which of the fields, images and maps a sample lacks, as a sentence; "" if it has them all."""
    try:
        fields.read(sample)
        for _, field in images.fields:
            read_field(sample.fields, field, read_header)
        for _, a_map in maps.of_fields:
            read_field(sample.fields, a_map.field, len)
    except FieldError as error:
        return f"{sample.key}: {error}"
    return ""


def _advice(value: Any) -> str:
    """Return a sentence with the call that converts an object to a dataset."""
    if isinstance(value, str | os.PathLike):
        return "open it, as in Loader(readers.open_dataset(path), ...)"
    if hasattr(getattr(value, "dataset", None), "fetch") and hasattr(value, "indices"):
        return "give subset.dataset.take(subset.indices), or divide the dataset itself by its split, where and take"
    # By module name, so that types of other libraries are recognised without importing them.
    modules = [kind.__module__ for kind in type(value).__mro__]
    for library, advice in _ADVICE.items():
        if any(module.startswith(library) for module in modules):
            return advice
    if as_array(value) is not None or isinstance(value, list | tuple):
        return (
            "give readers.from_arrays(images, labels) for arrays, open_dataset(list_of_paths) for files, or "
            f"{_FROM_TORCH}(pairs) for a list of pairs (image, label)"
        )
    return (
        f"give what readers.open_dataset(path) returns, or {_FROM_TORCH}(dataset) for a map-style dataset, or derive a "
        "class from readers.CustomDataset"
    )
