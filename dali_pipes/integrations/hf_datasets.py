"""Read a `datasets.Dataset` of Hugging Face from its Arrow files."""

from typing import Any

import numpy as np

from dali_pipes.errors import LoaderError
from readers import IndexedDataset, open_dataset
from readers.describe import describe

_SAVE = (
    'call dataset.save_to_disk("folder") and open that with readers.open_dataset("folder"), or let it decode by itself '
    "with dali_pipes.integrations.torch_dataset.from_torch(dataset)"
)


def from_huggingface(dataset: Any, **columns: Any) -> IndexedDataset:
    """Use a `datasets.Dataset` in a loader, by reading its Arrow files.

    The rows and their order after `shuffle`, `select`, `filter` and `train_test_split` are used. Transforms and formats
    (`set_format`, `with_transform`) are ignored: images are read as stored, and the recipe augments them.

    Args:
        dataset: One split, such as the result of ``load_dataset(name, split="train")``.
        columns: Names of the columns, as for the format "arrow" of `readers.open_dataset`, such as ``image="photo"``
            and ``label="class"``.

    Raises:
        LoaderError: The argument is not a `datasets.Dataset`, or parts of it are not in files; the message says what to
            do.
        SourceError: The files cannot be read, or lack an image column; see `readers.open_dataset`.

    Example:
        >>> import datasets
        >>> table = datasets.Dataset.from_parquet("data.parquet", cache_dir="cache")
        >>> photos = from_huggingface(table.select([3, 5, 7, 8]), image="photo", label="class")
        >>> len(photos), photos[3].label
        (4, 0)
    """
    if isinstance(getattr(dataset, "cache_files", None), dict):
        raise LoaderError(
            f"{type(dataset).__name__} is several splits: choose one, such as dataset['train']"
        )
    if not hasattr(dataset, "cache_files") or not hasattr(dataset, "data"):
        raise LoaderError(
            f"dataset={describe(dataset)} is no datasets.Dataset: give one split, such as "
            'load_dataset(name, split="train")'
        )
    chosen = getattr(dataset, "_indices", None)
    files = [str(file["filename"]) for file in dataset.cache_files]
    if chosen is not None:
        from datasets.table import list_table_cache_files

        # `cache_files` also lists the files with the indices of `select` or `shuffle`.
        of_indices = set(map(str, list_table_cache_files(chosen)))
        files = [name for name in files if name not in of_indices]
    if not files:
        raise LoaderError(f"this datasets.Dataset lies in memory, not in files: {_SAVE}")
    full = open_dataset(files, format="arrow", **columns)
    if len(full) != len(dataset.data):
        raise LoaderError(
            f"this datasets.Dataset is a part of {len(full)} rows in its files, {len(dataset.data)} of them: {_SAVE}"
        )
    if chosen is None:
        return full
    return full.take(np.asarray(chosen.column(0).to_numpy(), np.int64))
