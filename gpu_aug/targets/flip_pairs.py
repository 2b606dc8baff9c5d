"""Pairs of labels that a mirror exchanges, such as those of the left and the right eye: their check, and the exchange."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.errors import TargetsError
from gpu_aug.ops import validation

FlipPairs = tuple[tuple[int, int] | tuple[str, str], ...]
"""Pairs of labels; each label is in one pair only."""

COCO_PERSON = (0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15)
"""The permutation of COCO's 17 keypoints of a person: the nose, and eyes, ears, shoulders, elbows, wrists, hips, knees and ankles, left before right."""


def checked_flip_pairs(owner: str, value: Any, words: Mapping[Any, Any]) -> Any:
    """Check the field ``flip_pairs`` of a class, and return its canonical form.

    Args:
        owner: Name of the class; KeypointParams also takes permutations.
        value: None, one of ``words``, pairs, or a permutation.
        words: Text that is allowed -> its canonical form.

    Raises:
        RecipeError: The value is not allowed.
    """
    if value is None or (isinstance(value, str) and value in words):
        return words.get(value)
    takes_permutation = owner == "KeypointParams"
    kinds = (int,) if owner == "MaskParams" else (int, str)
    listed = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(listed, list | tuple):
        if takes_permutation and listed and all(map(validation.is_whole, listed)):
            numbers = tuple(map(int, listed))
            has_each_once = sorted(numbers) == list(range(len(numbers)))
            if has_each_once and all(numbers[k] == number for number, k in enumerate(numbers)):
                return numbers
        elif all(validation.is_sequence(pair, 2) for pair in listed):
            labels = [int(x) if validation.is_whole(x) else x for pair in listed for x in pair]
            is_one_kind = any(all(type(x) is kind for x in labels) for kind in kinds)
            if is_one_kind and len({*labels}) == len(labels):
                pairs = zip(labels[::2], labels[1::2], strict=True)
                return tuple(sorted((min(pair), max(pair)) for pair in pairs))
    of_words = "".join(f", or {word!r}" for word in words)
    by_default = (
        "; without it, a Loader takes the pairs from the names of the data"
        if takes_permutation and isinstance(value, str)
        else ""
    )
    permutation = ", or a permutation that exchanges keypoints in pairs, such as [0, 2, 1]"
    raise validation.fault(
        owner,
        "flip_pairs",
        value,
        "pairs of labels, each label once, such as [(1, 2), (3, 4)]"
        f"{permutation * takes_permutation}{of_words}, or () for no exchange{by_default}",
    )


def is_permutation(flip_pairs: Any) -> bool:
    """Return whether a checked ``flip_pairs`` is a permutation."""
    return bool(flip_pairs) and isinstance(flip_pairs[0], int)


def exchange(labels: NDArray[Any], flip_pairs: Any) -> NDArray[Any]:
    """Return an array in which both labels of each pair are exchanged; other labels stay."""
    pairs = enumerate(flip_pairs) if is_permutation(flip_pairs) else flip_pairs
    exchanged = labels
    for one, other in pairs or ():
        # np.where makes text as long as the longer label, into which an assignment would not fit.
        exchanged = np.where(labels == other, one, np.where(labels == one, other, exchanged))
    return exchanged if labels.dtype.kind == "U" else exchanged.astype(labels.dtype, copy=False)


def check_labels(
    labels: NDArray[Any] | None, flip_pairs: Any, name: str, shape: str = "[N]"
) -> None:
    """Raise a TargetsError if an array of ``shape`` cannot hold the labels of ``flip_pairs``."""
    if not flip_pairs:
        return
    pairs = [flip_pairs] if is_permutation(flip_pairs) else flip_pairs
    known = np.array([*chain.from_iterable(pairs)])
    if labels is None or labels.ndim != shape.count(",") + 1:
        fits = False
    elif known.dtype.kind == "U":
        fits = labels.dtype.kind in "UO"
    else:
        fits = labels.dtype.kind in "iub" and bool((known.astype(labels.dtype) == known).all())
    if not fits:
        got = "none" if labels is None else f"{labels.dtype} {list(labels.shape)}"
        raise TargetsError(
            f"{name} must be {shape} and hold labels such as {known[-1].item()!r}, which flip_pairs exchanges, got {got}: "
            "make them match"
        )
