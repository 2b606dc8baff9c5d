"""Read a Dataset of PyTorch or torchvision: the loader's threads call its `__getitem__`."""

import hashlib
import logging
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch.utils.data
from numpy.typing import NDArray
from torchvision.datasets.vision import StandardTransform

from dali_pipes.arguments.values import require_positive
from dali_pipes.errors import LoaderError
from dali_pipes.integrations.torch_items import ItemError, plain_file, sample_of
from readers import BadSample, IndexedDataset, Sample
from readers.datasets.custom import digest_of, read_columns
from readers.datasets.first_samples import probed_samples
from readers.describe import describe
from readers.fingerprint import fingerprint_of
from readers.formats.columns import to_labels
from readers.labels.label_vector import LabelShape
from readers.sample import ColumnName, checked_indices
from readers.storage.unreadable import is_transient, reason_of

_log = logging.getLogger(f"gpu_aug.{__name__}")

# Parts of the names of random transforms in torchvision, Kornia and Albumentations.
_RANDOM = ("random", "jitter", "augment", "mixup", "cutmix")


def from_torch(
    dataset: Any,
    *,
    classes: Sequence[str] | None = None,
    num_threads: int = 1,
    fingerprint: str | None = None,
) -> "TorchDataset":
    """Use a PyTorch Dataset, such as one of torchvision, in a loader.

    Its items are an image, or (image, label), or (image, target), or dictionaries with an ``image`` and a ``label``.
    Images are PIL images, uint8 arrays [H, W, 3], uint8 tensors [3, H, W], encoded bytes or paths. A target becomes:

    - a mask as PIL image: the field ``mask.png``;
    - a dictionary with ``boxes`` or ``keypoints``: the field ``json``, in the form that Loader reads;
    - a tensor or array of one dimension: a label that is a vector;
    - anything else: the field ``target``, as JSON or, for an array, .npy.

    A label that is text must be one of the classes.

    Leave out the dataset's transforms: the recipe augments, and its draws can be repeated. An ImageFolder of
    torchvision without transforms is read as files, so nothing is decoded twice; other datasets return pixels.

    Args:
        dataset: Any object with `__len__` and `__getitem__`, also a `torch.utils.data.Subset`.
        classes: Name of each class number; None uses `dataset.classes` if the dataset has this attribute.
        num_threads: Count of threads that call `__getitem__` at the same time. 1 is safe for every dataset. More are
            faster if the dataset decodes, but wrong if it uses something that threads cannot share, such as an open
            file or random numbers.
        fingerprint: A text that identifies this data in the states of runs; None computes a digest of the length, the
            labels that the dataset lists, and 64 of its samples. See `TorchDataset.fingerprint`.

    Warns:
        UserWarning: The dataset has a random transform, whose images no seed repeats.

    Raises:
        LoaderError: The object has no `__len__` or `__getitem__`, or is an IterableDataset, or an item has none of the
            forms above.

    Example:
        >>> from torchvision.datasets import FakeData
        >>> data = from_torch(FakeData(20, (3, 32, 32), num_classes=2), classes=("cat", "dog"))
        >>> train, val = data.split(16, 4)
        >>> loader = Loader(train, Recipe.imagenet_train(size=32), batch_size=4)
        >>> len(loader), data.classes
        (4, ('cat', 'dog'))
    """
    _require_map_style(dataset)
    require_positive(num_threads=num_threads)
    wrapped = TorchDataset(dataset, classes, num_threads, fingerprint)
    wrapped.check()
    return wrapped


class TorchDataset(IndexedDataset):
    """Samples of a PyTorch Dataset; made by `from_torch`, which documents the arguments."""

    def __init__(
        self,
        dataset: Any,
        classes: Sequence[str] | None = None,
        num_threads: int = 1,
        fingerprint: str | None = None,
    ) -> None:
        self._dataset, self._declared = dataset, fingerprint
        self._num_threads = num_threads
        self._leaf, self._numbers = _without_subsets(dataset)
        names = getattr(self._leaf, "classes", None) if classes is None else classes
        are_texts = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
        self._class_names = tuple(names) if are_texts and names is not None else ()
        self._start_threads()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, which starts its own threads and reads the columns itself."""
        left_out = ("_pool", "_lock", "_columns", "_labels")
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start_threads()

    def _start_threads(self) -> None:
        self._lock: AbstractContextManager[Any] = nullcontext()
        self._pool: ThreadPoolExecutor | None = None
        if self._num_threads == 1:
            # For `fetch`, which several threads of a loader call at the same time.
            self._lock = threading.Lock()
        else:
            self._pool = ThreadPoolExecutor(self._num_threads, "gpu-aug-items")

    def __len__(self) -> int:
        return len(self._dataset)

    @cached_property
    def label_shape(self) -> LabelShape:
        """Shape of the label of the first readable sample."""
        first = next(probed_samples(self), None)
        return () if first is None else np.shape(first.label)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits: a digest of the given text and the length, or of properties and samples.

        Without a given text, it covers the length, the class names, the labels if the dataset lists them, and 64
        samples spread evenly over the dataset. Other changes go unnoticed; pass a `fingerprint` if they can happen.
        Samples that a random transform changes are not included.
        """
        if self._declared is not None:
            return fingerprint_of(f"torch {len(self)} {self._declared!r}")
        labels = self._labels
        listed = "" if labels is None else hashlib.sha256(labels.tobytes()).hexdigest()
        words = ("torch", len(self), self.class_names, listed)
        if self._is_random:
            return fingerprint_of(repr(words))
        return digest_of(self, *words)

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return the values of a column for all samples; see `IndexedDataset.column`.

        Labels are those that the dataset lists (`targets` or `labels`). If it lists none, and for other columns, every
        item is read once.
        """
        if name != "label":
            return self._columns[name]
        return self._readable(self._columns[name] if self._labels is None else self._labels.copy())

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples, read in several threads. An exception of `__getitem__` makes one bad sample."""
        numbers = checked_indices(indices, len(self))
        if self._pool is None or len(numbers) < 2:
            return [self._entry(number) for number in numbers]
        return list(self._pool.map(self._entry, numbers))

    def check(self) -> None:
        """Check that the first item is a sample, and warn if the dataset changes its samples at random.

        Raises:
            LoaderError: The item is not a sample.
        """
        if len(self):
            try:
                self._sample(0)
            except ItemError as error:
                kind = type(self._dataset).__name__
                raise LoaderError(f"{kind} cannot be used: {error}") from None
            except Exception as error:  # noqa: BLE001 - the loader reports it as a bad sample
                _log.debug("the first item of %s cannot be read: %s", self._dataset, error)
        if self._is_random:
            transform = type(_transform_of(self._leaf)).__name__
            warnings.warn(
                f"{type(self._leaf).__name__} changes its samples at random itself (transform: {transform}): such "
                "pictures differ after a resume, with other threads and on other ranks; give it "
                "transform=None, and the Loader a Recipe, as Recipe.from_torchvision(transform) makes one",
                stacklevel=3,
            )

    @cached_property
    def _is_random(self) -> bool:
        """Whether the dataset's transform is random, judged by its name and by reading a sample twice."""
        words = repr(_transform_of(self._leaf)).lower()
        if any(word in words for word in _RANDOM):
            return True
        first = next(probed_samples(self), None)
        again = None if first is None else self._entry(first.index)
        return isinstance(again, Sample) and first is not None and first.fields != again.fields

    def _entry(self, index: int) -> Sample | BadSample:
        try:
            return self._sample(index)
        except ItemError as error:
            reason, is_passing = str(error), False
        except OSError as error:
            reason, is_passing = reason_of(error), is_transient(error)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything; it concerns this sample alone
            reason, is_passing = f"{type(error).__name__}: {error}", is_transient(error)
        return BadSample(index, self._key(index), "read", reason, transient=is_passing)

    def _sample(self, index: int) -> Sample:
        key = self._key(index)
        if self._reads_files:  # uses the file if it decodes to the pixels that torchvision returns
            path, label = self._leaf.samples[self._in_leaf(index)]
            picture = plain_file(Path(path).read_bytes())
            if picture is not None:
                return picture.sample(index, key, int(label))
        with self._lock:
            item = self._dataset[index]
        return sample_of(item, index, key, self._class_names)

    @cached_property
    def _reads_files(self) -> bool:
        """Whether the samples are files of an ImageFolder without transforms."""
        from torchvision.datasets import ImageFolder
        from torchvision.datasets.folder import default_loader, pil_loader

        leaf = self._leaf
        if type(leaf) is not ImageFolder or leaf.loader not in (default_loader, pil_loader):
            return False
        return leaf.transform is None and leaf.target_transform is None

    def _in_leaf(self, index: int) -> int:
        return index if self._numbers is None else int(self._numbers[index])

    def keys(self) -> list[str]:
        """Return the key of every item: its file as listed by ImageFolder, else its index."""
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
        """The labels that the dataset lists; None if it lists no labels, or its transforms may change them."""
        leaf = self._leaf
        # torchvision's joint transforms may change targets, too.
        joint = getattr(leaf, "transforms", None)
        if getattr(leaf, "target_transform", None) is not None:
            return None
        if joint is not None and not isinstance(joint, StandardTransform):
            return None
        for name in ("targets", "labels", "_labels"):
            listed = getattr(leaf, name, None)
            if not isinstance(listed, list | tuple | np.ndarray | torch.Tensor):
                continue
            with suppress(ValueError, TypeError):  # targets of different lengths form no array
                array = np.asarray(listed)
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
            f"{kind} already makes batches: give from_torch its dataset, as in from_torch(loader.dataset)"
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


def _without_subsets(dataset: Any) -> tuple[Any, NDArray[np.int64] | None]:
    """Return the dataset inside `torch.utils.data.Subset`, and the indices of the selected samples in it."""
    numbers: NDArray[np.int64] | None = None
    while isinstance(dataset, torch.utils.data.Subset):
        own = np.asarray(dataset.indices, np.int64)
        numbers = own if numbers is None else own[numbers]
        dataset = dataset.dataset
    return dataset, numbers


def _transform_of(dataset: Any) -> Any:
    """Return the image transform of a torchvision dataset; None if it has none."""
    transform = getattr(dataset, "transform", None)
    return getattr(dataset, "transforms", None) if transform is None else transform
