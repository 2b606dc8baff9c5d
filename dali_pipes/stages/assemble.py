"""The last stage: make a Batch of this rank's rows of a finished step, and write its bad samples to the ledger."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.arguments.recipe import no_class_count
from dali_pipes.arguments.setup import Setup
from dali_pipes.batch import Batch
from dali_pipes.errors import BadSampleError, LoaderError
from dali_pipes.monitoring.work import Rows
from dali_pipes.runs.bad_samples import BadRecord, Policy, no_substitute
from dali_pipes.samples.labels import Labels, take_labels
from dali_pipes.samples.targets import collate, collate_nothing
from dali_pipes.stages.data import Finished, Images
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.steps.streams.steps import StreamPlan
from dali_pipes.video.source import camera_groups
from gpu_aug import BoxParams, Recipe
from gpu_aug.targets.soft_labels import missing_labels, soft_labels
from gpu_aug.upload import upload
from readers.datasets.mixture import dataset_numbers


def batch_of(
    finished: Finished,
    images: Images,
    setup: Setup,
    accept: Callable[[Sequence[BadRecord]], None],
) -> Batch | None:
    """Return the batch of a finished step; None after the end of a stream.

    Args:
        finished: The step.
        images: The step's images, one tensor per view.
        setup: The configuration of the loader.
        accept: Called with the records of bad samples before the batch is assembled; it raises to end the run.
            `Ledger.commit` records them, `Ledger.judge` only checks them.

    Raises:
        BadSampleError: `accept` ended the run, or no substitute was found for a bad sample.
        LoaderError: A label is not a class number, or the number of classes is unknown.
    """
    plan = finished.plan
    if isinstance(plan, StreamPlan) and plan.over:
        return None
    records, failure = collect_bad_records(finished, setup.options.on_bad_sample)
    accept(records)
    if failure is not None:
        raise failure
    with setup.fetcher.recorder.measure("hand_over", work=Rows(plan, ())) as call:
        batch = assemble(finished, images, setup)
        call.samples, call.num_bytes = len(batch), sum(view.nbytes for view in batch.views)
    return batch


def no_batch(setup: Setup) -> LoaderError:
    """Return the error for an epoch without any batch."""
    options = setup.options
    return LoaderError(
        f"an epoch has no batch: its samples are too few for batch_size={options.batch_size} on every rank under "
        f'last_batch={options.last_batch!r}; give more data, a smaller batch_size or last_batch="partial"'
    )


def assemble(finished: Finished, images: Images, setup: Setup) -> Batch:
    """Return a batch of this rank's rows that have a sample.

    Raises:
        LoaderError: A label is not a class number, or the number of classes is unknown.
    """
    plan, device = finished.plan, setup.choice.device
    recipe = setup.variants[plan.variant][0].recipe
    has_sample = finished.has_sample[plan.rows]
    rows = plan.rows[has_sample]
    if setup.fetcher.clips is not None:
        images = tuple(
            view.view(len(finished), made.images_per_row, *view.shape[1:])
            for view, made in zip(images, setup.variants[plan.variant], strict=True)
        )
    named = images_by_name(images, finished, setup)
    if named:
        images = (next(iter(named.values())),)
    views = tuple(take_rows(view, rows) for view in images)
    fields = setup.fetcher.fields.collate([finished.values[row] for row in rows], device)
    mixing = setup.fetcher.variants.mixing
    labels = labels_of(finished, recipe, setup.num_classes, mixing)
    row_targets = [finished.targets[row] for row in rows.tolist()]
    maps = setup.fetcher.targets.maps.collate(
        [one.maps for one in row_targets if one.maps is not None], recipe.fixed_size, device
    )
    numbers = dataset_numbers(setup.options.dataset, finished.indices[rows])
    targets = collate(row_targets, recipe.fixed_size, device)
    if not row_targets:
        targets = collate_nothing(setup.fetcher.example_targets(), recipe.fixed_size, device)
    return Batch(
        images=views[0],
        labels=take_labels(labels, rows, device),
        indices=torch.from_numpy(finished.indices[rows]),
        keys=[finished.keys[row] for row in rows.tolist()],
        valid=torch.from_numpy(plan.valid[has_sample]),
        views=views,
        fields=fields | {name: take_rows(one, rows) for name, one in named.items()} | maps,
        box_params=None if targets.get("boxes") is None else recipe.boxes or BoxParams(),
        dataset_index=None if numbers is None else torch.from_numpy(numbers),
        **clip_columns(finished, rows, setup.fetcher),
        **targets,
    )


def images_by_name(images: Images, finished: Finished, setup: Setup) -> dict[str, torch.Tensor]:
    """Return a tensor [E, C, H, W] per image name if the samples have several images; else an empty dictionary."""
    names = setup.fetcher.images.names
    if not names:
        return {}
    [view] = images
    together = view.view(len(finished), len(names), *view.shape[1:])
    memory_format = setup.views[0].memory_format
    return {
        name: together[:, number].contiguous(memory_format=memory_format)
        for number, name in enumerate(names)
    }


def collect_bad_records(
    finished: Finished, policy: Policy
) -> tuple[list[BadRecord], BadSampleError | None]:
    """Return a step's bad samples for the ledger, and an error if a bad sample has no substitute; else None.

    Bad samples of other ranks are only recorded if they end the run.
    """
    if not any(finished.records):
        return [], None
    empty = np.flatnonzero(~finished.has_sample).tolist() if policy == "replace" else []
    failure = no_substitute(finished.records[empty[0]]) if empty else None
    own = set(finished.plan.rows.tolist())
    everything = policy == "raise" or failure is not None
    records = [
        record
        for row, of_row in enumerate(finished.records)
        for record in of_row
        if row in own or (everything and not record.kept)
    ]
    return records, failure


def labels_of(
    finished: Finished, recipe: Recipe, num_classes: int | None, mixing: Recipe | None
) -> Labels:
    """Return the labels of a step's images.

    Args:
        finished: The step.
        recipe: The recipe of the images.
        num_classes: Count of classes; None if labels are not mixed.
        mixing: A recipe of the run that mixes samples; None if no recipe does. It applies even if `recipe` itself does
            not mix, because labels have one form in all epochs.

    Returns:
        int64 [E], -1 without a label. If a recipe of the run mixes samples: float32 [E, num_classes], zeros for rows
        without a sample, and for samples that have boxes, masks or keypoints but no label. Label vectors are mixed as
        they are.

    Raises:
        LoaderError: A label is not a class number; the number of classes is unknown; or a sample has neither a label
            nor targets, so that it would not count in the loss.
    """
    labels = finished.labels
    if mixing is None or isinstance(labels, list):
        return labels
    if labels.ndim == 2:
        return soft_labels(recipe, finished.draws[0], labels, num_classes)
    labelled = np.flatnonzero(labels >= 0)
    known = labels[labelled]
    if num_classes is None:
        if len(known):
            raise no_class_count(mixing)
        return labels
    missing = np.flatnonzero(finished.has_sample & (labels < 0)).tolist()
    if any(not finished.targets[row].targets for row in missing):
        sentence = missing_labels(len(missing), int(finished.has_sample.sum()))
        raise LoaderError(
            f"the recipe mixes images with their labels, but {sentence}; without labels at all, leave num_classes out"
        )
    if known.max(initial=0) >= num_classes:
        row = int(np.argmax(labels))
        raise LoaderError(
            f"the label of {finished.keys[row]} is {labels[row]}, but there are {num_classes} "
            f"classes, numbered from 0; correct num_classes in the recipe"
        )
    shares = np.zeros((len(finished), num_classes), np.float32)
    shares[labelled, known] = 1
    return soft_labels(recipe, finished.draws[0], shares, num_classes)


def clip_columns(finished: Finished, rows: NDArray[np.int64], fetcher: Fetcher) -> dict[str, Any]:
    """Return the columns of a batch that describe clips; empty if samples are images."""
    clips, views = fetcher.clips, fetcher.variants.views[finished.plan.variant]
    if clips is None:
        return {}
    return {
        "frames": torch.from_numpy(finished.frames[rows, : clips.num_frames]),
        "seconds": torch.from_numpy(finished.seconds[rows, : clips.num_frames]),
        "videos": [finished.keys[row].rpartition("#")[0] for row in rows.tolist()],
        "video_numbers": torch.from_numpy(clips.videos(finished.indices[rows])),
        "camera_columns": clips.cameras,
        "camera_groups": camera_groups(views, clips) if clips.cameras else (),
    }


def take_rows(images: torch.Tensor, rows: NDArray[np.int64]) -> torch.Tensor:
    """Return some rows of a tensor: a view of it if the rows are consecutive, else a copy."""
    if len(rows) == 0:
        return images[:0]
    first, last = int(rows[0]), int(rows[-1])
    # Compared without `arange`, which would release the GIL.
    if last - first + 1 == len(rows) and (rows[1:] > rows[:-1]).all():
        return images[first : last + 1]
    return images.index_select(0, upload(torch.from_numpy(rows), images.device))
