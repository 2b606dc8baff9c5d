"""Checks of the dataset: what a Loader accepts, and for anything else the call that makes a dataset of it."""

import os
from typing import Any

import torch.utils.data

from dali_pipes.errors import LoaderError
from readers import Dataset
from readers.arrays import as_array
from readers.describe import describe
from readers.stream import is_stream

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


def _advice(value: Any) -> str:
    """Return the call that makes a dataset of a value, in one sentence."""
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}
    if isinstance(value, str | os.PathLike):
        return "open it, as in Loader(readers.open_dataset(path), ...)"
    if isinstance(value, torch.utils.data.DataLoader):
        return f"a Loader takes its place; give {_FROM_TORCH}(dataloader.dataset), or open the data with open_dataset"
    if ("webdataset", "WebDataset") in kinds or ("webdataset", "DataPipeline") in kinds:
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
    if as_array(value) is not None or _is_pair_of_arrays(value):
        return "give readers.from_arrays(images, labels)"
    if isinstance(value, list | tuple) and value and isinstance(value[0], str | os.PathLike):
        return "open the files, as in Loader(readers.open_dataset(list_of_paths), ...)"
    if isinstance(value, torch.utils.data.Dataset) or _is_map_style(value):
        return f"give {_FROM_TORCH}(dataset), or derive its class from readers.CustomDataset"
    if isinstance(value, list | tuple):
        return (
            "give readers.from_arrays(images, labels) for arrays, open_dataset(list_of_paths) for files, or "
            f"{_FROM_TORCH}(pairs) for a list of pairs (image, label)"
        )
    return (
        "give what readers.open_dataset(path) returns, or derive a class from readers.CustomDataset"
    )


def _is_pair_of_arrays(value: Any) -> bool:
    if not isinstance(value, list | tuple) or not value:
        return False
    return as_array(value[0]) is not None


def _is_map_style(value: Any) -> bool:
    return (
        hasattr(value, "__getitem__")
        and hasattr(value, "__len__")
        and not isinstance(value, list | tuple | dict | bytes)
    )
