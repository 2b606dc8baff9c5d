"""The labels of a batch: class numbers, or where samples are mixed the shares of the classes."""

import numpy as np
from numpy.typing import NDArray

from dali_pipes.arguments import no_class_count
from dali_pipes.errors import LoaderError
from dali_pipes.pipeline.fetch import Work
from gpu_aug import Recipe
from gpu_aug.targets.soft_labels import soft_labels


def labels_of(
    work: Work, recipe: Recipe, num_classes: int | None
) -> NDArray[np.int64] | NDArray[np.float32]:
    """Return the labels of a step's images.

    Args:
        work: The step, with its bad samples dealt with.
        recipe: Recipe of the images.
        num_classes: How many classes there are; None where it need not be known.

    Returns:
        int64 [E], -1 where the data has no label; float32 [E, num_classes] where the recipe mixes
        samples, with a row of zeros for a sample without label.

    Raises:
        LoaderError: A label is not a class, or its classes were never counted.
    """
    if recipe.group == 1:
        return work.labels
    known = work.labels[work.labels >= 0]
    if num_classes is None:
        if len(known):
            raise no_class_count(recipe)
        return work.labels
    if known.max(initial=0) >= num_classes:
        row = int(np.argmax(work.labels))
        raise LoaderError(
            f"the label of {work.keys[row]} is {work.labels[row]}, but there are {num_classes} "
            f"classes, numbered from 0; correct num_classes in the recipe"
        )
    shares = np.zeros((len(work), num_classes), np.float32)
    labelled = np.flatnonzero(work.labels >= 0)
    shares[labelled, work.labels[labelled]] = 1
    return soft_labels(recipe, work.drawn(0, 0, len(work)), shares, num_classes)
