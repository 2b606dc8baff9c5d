"""Find the samples of a dataset that can be decoded."""

import warnings
from typing import Any

import numpy as np

from dali_pipes.arguments.options import ImageOptions
from dali_pipes.loader import Loader
from dali_pipes.runs.bad_samples import BadRecord
from dali_pipes.runs.replay import make_step
from dali_pipes.steps.schedule import Plan
from dali_pipes.video.clips import Clips
from gpu_aug import BoxParams, CenterCrop, Recipe
from readers import Sample
from readers.datasets.dataset import IndexedDataset

_SIDE = 16  # pixels: small, because only decoding matters here, and it checks the full file
_BATCH_SIZE = 8  # enough for the threads, and little memory if samples are clips


def take_decodable_samples(
    dataset: IndexedDataset,
    *,
    most: int,
    images: ImageOptions = ImageOptions(),  # noqa: B008 - frozen
    boxes: BoxParams | None = None,
) -> tuple[list[Sample], list[str]]:
    """Take samples spread evenly over a dataset, and check that they decode.

    Args:
        dataset: A dataset of images.
        most: Largest count of samples.
        images: Options for the images of a sample, as for Loader.
        boxes: Format of boxes that do not name their own; None means BoxParams().

    Returns:
        The samples that decode, and for each sample that does not, a sentence with the reason.
    """
    count = min(len(dataset), most)
    spread = [number * len(dataset) // count for number in range(count)]
    with warnings.catch_warnings():
        # The boxes are not used, so nothing is lost if they lose their angles.
        warnings.filterwarnings("ignore", "the data has oriented boxes")
        records = _bad_records(dataset.take(spread), boxes, images=images)
    bad = {record.index for record in records}
    sound = [index for number, index in enumerate(spread) if number not in bad]
    samples = [sample for sample in dataset.fetch(sound) if isinstance(sample, Sample)]
    return samples, [f"{record.key}: {record.reason}" for record in records]


def find_decodable_videos(clips: Clips) -> tuple[list[int], list[str]]:
    """Decode all clips of a dataset, and return the videos without errors.

    Args:
        clips: At least one clip of each video.

    Returns:
        The indices of the videos whose clips all decode, and for each other video a sentence with the reason.
    """
    records = _bad_records(clips)
    videos = clips.videos(np.array([record.index for record in records], np.int64))
    faults = {
        video: f"{record.key.rpartition('#')[0]}: {record.reason}"
        for video, record in zip(videos.tolist(), records, strict=True)
    }
    sound = [video for video in range(len(clips.dataset)) if video not in faults]
    return sound, [faults[video] for video in sorted(faults)]


def _bad_records(
    dataset: IndexedDataset, boxes: BoxParams | None = None, **options: Any
) -> list[BadRecord]:
    """Make every sample once, as training does; return the records of bad samples."""
    records: list[BadRecord] = []
    with Loader(
        dataset,
        Recipe([CenterCrop(_SIDE)], boxes=boxes),
        batch_size=_BATCH_SIZE,
        device="cpu",
        decoder="cpu",
        shuffle="none",
        last_batch="partial",
        on_bad_sample="skip",
        **options,
    ) as loader:
        # Single steps, not a loop: a loop would log each bad sample, but the callers report them in their own words.
        for start in range(0, len(dataset), _BATCH_SIZE):
            positions = np.arange(start, min(start + _BATCH_SIZE, len(dataset)))
            rows, valid = np.arange(len(positions)), np.ones(len(positions), bool)
            finished, _ = make_step(loader._setup, Plan(0, 0, positions, rows, valid, 0))
            records += [record for row in finished.records for record in row if not record.kept]
    return records
