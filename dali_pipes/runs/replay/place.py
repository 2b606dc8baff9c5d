"""Where in an epoch a sample stands, and the plan of a step that holds its row alone."""

import numpy as np

from dali_pipes.arguments.setup import Setup
from dali_pipes.errors import LoaderError
from dali_pipes.steps.schedule import Plan, complete_groups, positions_of
from dali_pipes.steps.variants import MultiScale
from readers.bucket_order import BucketOrder
from readers.order import AnyOrder
from readers.plural import counted


def plan_of(setup: Setup, index: int, epoch: int, repeat: int) -> Plan:
    """Return a step of one row: a sample in an epoch, with the neighbours that it may be mixed with.

    Args:
        setup: What the loader is made of; it reads at random.
        index: Place of the sample in the dataset.
        epoch: Number of the epoch.
        repeat: Which of the times that the epoch has the sample, from 0.

    Raises:
        LoaderError: The epoch does not have the sample so often.
    """
    order, variants = setup.fetcher.order, setup.fetcher.variants
    position = _position(order, index, epoch, repeat)
    start, stop, size, bucket = 0, len(order), 0, 0
    if isinstance(order, BucketOrder):
        size = bucket = _bucket(order, position)
        start, stop = order.stretch(bucket)
    elif isinstance(variants.sizes, MultiScale):
        size = variants.sizes.at(setup.fetcher.seed, epoch, position)
    variant = variants.at(epoch, size)
    own = np.array([position - start], np.int64)
    positions, rows = complete_groups(own, variants.views[variant].group, stop - start)
    return Plan(
        epoch, 0, start + positions, rows, np.array([True]), 0, variant=variant, bucket=bucket
    )


def _position(order: AnyOrder, index: int, epoch: int, repeat: int) -> int:
    """The position of a sample in an epoch."""
    [found] = positions_of(order, epoch, [index], repeat + 1)
    if len(found) > repeat:
        return found[repeat]
    if not found:
        raise LoaderError(
            f"sample {index} does not come in epoch {epoch}, of which other samples are drawn by their weights; choose "
            "another epoch"
        )
    raise LoaderError(
        f"repeat={repeat} is not allowed: epoch {epoch} has sample {index} {counted(len(found), 'time')}; give a "
        f"number from 0 to {len(found) - 1}"
    )


def _bucket(order: BucketOrder, position: int) -> int:
    buckets = range(len(order.lengths))
    return next(one for one in buckets if position < order.stretch(one)[1])
