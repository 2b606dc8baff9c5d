"""A Dataset of PyTorch or torchvision as a dataset of ours: its `__getitem__` reads, our threads call it."""

import hashlib
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch.utils.data
from numpy.typing import NDArray
from torchvision.datasets.vision import StandardTransform

from dali_pipes.errors import LoaderError
from dali_pipes.integrations.torch_items import ItemError, plain_file, sample_of
from readers import BadSample, IndexedDataset, Sample
from readers.custom import digest_of, read_columns
from readers.describe import describe
from readers.first_samples import probed_samples
from readers.formats.columns import to_labels
from readers.label_vector import LabelShape
from readers.sample import ColumnName, checked_indices
from readers.storage.unreadable import reason_of

_RANDOM = ("random", "jitter", "augment", "mixup", "cutmix")


def from_torch(
    dataset: Any,
    *,
    classes: Sequence[str] | None = None,
    num_threads: int = 1,
    fingerprint: str | None = None,
) -> "TorchDataset":
    """Use a Dataset of PyTorch, such as one of torchvision.

    Its items are an image, or (image, label), or (image, target), or dictionaries with an ``image`` and a ``label``.
    Images are PIL's, uint8 arrays [H, W, 3], uint8 tensors [3, H, W], encoded bytes or paths. A mask that is a PIL
    image becomes the field ``mask.png``; a target with ``boxes`` or ``keypoints`` becomes ``json``, as Loader takes
    them; a tensor or array of one dimension is a label that is a vector; any other target becomes the field
    ``target``, JSON or, of an array, .npy. A label that is text must be one of the classes.

    Leave its transforms out: the recipe augments, and its draws can be repeated. torchvision's ImageFolder without
    transforms is read as files, so nothing is decoded twice; from others the pixels are taken as they are returned.

    Args:
        dataset: Anything with `__len__` and `__getitem__`. `torch.utils.data.Subset` is looked through.
        classes: Name of each class number; None takes `dataset.classes`, if it has them.
        num_threads: Threads that call `__getitem__` at the same time. 1 is right for every dataset; more is faster
            where it decodes, and wrong where it shares what threads cannot share: an open file, random numbers.
        fingerprint: What tells this data from other data, for the states of runs; None is a digest of the length,
            the labels that the dataset lists, and 64 of its samples. See `TorchDataset.fingerprint`.

    Warns:
        UserWarning: It has a random transform of its own, whose pictures no seed of ours repeats.

    Raises:
        LoaderError: It is no such dataset, or an IterableDataset, or its items are nothing of the above.

    Example:
        >>> from torchvision.datasets import FakeData
        >>> data = from_torch(FakeData(20, (3, 32, 32), num_classes=2), classes=("cat", "dog"))
        >>> train, val = data.split(16, 4)
        >>> loader = Loader(train, Recipe.imagenet_train(size=32), batch_size=4)
        >>> len(loader), data.classes
        (4, ('cat', 'dog'))
    """
    _require_map_style(dataset)
    if type(num_threads) is not int or num_threads < 1:
        raise LoaderError(f"{num_threads=} is not allowed; give an integer of 1 or more")
    found = TorchDataset(dataset, classes, num_threads, fingerprint)
    found.check()
    return found


class TorchDataset(IndexedDataset):
    """Samples of a Dataset of PyTorch; `from_torch` makes it and tells what its arguments are."""

    def __init__(
        self,
        dataset: Any,
        classes: Sequence[str] | None = None,
        num_threads: int = 1,
        fingerprint: str | None = None,
    ) -> None:
        self._dataset, self._declared = dataset, fingerprint
        self._num_threads = num_threads
        self._leaf, self._numbers = _look_through(dataset)
        names = getattr(self._leaf, "classes", None) if classes is None else classes
        listed = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
        self._names = tuple(names) if listed and names is not None else ()
        self._open()

    def __getstate__(self) -> dict[str, Any]:
        """Another process starts threads of its own."""
        left_out = ("_pool", "_lock", "_columns", "_labels")
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()

    def __len__(self) -> int:
        return len(self._dataset)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The dataset's own `classes`, or those that were given."""
        return self._names

    @cached_property
    def label_shape(self) -> LabelShape:
        """That of the label of the first sample that can be read."""
        first = next(probed_samples(self), None)
        return () if first is None else np.shape(first.label)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits: over the declared text and the length, or over what is told and probed.

        That is the length, the class names, the labels where the dataset lists them, and 64 samples that lie evenly
        in it. A change that touches none of these goes unnoticed, so declare a `fingerprint` where that can happen.
        Samples that a random transform changes are not probed.
        """
        if self._declared is not None:
            text = f"torch {len(self)} {self._declared!r}"
            return hashlib.sha256(text.encode()).hexdigest()[:32]
        labels = self._labels
        listed = "" if labels is None else hashlib.sha256(labels.tobytes()).hexdigest()
        words = ("torch", len(self), self.class_names, listed)
        if self._varies:
            return hashlib.sha256(repr(words).encode()).hexdigest()[:32]
        return digest_of(self, *words)

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`.

        Labels are those that the dataset lists (`targets` or `labels`); where it does not, and for the other columns,
        every item is read once.
        """
        if name == "label" and self._labels is not None:
            return self._readable(self._labels.copy())
        column = self._columns[name]
        return self._readable(column) if name == "label" else column

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Get items, in several threads; see `Dataset.fetch`. What `__getitem__` raises makes one bad sample."""
        numbers = checked_indices(indices, len(self))
        if self._pool is None or len(numbers) < 2:
            return [self._one(number) for number in numbers]
        return list(self._pool.map(self._one, numbers))

    def check(self) -> None:
        """Look at the first item, twice: whether it is a sample, and the same both times.

        Raises:
            LoaderError: It is no sample.
        """
        if len(self):
            first = self._sample_or_error(0)
            if isinstance(first, ItemError):
                raise LoaderError(f"{type(self._dataset).__name__} cannot be used: {first}")
        if self._varies:
            transform = type(_transform_of(self._leaf)).__name__
            warnings.warn(
                f"{type(self._leaf).__name__} changes its samples at random itself (transform: {transform}): such "
                "pictures are other ones after a resume, with other threads and on other ranks; give it "
                "transform=None, and the Loader a Recipe, as Recipe.from_torchvision(transform) makes one",
                stacklevel=3,
            )

    @cached_property
    def _varies(self) -> bool:
        """Whether a transform of the dataset's own draws at random, as far as its name and a second look tell."""
        words = repr(_transform_of(self._leaf)).lower()
        if any(word in words for word in _RANDOM):
            return True
        first = next(probed_samples(self), None)
        again = None if first is None else self._one(first.index)
        return isinstance(again, Sample) and first is not None and first.fields != again.fields

    def _open(self) -> None:
        count = self._num_threads
        self._lock = threading.Lock() if count == 1 else None
        self._pool = None if count == 1 else ThreadPoolExecutor(count, "gpu-aug-items")

    def _one(self, index: int) -> Sample | BadSample:
        found = self._sample_or_error(index)
        if isinstance(found, Sample):
            return found
        if isinstance(found, OSError):
            reason = reason_of(found)
        elif isinstance(found, ItemError):
            reason = str(found)
        else:
            reason = f"{type(found).__name__}: {found}"
        return BadSample(index, self._key(index), "read", reason)

    def _sample_or_error(self, index: int) -> Sample | Exception:
        try:
            as_file = self._as_file(index)
            if as_file is not None:
                return as_file
            with self._lock or nullcontext():
                item = self._dataset[index]
            return sample_of(item, index, self._key(index), self._names)
        except Exception as error:  # noqa: BLE001 - whatever it is, the neighbours are sound
            return error

    def _as_file(self, index: int) -> Sample | None:
        """The file of an item of ImageFolder as torchvision wrote it, if it decodes to the same pixels."""
        if not self._reads_files:
            return None
        path, label = self._leaf.samples[self._in_leaf(index)]
        file = plain_file(Path(path).read_bytes())
        if file is None:
            return None
        field, data, size = file
        return Sample(index, self._key(index), {field: data}, int(label), size, image_field=field)

    @cached_property
    def _reads_files(self) -> bool:
        from torchvision.datasets import ImageFolder
        from torchvision.datasets.folder import default_loader, pil_loader

        leaf = self._leaf
        if type(leaf) is not ImageFolder or leaf.loader not in (default_loader, pil_loader):
            return False
        return leaf.transform is None and leaf.target_transform is None

    def _in_leaf(self, index: int) -> int:
        return index if self._numbers is None else int(self._numbers[index])

    def keys(self) -> list[str]:
        """Name of every item: its file as ImageFolder knows it, else its number."""
        return [self._key(index) for index in range(len(self))]

    def _key(self, index: int) -> str:
        samples = getattr(self._leaf, "samples", None)
        if isinstance(samples, list) and self._in_leaf(index) < len(samples):
            first = samples[self._in_leaf(index)]
            if isinstance(first, tuple) and isinstance(first[0], str):
                return "/".join(Path(first[0]).parts[-2:])
        return str(index)

    @cached_property
    def _labels(self) -> NDArray[np.int64] | None:
        leaf = self._leaf
        joint = getattr(leaf, "transforms", None)  # of torchvision: may change targets, too
        if getattr(leaf, "target_transform", None) is not None:
            return None
        if joint is not None and not isinstance(joint, StandardTransform):
            return None
        for name in ("targets", "labels", "_labels"):
            listed = getattr(leaf, name, None)
            if not isinstance(listed, list | tuple | np.ndarray | torch.Tensor):
                continue
            try:
                array = np.asarray(listed)
            except (ValueError, TypeError):
                continue
            if array.dtype.kind in "iu" and array.shape == (len(leaf),):
                return to_labels(array if self._numbers is None else array[self._numbers])
        return None

    @cached_property
    def _columns(self) -> dict[ColumnName, NDArray[np.int64]]:
        return read_columns(self)


def _require_map_style(dataset: Any) -> None:
    kind = type(dataset).__name__
    if isinstance(dataset, torch.utils.data.DataLoader):
        raise LoaderError(
            f"{kind} makes batches already: give from_torch its dataset, as in from_torch(loader.dataset)"
        )
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise LoaderError(
            f"{kind} is an IterableDataset, which can only be read forward: open tars with "
            'open_dataset(source, format="stream"), and a webdataset.WebDataset with '
            "dali_pipes.integrations.webdataset.from_webdataset(dataset)"
        )
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise LoaderError(
            f"dataset={describe(dataset)} is no map-style dataset: it needs __len__ and __getitem__"
        )


def _look_through(dataset: Any) -> tuple[Any, NDArray[np.int64] | None]:
    """Return the dataset below `torch.utils.data.Subset`, and where its samples stand in that."""
    numbers: NDArray[np.int64] | None = None
    while isinstance(dataset, torch.utils.data.Subset):
        own = np.asarray(dataset.indices, np.int64)
        numbers = own if numbers is None else own[numbers]
        dataset = dataset.dataset
    return dataset, numbers


def _transform_of(dataset: Any) -> Any:
    """The transform of images of a torchvision dataset, None where it has none."""
    found = getattr(dataset, "transform", None)
    return getattr(dataset, "transforms", None) if found is None else found
