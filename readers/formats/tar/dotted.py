"""Warnings about file names with several dots, which can hide labels or join samples."""

import re
from collections.abc import Collection

from readers.describe import few_of
from readers.formats.tar.webdataset import unread_fields
from readers.sample import is_image_field
from readers.storage.shards import ShardDataset

ADVICE = "say keys='last-dot', by which a.v1.png is the field png of the sample a.v1, or write names without other dots"


def about_dots(dataset: ShardDataset, advice: str = ADVICE) -> list[str]:
    """Return warnings about samples whose labels, targets or images are hidden because keys end at the first dot.

    Args:
        dataset: The dataset to check.
        advice: Advice at the end of each warning.
    """
    found = []
    source = dataset.shards[0] if len(dataset.shards) == 1 else f"{len(dataset.shards):,} shards"
    reason = "as the key of a sample ends at the first dot of a name"
    for is_meant, what in (
        (unread_fields, f"labels, targets or masks that are not read, {reason}"),
        (_joined_images, f"several images, {reason}, which may be those of several samples"),
    ):
        count, key, names = dataset.samples_with(is_meant)
        if count:
            found.append(
                f"{source}: {count:,} of {len(dataset):,} samples have {what} ({key} has {few_of(is_meant(names), 3)}): {advice}"
            )
    return found


def _joined_images(names: Collection[str]) -> list[str]:
    """Return the image fields of a sample if they may belong to several samples with dots in their names, else an empty list."""
    images = [name for name in names if is_image_field(name)]
    kinds = {re.sub("[0-9]+", "", name) for name in images}  # left.png and right.png are two
    return images if len(kinds) < len(images) and all("." in name for name in names) else []
