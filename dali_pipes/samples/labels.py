"""The labels of a step: class numbers, vectors of one length, vectors of several lengths."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.samples.missing_labels import LabelsWithMissing
from gpu_aug.upload import upload
from readers import Sample
from readers.formats.columns import LABEL_LIMIT, shorten, to_label
from readers.label_vector import LabelShape, described, to_vector

Vectors = list[NDArray[np.float32]]
"""Labels of several lengths."""

Labels = NDArray[np.int64] | NDArray[np.float32] | Vectors


def checked_label(sample: Sample, shape: LabelShape) -> Sample:
    """Return a sample whose label is what its dataset says, also of a dataset that does not look at labels itself.

    Args:
        sample: Any.
        shape: See `readers.IndexedDataset.label_shape`.

    Raises:
        ValueError: It has no such label; the text is a short reason.
    """
    label: Any = sample.label  # a dataset of the user may give anything
    if shape == () and label.__class__ is int and -1 <= label < LABEL_LIMIT:  # nearly always
        return sample
    if isinstance(label, np.ndarray) and label.ndim:
        if shape == ():
            raise ValueError(
                f"the label is an array of shape {list(label.shape)}, but the dataset's label_shape is (), class numbers"
            )
        is_good = label.dtype == np.float32 and label.ndim == 1 and shape in (None, label.shape)
        return sample if is_good else replace(sample, label=to_vector(label, shape))
    if shape != ():
        if isinstance(label, Sequence):
            return replace(sample, label=to_vector(label, shape))
        raise ValueError(
            f"the label is {label!r}, but those of this dataset are {described(shape)}"
        )
    if isinstance(label, str | list | tuple):
        raise ValueError(
            f"the label {shorten(label)} is not a whole number: return a class number, set label_shape = (K,) in the "
            "dataset's class for vectors, or give labels with dataset.with_labels(labels, classes=...)"
        )
    return replace(sample, label=to_label(label))


def collect_labels(samples: Sequence[Sample | None], shape: LabelShape) -> Labels:
    """Return the labels of samples, None standing for a lost one.

    Args:
        samples: E samples that `checked_label` returned.
        shape: Shape of every label.

    Returns:
        int64 [E] of class numbers, -1 where a sample has none or is lost; float32 [E, K] of vectors of one length,
        0 where one is lost; else E float32 [Ki], empty where one is lost.
    """
    labels = [None if sample is None else sample.label for sample in samples]
    if shape == ():
        return np.array([-1 if label is None else label for label in labels], np.int64)
    vectors = [np.zeros(shape or 0, np.float32) if one is None else one for one in labels]
    found: Vectors = [one for one in vectors if isinstance(one, np.ndarray)]
    if shape is None:
        return found
    return np.stack(found) if found else np.zeros((0, *shape), np.float32)


def take_labels(
    labels: Labels, rows: NDArray[np.int64], device: torch.device
) -> torch.Tensor | list[torch.Tensor]:
    """Return the labels of some rows on a device: a tensor, or a list of them where their lengths differ.

    Where some are missing, losses of classes refuse the tensor; see `dali_pipes.samples.missing_labels`.
    """
    if isinstance(labels, list):
        # Copies: who changes a batch must not change the dataset.
        return [upload(torch.from_numpy(labels[row].copy()), device) for row in rows.tolist()]
    taken = labels[rows]
    found = upload(torch.from_numpy(taken), device)
    # A tensor that torch.compile or a test made of another class stays what it is.
    is_missing = taken.ndim == 1 and taken.min(initial=0) < 0 and type(found) is torch.Tensor
    return found.as_subclass(LabelsWithMissing) if is_missing else found
