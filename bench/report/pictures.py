"""Draw pictures of the samples of a dataset: some typical samples, and bad samples."""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.report.thumbnails import Thumbnail, first_frame, thumbnail_of_file
from dali_pipes.preview.pictures import Picture, annotate
from dali_pipes.samples.targets import KINDS, TargetReader
from gpu_aug import CenterCrop, Recipe, Targets
from gpu_aug.errors import TargetsError
from readers import BadSample, Dataset, HeaderError, ReadersError, Sample, read_header
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.stream import TarStream
from readers.image.jpeg_process import jpeg_process
from readers.labels.label_vector import class_number
from readers.prepare.inspection.kind import holds_videos, is_video
from readers.sample import mask_number
from readers.video.frame_folder import FrameFolderDataset

MOST_SHOWN = 12
"""Count of pictures that show the contents of a dataset."""

MOST_BAD_SHOWN = 48
"""Largest count of bad samples with a picture."""

# Kinds that cost little to read; masks are decoded only when they are drawn.
_CHEAP_KINDS = ("boxes", "keypoints")
# A recipe that does not define the form of boxes and keypoints.
_NO_RECIPE = Recipe([CenterCrop(8)])
_NUM_COUNTED = 96  # largest number of samples whose boxes, keypoints and masks are counted


@dataclass(frozen=True)
class Card:
    """A picture of a sample with its key and further text."""

    key: str
    words: str
    picture: Thumbnail


@dataclass
class Views:
    """Pictures and counts of some samples of a dataset.

    Attributes:
        shown: The pictures of the samples that are shown.
        num_counted: Count of samples whose targets were counted.
        targets: By kind (boxes, keypoints or masks), how many of these samples have any.
        objects: By kind, the total count of boxes, keypoints or masks.
    """

    shown: list[Card] = field(default_factory=list)
    num_counted: int = 0
    targets: Counter[str] = field(default_factory=Counter)
    objects: Counter[str] = field(default_factory=Counter)


def look_at_samples(dataset: Dataset | TarStream, bad: Container[int] = ()) -> Views:
    """Return pictures and counts of samples spread evenly over a dataset; empty for a stream.

    Args:
        dataset: The dataset.
        bad: Indices of samples that are known to be bad; they are left out.
    """
    views = Views()
    if isinstance(dataset, TarStream):
        return views
    most = MOST_SHOWN if holds_videos(dataset) else _NUM_COUNTED  # full videos take long to read
    count = min(most, len(dataset))
    indices = [number * len(dataset) // count for number in range(count)]
    every = max(1, -(-count // MOST_SHOWN))
    for first in range(0, count, every):
        for number, entry in enumerate(dataset.fetch(indices[first : first + every])):
            if isinstance(entry, Sample) and entry.index not in bad:
                targets = _read_targets(entry, KINDS if number == 0 else _CHEAP_KINDS)
                _count(views, entry, targets)
                if number == 0:
                    views.shown.append(_card(dataset, entry, targets))
    return views


def bad_pictures(dataset: Dataset | TarStream, bad: Sequence[BadSample]) -> list[Thumbnail]:
    """Return pictures of the first bad samples, as far as these can be decoded.

    Args:
        dataset: The dataset.
        bad: The bad samples; for a bad clip its video is drawn, if each video has one clip.
    """
    return [_bad_picture(dataset, one.index, one.key) for one in bad[:MOST_BAD_SHOWN]]


def _bad_picture(dataset: Dataset | TarStream, index: int, key: str) -> Thumbnail:
    if isinstance(dataset, TarStream):
        return Thumbnail(fault="a stream is not read a second time")
    if not 0 <= index < len(dataset):
        return Thumbnail(fault=f"the data has no sample {index} now")
    try:
        [sample] = dataset.fetch([index])
    except ReadersError as error:
        return Thumbnail(fault=str(error))
    # Key of the clip's video; if each video has one clip, their indices are equal.
    video = key.rpartition("#")[0]
    if sample.key not in (key, video):
        return Thumbnail(fault=f"sample {index} is another one in the data as it is now")
    if not isinstance(sample, Sample):
        return Thumbnail(fault="it cannot be read")
    return _picture(dataset, sample, Targets())


def _card(dataset: Dataset, sample: Sample, targets: Targets) -> Card:
    """Draw a sample with its class, its size, and its boxes, keypoints and masks."""
    number, names = class_number(sample.label), dataset.class_names
    words = [names[number] if number < len(names) else str(number)] if number >= 0 else []
    if not _holds_frames(dataset, sample):
        words += _size_of(sample)
    elif not isinstance(dataset, LeRobotDataset):
        words.append("first frame")
    return Card(sample.key, ", ".join(words), _picture(dataset, sample, targets))


def _picture(dataset: Dataset, sample: Sample, targets: Targets) -> Thumbnail:
    if _holds_frames(dataset, sample):
        return first_frame(dataset, sample)
    if sample.image is None:
        return Thumbnail(fault="it has no image")
    if not targets:
        return thumbnail_of_file(sample.image)
    return thumbnail_of_file(sample.image, lambda picture: _annotated(picture, targets))


def _holds_frames(dataset: Dataset, sample: Sample) -> bool:
    return isinstance(dataset, FrameFolderDataset) or is_video(sample)


def _annotated(picture: Picture, targets: Targets) -> Picture:
    labels = targets.box_labels
    has_numbers = labels is not None and np.issubdtype(labels.dtype, np.integer)
    return annotate(
        picture,
        masks=() if targets.masks is None else targets.masks,
        boxes=targets.boxes,
        box_labels=labels if has_numbers else None,
        keypoints=targets.keypoints,
        keypoint_labels=targets.keypoint_labels,
    )


def _read_targets(sample: Sample, kinds: Iterable[str]) -> Targets:
    """Read the targets of an image; return none if they cannot be read."""
    if sample.image is None:
        return Targets()
    try:
        header = read_header(sample.image)
        reader = TargetReader(_NO_RECIPE, frozenset(kinds))
        return reader.read(sample.fields, (header.height, header.width)).targets
    except (HeaderError, TargetsError):
        return Targets()


def _count(views: Views, sample: Sample, targets: Targets) -> None:
    views.num_counted += 1
    masks = [name for name in sample.fields if mask_number(name) is not None]
    found = {"boxes": targets.boxes, "keypoints": targets.keypoints, "masks": masks or None}
    for name, values in found.items():
        if values is not None:
            views.targets[name] += 1
            views.objects[name] += len(values)


def _size_of(sample: Sample) -> list[str]:
    """Return texts with the size, encoding process and format of a sample's image; empty if it cannot be read."""
    if sample.image is None:
        return []
    try:
        header = read_header(sample.image)
    except HeaderError:
        return []
    process = jpeg_process(sample.image)
    kind = f"{process} {header.format}" if process not in (None, "baseline") else header.format
    return [f"{header.height}x{header.width} {kind}"]
