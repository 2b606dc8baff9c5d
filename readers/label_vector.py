"""Labels that are vectors: several classes at once (multi-hot), shares of classes (soft), numbers to regress."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Label = int | NDArray[np.float32]
"""What a sample is labelled with: a class number, -1 for none, or a vector, float32 [K]."""

LabelShape = tuple[int, ...] | None
"""The shape of all labels of a dataset: () class numbers, (K,) vectors of one length, None of several lengths."""


def to_vector(value: Any, shape: LabelShape = None) -> NDArray[np.float32]:
    """Return a label as vector, float32 [K].

    Args:
        value: One-dimensional, of numbers.
        shape: What it shall have; None takes any length.

    Raises:
        ValueError: It is none, or of another length; the text is a short reason.
    """
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unequal length
        raise ValueError("the label is a list of lists of unequal length, not a vector") from None
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"the label is {array.dtype} of shape {list(array.shape)}, not a vector of numbers"
        )
    if shape is not None and array.shape != shape:
        raise ValueError(
            f"the label has {len(array)} numbers, those of this dataset have {shape[0]}"
        )
    return to_float32(array)


def to_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return numbers as float32; NaN stays NaN.

    Raises:
        ValueError: A number exceeds float32, or is infinite; the text is a short reason.
    """
    with np.errstate(over="ignore"):  # such numbers are refused below
        found = np.ascontiguousarray(values, np.float32)
    lost = np.isinf(found)
    if lost.any():
        raise ValueError(
            f"the label holds {values[lost][0]!s}, which does not fit float32 (at most 3.4e38): scale it"
        )
    return found


def class_number(label: Label) -> int:
    """The class number that a label is, -1 where it is none or a vector."""
    return -1 if isinstance(label, np.ndarray) and label.ndim else int(label)


def same_label(one: Label, other: Label) -> bool:
    """Whether two labels are equal, NaN being equal to NaN."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    return not isinstance(one, np.ndarray) and not isinstance(other, np.ndarray) and one == other


def label_shape_of(dataset: object) -> LabelShape:
    """The shape of the labels of any dataset; one that does not say it has class numbers."""
    shape: LabelShape = getattr(dataset, "label_shape", ())
    return shape


def described(shape: LabelShape) -> str:
    """Labels of a shape, for people."""
    if shape is None:
        return "vectors of several lengths"
    return f"vectors of {shape[0]} numbers" if shape else "class numbers"
