"""Collect the labels of a step: class numbers, vectors of one length, or vectors of several lengths."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from dali_pipes.errors import LoaderError
from gpu_aug.targets.soft_labels import missing_labels
from gpu_aug.upload import upload
from readers import Sample
from readers.formats.columns import LABEL_LIMIT, shorten, to_label
from readers.labels.label_vector import LabelShape, described, to_vector

Vectors = list[NDArray[np.float32]]
"""Label vectors of different lengths."""

Labels = NDArray[np.int64] | NDArray[np.float32] | Vectors

# Functions that take class numbers, and the position of that argument. torch raises "Target -1 is out of bounds"; on a GPU,
# an assertion ends the process.
_TARGETS = {
    functional.cross_entropy: 1,
    functional.nll_loss: 1,
    functional.multi_margin_loss: 1,
    functional.one_hot: 0,
}
# Methods that return the same labels on another device or in another shape; their results are checked, too. All others return plain
# tensors, such as ``labels[labels >= 0]``, which has no missing label.
_MOVES = frozenset(
    getattr(torch.Tensor, name)
    for name in (
        *("to", "cuda", "cpu", "pin_memory", "clone", "detach", "contiguous"),
        *("long", "view", "reshape", "flatten", "squeeze"),
    )
)


def checked_label(sample: Sample, shape: LabelShape) -> Sample:
    """Return a sample whose label has the dataset's kind, even if the dataset itself does not check labels.

    Args:
        sample: Any sample.
        shape: See `readers.IndexedDataset.label_shape`.

    Raises:
        ValueError: The label has another kind than the dataset states; the message is a short reason.
    """
    label: Any = sample.label  # a user's dataset may return anything
    if shape == () and label.__class__ is int and -1 <= label < LABEL_LIMIT:  # the usual case
        return sample
    is_vector = isinstance(label, np.ndarray) and label.ndim > 0
    if shape == ():
        if is_vector or isinstance(label, str | list | tuple):
            raise ValueError(
                f"the label {shorten(label)} is not a whole number: return a class number, set label_shape = (K,) in the "
                "dataset's class for vectors, or give labels with dataset.with_labels(labels, classes=...)"
            )
        return replace(sample, label=to_label(label))
    if not is_vector and not isinstance(label, Sequence):
        raise ValueError(
            f"the label is {label!r}, but those of this dataset are {described(shape)}"
        )
    is_final = is_vector and label.dtype == np.float32 and shape in (None, label.shape)
    return (
        sample if is_final and label.ndim == 1 else replace(sample, label=to_vector(label, shape))
    )


def collect_labels(samples: Sequence[Sample | None], shape: LabelShape) -> Labels:
    """Return the labels of samples.

    Args:
        samples: E samples returned by `checked_label`; None for a bad sample.
        shape: Shape of every label.

    Returns:
        int64 [E], class numbers, -1 for a sample without a label and for a bad sample; or float32 [E, K], vectors of one
        length, zeros for a bad sample; or a list of E arrays float32 [Ki], empty for a bad sample.
    """
    labels = [None if sample is None else sample.label for sample in samples]
    if shape == ():
        return np.array([-1 if label is None else label for label in labels], np.int64)
    empty = np.zeros(shape or 0, np.float32)
    vectors = [label if isinstance(label, np.ndarray) else empty for label in labels]
    if shape is None:
        return vectors
    return np.stack(vectors) if vectors else np.zeros((0, *shape), np.float32)


def take_labels(
    labels: Labels, rows: NDArray[np.int64], device: torch.device
) -> torch.Tensor | list[torch.Tensor]:
    """Return the labels of some rows on a device: a tensor, or a list of tensors if their lengths differ.

    If some labels are missing, the tensor makes classification losses raise an error; see `LabelsWithMissing`.
    """
    if isinstance(labels, list):
        # A copy, so that changing a batch does not change the dataset.
        return [upload(torch.from_numpy(labels[row].copy()), device) for row in rows.tolist()]
    taken = labels[rows]
    tensor = upload(torch.from_numpy(taken), device)
    # A tensor of another class, made by torch.compile or a test, keeps its class.
    lacks_some = taken.ndim == 1 and taken.min(initial=0) < 0 and type(tensor) is torch.Tensor
    return tensor.as_subclass(LabelsWithMissing) if lacks_some else tensor


class LabelsWithMissing(torch.Tensor):
    """Class numbers of which some are -1: like other tensors, except that classification losses raise an error for them.

    The error states the reason. A loss with ``ignore_index=-1`` accepts the tensor. Pickling and saving store a plain
    tensor.
    """

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if func in _TARGETS:
            _refuse_missing(func, args, options)
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **options)
            is_moved = func in _MOVES and result.dtype == torch.int64
            return result.as_subclass(cls) if is_moved else result

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle a plain tensor, so that it can be loaded without this package."""
        plain: Any = self.as_subclass(torch.Tensor)
        return plain.__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return self.clone()


def _refuse_missing(
    func: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> None:
    """Raise if a loss is called with labels of which some are missing, unless the call ignores the class -1.

    Raises:
        LoaderError: Some labels are missing, and the loss does not ignore them.
    """
    given = options["target"] if "target" in options else args[_TARGETS[func]]
    if not isinstance(given, torch.Tensor) or given.is_floating_point():
        return
    with torch._C.DisableTorchFunctionSubclass():
        missing = int(((given < 0) & (given != options.get("ignore_index", -100))).sum())
    if missing:
        raise LoaderError(
            f"{missing_labels(missing, given.numel())}, or give the loss ignore_index=-1"
        )
