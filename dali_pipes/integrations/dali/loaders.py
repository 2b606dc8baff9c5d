"""The loaders behind an iterator: one run on several devices of this process."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.loader import Loader
from dali_pipes.steps.schedule import LastBatch, Steps
from dali_pipes.steps.streams.steps import StreamSteps


def as_loaders(pipelines: Any) -> list[Loader]:
    """Return a loader, or loaders that are different ranks of one run, as a list.

    Raises:
        LoaderError: They are something else, or do not belong together.
    """
    loaders = list(pipelines) if isinstance(pipelines, Sequence) else [pipelines]
    strangers = [loader for loader in loaders if not isinstance(loader, Loader)]
    if strangers or not loaders:
        got = repr(strangers[0]) if strangers else "none"
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
        LoaderError: It has buckets, or reads a stream.
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
    """Give all loaders the steps that an iterator's arguments ask for.

    Args:
        loaders: Loaders of one run.
        last_batch: The handling of an incomplete last batch.
        size: Samples of an epoch on these loaders together, or -1 for all; see DALIGenericIterator.

    Raises:
        LoaderError: The epoch has no steps, or `size` cannot be had.
    """
    # Not the length of these steps, which an earlier iterator may have cut short.
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


def _length_of(size: int, whole: Steps, num_loaders: int) -> int:
    """Return how many positions of the order are an epoch, if `size` of them are on `num_loaders` ranks."""
    least, rest = divmod(whole.length * num_loaders, whole.world_size)
    most = least + (rest > 0)
    if not 0 < size <= most:
        raise LoaderError(
            f"{size=} is not allowed: an epoch has {most} samples on {num_loaders} of "
            f"{whole.world_size} ranks; give fewer, or leave size out"
        )
    # Shards that were rounded down by the caller are still meant to be everything.
    length = whole.length if size >= least else size * whole.world_size // num_loaders
    if length < whole.length and length % whole.group:
        raise LoaderError(
            f"{size=} ends an epoch within a group of {whole.group} samples that the recipe mixes; give a "
            f"multiple of {whole.group}, or leave size out"
        )
    return length


def _require_same_run(first: Loader, other: Loader) -> None:
    for name in ("batch_size", "world_size"):
        theirs, ours = getattr(other.steps, name), getattr(first.steps, name)
        if theirs != ours:
            raise LoaderError(
                f"all loaders must have the same {name}, got {ours} and {theirs}; make them alike"
            )
    states = [{**loader.state_dict(), "about": None, "attempt": None} for loader in (first, other)]
    different = [name for name in states[0] if states[0][name] != states[1].get(name)]
    if different:
        raise LoaderError(
            f"the loaders must belong to one run and stand at one place, but differ in "
            f"{', '.join(different)}; make them alike but for rank and device"
        )
