"""Warnings about the names of files in an archive that hold further dots, by which labels and samples get lost."""

import re
from collections.abc import Sequence

from readers.formats.tar.webdataset import unread_fields
from readers.sample import is_image_field
from readers.storage.shards import ShardDataset

ADVICE = "say keys='last-dot', by which a.v1.png is the field png of the sample a.v1, or write names without other dots"


def about_dots(dataset: ShardDataset, advice: str = ADVICE) -> list[str]:
    """Return sentences about samples whose labels, targets or images are not where a name's first dot puts them.

    Args:
        dataset: The samples.
        advice: What to do.
    """
    found = []
    source = dataset.shards[0] if len(dataset.shards) == 1 else f"{len(dataset.shards):,} shards"
    num_samples, key, names = dataset.samples_with(lambda names: bool(unread_fields(names)))
    if num_samples:
        found.append(
            f"{source}: {num_samples:,} of {len(dataset):,} samples have labels, targets or masks that are not read, as the key "
            f"of a sample ends at the first dot of a name ({key} has {', '.join(unread_fields(names)[:3])}): {advice}"
        )
    num_samples, key, names = dataset.samples_with(_has_joined_images)
    if num_samples:
        found.append(
            f"{source}: {num_samples:,} of {len(dataset):,} samples have several images, such as {key} ({', '.join(names[:3])}), "
            f"as the key of a sample ends at the first dot of a name: where they are images of several samples, {advice}"
        )
    return found


def _has_joined_images(names: Sequence[str]) -> bool:
    """Whether samples whose names hold dots may have become one."""
    images = [name for name in names if is_image_field(name)]
    kinds = {re.sub("[0-9]+", "", name) for name in images}  # left.png and right.png are two
    return len(kinds) < len(images) and all("." in name for name in names)
