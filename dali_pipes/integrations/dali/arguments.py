"""Convert the arguments of DALI's iterators: loaders in place of pipelines, and policies for the last batch."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, unique
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.loader import Loader
from dali_pipes.steps.schedule import LastBatch, Steps
from dali_pipes.steps.streams.steps import StreamSteps


@unique
class LastBatchPolicy(Enum):
    """Handling of an incomplete last batch of an epoch; names and values are DALI's.

    Attributes:
        FILL: The last batch is filled with samples from the start of the epoch's order.
        DROP: The last batch is left out.
        PARTIAL: The last batch is returned incomplete; a rank may have one sample less than another, or none.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> len(DALIClassificationIterator(loader, last_batch_policy=LastBatchPolicy.DROP))
        4
    """

    FILL = 0
    DROP = 1
    PARTIAL = 2


_LAST_BATCH: dict[str, LastBatch] = {"FILL": "pad", "DROP": "drop", "PARTIAL": "partial"}


def last_batch_of(policy: Any, fill_last_batch: bool | None) -> LastBatch:
    """Return the loader's `last_batch` for a policy of DALI.

    Args:
        policy: A LastBatchPolicy of this module or of `nvidia.dali.plugin.base_iterator`.
        fill_last_batch: DALI's older argument, which overrides `policy`; None if it is not given.

    Raises:
        LoaderError: The value is not a policy.
    """
    if fill_last_batch is not None:
        warnings.warn(
            "fill_last_batch is deprecated in DALI; use last_batch_policy instead",
            DeprecationWarning,
            stacklevel=4,
        )
        return "pad" if fill_last_batch else "partial"
    # Compared by class name, so that DALI's enumeration is recognised without importing DALI.
    known = isinstance(policy, Enum) and type(policy).__name__ == LastBatchPolicy.__name__
    if not known or policy.name not in _LAST_BATCH:
        raise LoaderError(
            f"last_batch_policy={policy!r} is not known; allowed are LastBatchPolicy.FILL, DROP and PARTIAL"
        )
    return _LAST_BATCH[policy.name]


def resets_itself(auto_reset: str | bool | None) -> bool:
    """Return DALI's `auto_reset` as a boolean.

    Raises:
        LoaderError: The value is not one of True, "yes", False, None and "no".
    """
    if auto_reset is True or auto_reset == "yes":
        return True
    if auto_reset is False or auto_reset is None or auto_reset == "no":
        return False
    raise LoaderError(
        f'{auto_reset=} is not known; allowed are True or "yes", and False, None or "no"'
    )


def as_loaders(pipelines: Any) -> list[Loader]:
    """Return one loader, or several that are different ranks of one run, as a list.

    Raises:
        LoaderError: An item is not a loader, or the loaders do not belong to one run.
    """
    loaders = list(pipelines) if isinstance(pipelines, Sequence) else [pipelines]
    others = [loader for loader in loaders if not isinstance(loader, Loader)]
    if others or not loaders:
        got = repr(others[0]) if others else "none"
        raise LoaderError(
            f"pipelines must be a Loader, or a list of them, got {got}; a pipeline of DALI's goes into a "
            f"loader: Loader(dataset, recipe, decoder=from_dali(pipeline), ...)"
        )
    for loader in loaders[1:]:
        _require_same_run(loaders[0], loader)
    ranks = [loader.steps.rank for loader in loaders]
    if len(set(ranks)) < len(ranks):
        raise LoaderError(
            f"the loaders must be different ranks of one run, got {ranks=}; make them with rank=0, 1, ... "
            f"and world_size={len(ranks)}"
        )
    return loaders


def plain_steps(loader: Loader) -> Steps:
    """Return the steps of a loader without buckets.

    Raises:
        LoaderError: The loader has buckets, or reads a stream.
    """
    if isinstance(loader.steps, StreamSteps):
        raise LoaderError(
            "an iterator of DALI's needs a dataset with random access, and this loader reads a stream; loop over the "
            "Loader itself, or make shards with gpu-aug pack"
        )
    if not isinstance(loader.steps, Steps):
        raise LoaderError(
            "an iterator of DALI's has batches of one size, and this loader has buckets; loop over the loader itself"
        )
    return loader.steps


def reschedule(loaders: Sequence[Loader], last_batch: LastBatch, size: int) -> None:
    """Give all loaders the steps that the iterator's arguments request.

    Args:
        loaders: Loaders of one run.
        last_batch: The handling of an incomplete last batch.
        size: Samples of an epoch over these loaders together, or -1 for all; see DALIGenericIterator.

    Raises:
        LoaderError: The epoch has no steps, or `size` is out of range.
    """
    # The full length is taken from the state: an earlier iterator may have shortened the steps.
    steps = replace(plain_steps(loaders[0]), length=loaders[0].state_dict()["length"])
    length = steps.length if size == -1 else _length_of(size, steps, len(loaders))
    steps = replace(steps, last_batch=last_batch, length=length)
    if steps.num_steps() == 0:
        raise LoaderError(
            f"an epoch has no full batch: {length} samples, batch_size={steps.batch_size}, "
            f"world_size={steps.world_size}; use a smaller batch, or LastBatchPolicy.PARTIAL or FILL"
        )
    for loader in loaders:
        loader.steps = replace(steps, rank=loader.steps.rank)


def _length_of(size: int, full: Steps, num_loaders: int) -> int:
    """Return the count of positions of an epoch in which `num_loaders` ranks get `size` samples together."""
    least, rest = divmod(full.length * num_loaders, full.world_size)
    most = least + (rest > 0)
    if not 0 < size <= most:
        raise LoaderError(
            f"{size=} is not allowed: an epoch has {most} samples on {num_loaders} of "
            f"{full.world_size} ranks; give fewer, or leave size out"
        )
    # Scripts divide by the number of ranks and round down; this still means the full epoch.
    length = full.length if size >= least else size * full.world_size // num_loaders
    if length < full.length and length % full.variants.group:
        raise LoaderError(
            f"{size=} ends an epoch within a group of {full.variants.group} samples that the recipe mixes; give a "
            f"multiple of {full.variants.group}, or leave size out"
        )
    return length


def _require_same_run(first: Loader, other: Loader) -> None:
    for name in ("batch_size", "world_size"):
        theirs, ours = getattr(other.steps, name), getattr(first.steps, name)
        if theirs != ours:
            raise LoaderError(
                f"all loaders must have the same {name}, got {ours} and {theirs}; give all the same"
            )
    states = [{**loader.state_dict(), "about": None, "attempt": None} for loader in (first, other)]
    different = [name for name in states[0] if states[0][name] != states[1].get(name)]
    if different:
        raise LoaderError(
            f"the loaders must belong to one run and have the same position, but differ in "
            f"{', '.join(different)}; give them the same arguments except rank and device"
        )
