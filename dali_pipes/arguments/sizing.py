"""What several sizes and recipes by epoch ask of a loader's other arguments, and the order and steps they lead to."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from dali_pipes.arguments.process_rank import Process
from dali_pipes.errors import LoaderError
from dali_pipes.steps.schedule import BucketSteps, LastBatch, Steps
from dali_pipes.steps.variants import MultiScale, Variants
from readers import Dataset, ReadersError
from readers.bucket_order import BucketOrder
from readers.buckets import Buckets, Size, batches_of
from readers.image.sizes import image_sizes
from readers.order import AnyOrder, Order, Shuffle
from readers.plural import counted

_PIECE = 1 << 18  # samples that are sorted at a time


def sizes_of(buckets: Any, sizes: Any) -> Buckets | MultiScale | None:
    """Return what says which size a step has, if anything.

    Raises:
        LoaderError: Both are given, or something else.
    """
    for name, given, kind in (("buckets", buckets, Buckets), ("sizes", sizes, MultiScale)):
        if given is not None and not isinstance(given, kind):
            raise LoaderError(
                f"{name}={given!r} is not allowed; give {kind.__name__}([(height, width), ...])"
                + (" or Buckets.aspect(area=...)" if kind is Buckets else "")
            )
    if buckets is not None and sizes is not None:
        raise LoaderError(
            "buckets= says by a sample's shape which size it has, and sizes= by its position; leave one of them out"
        )
    chosen: Buckets | MultiScale | None = sizes if buckets is None else buckets
    return chosen


def check_variants(variants: Variants) -> None:
    """Refuse recipes that read boxes and keypoints in different ways.

    Raises:
        LoaderError: They do.
    """
    first = variants.first
    for views in variants.views:
        recipe = views.recipes[0]
        if (recipe.boxes, recipe.keypoints) != (first.boxes, first.keypoints):
            raise LoaderError(
                "the recipes of a run say different things of boxes or keypoints, which a batch has in one form; give "
                "all recipes the same boxes= and keypoints="
            )


def order_in_buckets(
    dataset: Dataset,
    order: AnyOrder,
    buckets: Buckets,
    *,
    seed: int,
    shuffle: Shuffle,
    field: str | None = None,
) -> BucketOrder:
    """Return the order of samples in buckets; sizes that no column tells are read from the headers, once.

    Args:
        dataset: Any dataset of images.
        order: Its order without buckets.
        buckets: The sizes.
        seed: Seed of the order.
        shuffle: The loader's.
        field: The field that holds the first image, where the loader was told.

    Raises:
        LoaderError: The dataset or the shuffle says itself in what order samples come.
    """
    if not isinstance(order, Order):
        raise LoaderError(
            f"buckets= is not possible with {type(dataset).__name__}, which says itself how often each sample comes; "
            f"take the datasets that it is made of, or mix() without weights"
        )
    if shuffle == "block":
        raise LoaderError(
            'buckets= is not possible with shuffle="block": samples of one size lie anywhere in the data; use '
            '"global" or "none"'
        )
    sizes = image_sizes(dataset, field=field)
    codes = np.empty(len(sizes), np.uint8)
    for start in range(0, len(sizes), _PIECE):
        piece = sizes[start : start + _PIECE].astype(np.int64)
        piece[(piece == 0).any(axis=1)] = 1  # bad wherever it stands
        codes[start : start + _PIECE] = buckets.of(piece)
    return BucketOrder(buckets, codes, seed, shuffle)


def require_images(variants: Variants, *, clips: bool) -> None:
    """Refuse clips where samples are sorted by the size of their images.

    Raises:
        LoaderError: Samples are clips.
    """
    if clips and isinstance(variants.sizes, Buckets):
        raise LoaderError(
            "buckets= is for images, and samples are clips here; choose one size for all clips"
        )


def check_batch_size(batch_size: Any, buckets: Buckets | None) -> None:
    """Refuse batches by size where there are no buckets, or that do not fit them.

    Raises:
        LoaderError: The text says what would fit.
    """
    if buckets is None and isinstance(batch_size, Mapping):
        raise LoaderError(
            "batch_size is a dictionary, and there are no buckets; give an integer, or buckets=Buckets(...)"
        )
    if buckets is not None:
        try:
            batches_of(buckets, batch_size)
        except ReadersError as error:
            raise LoaderError(str(error)) from error


def make_steps(
    order: AnyOrder,
    variants: Variants,
    batch_size: int | Mapping[Size, int],
    last_batch: LastBatch,
    seed: int,
    process: Process,
) -> Steps | BucketSteps:
    """Return the steps of an epoch.

    Raises:
        LoaderError: It has no steps, or sizes would change within one.
    """
    steps: Steps | BucketSteps
    if isinstance(order, BucketOrder):
        batches = batches_of(order.buckets, batch_size)
        steps = BucketSteps(
            len(order),
            max(batches),
            process.rank,
            process.world_size,
            last_batch,
            variants,
            order,
            batches,
        )
    else:
        assert not isinstance(batch_size, Mapping)
        steps = Steps(
            len(order),
            batch_size,
            process.rank,
            process.world_size,
            last_batch,
            variants,
            seed,
        )
        _require_whole_steps(steps, variants.sizes)
    if steps.num_steps() == 0:
        raise LoaderError(
            f"an epoch has no full batch: {counted(len(order), 'sample')}{_in(order)}, {batch_size=}, "
            f'world_size={process.world_size}; use a smaller batch, or last_batch="partial" or "pad", and for an '
            f"evaluation Loader.eval"
        )
    return steps


def warn_of_small_buckets(steps: object, *, stacklevel: int) -> None:
    """Warn of buckets none of whose samples ever come, for they do not fill a step."""
    if not isinstance(steps, BucketSteps) or steps.last_batch != "drop":
        return
    order, world_size = steps.order, steps.world_size
    lost = [
        f"{height}x{width} ({counted(length, 'sample')})"
        for (height, width), length, batch in zip(
            order.buckets.sizes, order.lengths, steps.batch_sizes, strict=True
        )
        if 0 < length < batch * world_size
    ]
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        warnings.warn(
            f'buckets with fewer samples than a step never come under last_batch="drop": {", ".join(lost[:3])}{more}; '
            f'use fewer sizes, a smaller batch_size for them, or last_batch="partial" or "pad"',
            stacklevel=stacklevel,
        )


def require_no_change(variants: Variants) -> None:
    """Refuse recipes that change by epoch or position in an evaluation.

    Raises:
        LoaderError: They do.
    """
    if isinstance(variants.sizes, MultiScale):
        raise LoaderError(
            "sizes= is not for Loader.eval, in which all images have one size: leave it out"
        )
    if any(len(schedule) > 1 for schedule in variants.schedules):
        raise LoaderError(
            "a Schedule is not for Loader.eval, in which every loop is the same; give the recipe of an evaluation"
        )


def _require_whole_steps(steps: Steps, sizes: Any) -> None:
    if isinstance(sizes, MultiScale) and sizes.every % steps.global_batch:
        raise LoaderError(
            f"sizes change every {sizes.every} samples, which is no multiple of the global batch of "
            f"{steps.global_batch} (batch_size={steps.batch_size}, world_size={steps.world_size}), so that a step would "
            f"have two sizes; give MultiScale(every=...) a multiple"
        )


def _in(order: AnyOrder) -> str:
    return f" in {len(order.buckets)} buckets" if isinstance(order, BucketOrder) else ""
