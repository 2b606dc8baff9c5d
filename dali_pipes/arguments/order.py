"""Make the order of the samples and the steps of an epoch from the shuffle, buckets, sizes and batch size."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from dali_pipes.arguments.options import BlockShuffle
from dali_pipes.arguments.process_rank import Process
from dali_pipes.arguments.values import refuse, require_one_of, require_positive
from dali_pipes.errors import LoaderError
from dali_pipes.steps.schedule import BucketSteps, LastBatch, Steps
from dali_pipes.steps.streams.order import stream_order
from dali_pipes.steps.variants import MultiScale, Variants
from readers import Dataset, ReadersError
from readers.datasets.stream import is_stream
from readers.describe import few_of
from readers.image.sizes import image_sizes
from readers.order.bucket_order import BucketOrder
from readers.order.buckets import Buckets, Size, batches_of
from readers.order.shuffle import SHUFFLES, AnyOrder, Order, Shuffle, make_order
from readers.plural import counted

# Samples sorted at a time, to limit the memory for the sizes of a large dataset.
_SORTED_AT_ONCE = 1 << 18


ShuffleChoice = Shuffle | BlockShuffle


def find_order(dataset: Dataset, seed: int, shuffle: ShuffleChoice) -> AnyOrder:
    """Return the order of the samples: the dataset's own order if it has one.

    Raises:
        LoaderError: The dataset does not support this shuffle.
    """
    window = None
    if isinstance(shuffle, BlockShuffle):
        window, shuffle = shuffle.window, "block"
    require_one_of("shuffle", shuffle, SHUFFLES)
    if is_stream(dataset):
        return stream_order(dataset, seed, shuffle, window)
    make = getattr(dataset, "order", None)
    if make is None:
        block_size = getattr(dataset, "block_size", 256)
        return make_order(len(dataset), seed, shuffle, block_size=block_size, shuffle_window=window)
    try:
        order: AnyOrder = make(seed=seed, shuffle=shuffle, shuffle_window=window)
    except ReadersError as error:
        raise LoaderError(str(error)) from error
    return order


def require_sizes(buckets: Any, sizes: Any) -> None:
    """Raise if `buckets` or `sizes` has a wrong type, or if both are given."""
    refuse(
        (
            not isinstance(buckets, Buckets | None),
            f"buckets={buckets!r} is not allowed; give Buckets([(height, width), ...]) or Buckets.aspect(area=...)",
        ),
        (
            not isinstance(sizes, MultiScale | None),
            f"sizes={sizes!r} is not allowed; give MultiScale([(height, width), ...])",
        ),
        (
            buckets is not None and sizes is not None,
            "buckets= chooses the size by a sample's shape, and sizes= by its position; leave one of them out",
        ),
    )


def require_batch_size(batch_size: Any, buckets: Buckets | None) -> None:
    """Raise if a batch size is not positive, or if a dictionary of batch sizes does not match the buckets' sizes."""
    if buckets is None and isinstance(batch_size, Mapping):
        raise LoaderError(
            "batch_size is a dictionary, and there are no buckets; give an integer, or buckets=Buckets(...)"
        )
    if buckets is not None:
        try:
            batches_of(buckets, batch_size)
        except ReadersError as error:
            raise LoaderError(str(error)) from error
    if not isinstance(batch_size, Mapping):
        require_positive(batch_size=batch_size)


def order_in_buckets(
    dataset: Dataset,
    order: AnyOrder,
    buckets: Buckets,
    *,
    seed: int,
    shuffle: ShuffleChoice,
    field: str | None = None,
) -> BucketOrder:
    """Return the order of samples in buckets.

    Image sizes that no column of the dataset holds are read from the images' headers, once.

    Args:
        dataset: Any dataset of images.
        order: The order of the dataset's samples without buckets.
        buckets: The image sizes of the buckets.
        seed: Seed of the order.
        shuffle: The shuffle, as for Loader.
        field: The field of the first image, if the loader was given one; else None.

    Raises:
        LoaderError: The dataset or the shuffle has an order of its own, which buckets would change.
    """
    if not isinstance(order, Order):
        raise LoaderError(
            f"buckets= is not possible with {type(dataset).__name__}, which says itself how often each sample comes; "
            f"take the datasets that it is made of, or mix() without weights"
        )
    if shuffle == "block" or isinstance(shuffle, BlockShuffle):
        raise LoaderError(
            'buckets= is not possible with shuffle="block": samples of one size lie anywhere in the data; use '
            '"global" or "none"'
        )
    sizes = image_sizes(dataset, field=field)
    codes = np.empty(len(sizes), np.uint8)
    for start in range(0, len(sizes), _SORTED_AT_ONCE):
        piece = sizes[start : start + _SORTED_AT_ONCE].astype(np.int64)
        # An image whose size cannot be read is a bad sample in any bucket; the smallest size is a valid stand-in.
        piece[(piece == 0).any(axis=1)] = 1
        codes[start : start + _SORTED_AT_ONCE] = buckets.of(piece)
    return BucketOrder(buckets, codes, seed, shuffle)


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
        LoaderError: The epoch has no steps, or sizes would change within a step.
    """
    rank, world_size = process.rank, process.world_size
    steps: Steps | BucketSteps
    if isinstance(order, BucketOrder):
        batches = batches_of(order.buckets, batch_size)
        largest = max(batches)
        steps = BucketSteps(
            len(order), largest, rank, world_size, last_batch, variants, order, batches
        )
    else:
        assert not isinstance(batch_size, Mapping)
        steps = Steps(len(order), batch_size, rank, world_size, last_batch, variants, seed)
        _require_one_size_per_step(steps, variants.sizes)
    if steps.num_steps() == 0:
        within = f" in {len(order.buckets)} buckets" if isinstance(order, BucketOrder) else ""
        raise LoaderError(
            f"an epoch has no full batch: {counted(len(order), 'sample')}{within}, {batch_size=}, "
            f'{world_size=}; use a smaller batch, or last_batch="partial" or "pad", and for an '
            f"evaluation Loader.eval"
        )
    return steps


def warn_of_small_buckets(steps: object, *, stacklevel: int) -> None:
    """Warn if buckets have too few samples to fill a step, so that these samples are never used."""
    if not isinstance(steps, BucketSteps) or steps.last_batch != "drop":
        return
    order, world_size = steps.order, steps.world_size
    never = [
        f"{height}x{width} ({counted(length, 'sample')})"
        for (height, width), length, batch in zip(
            order.buckets.sizes, order.lengths, steps.batch_sizes, strict=True
        )
        if 0 < length < batch * world_size
    ]
    if never:
        warnings.warn(
            f'buckets with fewer samples than a step never come under last_batch="drop": {few_of(never)}; use fewer '
            'sizes, a smaller batch_size for them, or last_batch="partial" or "pad"',
            stacklevel=stacklevel,
        )


def _require_one_size_per_step(steps: Steps, sizes: Any) -> None:
    if isinstance(sizes, MultiScale) and sizes.every % steps.global_batch:
        raise LoaderError(
            f"sizes change every {sizes.every} samples, which is no multiple of the global batch of "
            f"{steps.global_batch} (batch_size={steps.batch_size}, world_size={steps.world_size}), so that a step would "
            f"have two sizes; give MultiScale(every=...) a multiple"
        )
