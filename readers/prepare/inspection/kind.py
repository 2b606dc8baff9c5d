"""Distinguish videos from images."""

from itertools import islice

from readers.datasets.first_samples import probed_samples
from readers.image.kinds import kind_of
from readers.sample import Dataset, Sample, is_image_field, is_video_field


def is_video(sample: Sample) -> bool:
    """Return whether a sample is a video, judged by the names of its fields, or by its bytes if the names do not tell."""
    named = sample.image_field
    if named is None or named not in sample.fields:
        return sample.image is None and sample.video is not None
    if is_image_field(named) or is_video_field(named):
        return not is_image_field(named)
    kind = kind_of(sample.fields[named])
    return kind is not None and kind.family == "video"


def holds_videos(dataset: Dataset) -> bool:
    """Return whether the samples of a dataset are videos; if it does not declare this, its first readable sample decides."""
    known = getattr(dataset, "kind_of_media", "")
    if known:
        return bool(known == "videos")
    return any(is_video(sample) for sample in islice(probed_samples(dataset), 1))
