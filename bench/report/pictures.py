"""Pictures of the samples of a dataset: some that show what it holds, and those that are bad."""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

import numpy as np

from bench.report.thumbnails import Thumbnail, first_frame, thumbnail_of_file
from dali_pipes.preview.pictures import Picture, annotate
from dali_pipes.targets import KINDS, TargetReader
from gpu_aug import CenterCrop, Recipe, Targets
from gpu_aug.errors import TargetsError
from readers import Dataset, HeaderError, ReadersError, Sample, read_header
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.stream import TarStream
from readers.image.jpeg_process import jpeg_process
from readers.label_vector import class_number
from readers.prepare.kind import holds_videos, is_video
from readers.sample import mask_number
from readers.video.frame_folder import FrameFolderDataset

MOST_SHOWN = 12
"""Pictures that show what a dataset holds."""

MOST_BAD_SHOWN = 48
"""Bad samples that have a picture."""

_CHEAP_KINDS = ("boxes", "keypoints")  # masks are decoded where they are drawn
_NO_RECIPE = Recipe([CenterCrop(8)])  # which says nothing of the form of boxes and keypoints
_NUM_COUNTED = 96  # samples whose boxes, keypoints and masks are counted
_STREAMED = "a stream is not read a second time"


@dataclass(frozen=True)
class SampleView:
    """A sample that shows what a dataset holds.

    Attributes:
        key: Its key.
        label: Its class number, -1 where it has none.
        picture: It, with its boxes, keypoints and masks.
        words: Its size and what was drawn.
    """

    key: str
    label: int
    picture: Thumbnail
    words: str


@dataclass
class Views:
    """Some samples of a dataset.

    Attributes:
        shown: Some with a picture.
        num_counted: How many were looked at for targets.
        targets: How many of these have boxes, keypoints, masks.
        objects: How many boxes, keypoints and masks they have in all.
    """

    shown: list[SampleView] = field(default_factory=list)
    num_counted: int = 0
    targets: Counter[str] = field(default_factory=Counter)
    objects: Counter[str] = field(default_factory=Counter)


def look_at_samples(dataset: Dataset | TarStream, bad: Container[int] = ()) -> Views:
    """Look at samples that are spread evenly over a dataset; of a stream at none.

    Args:
        dataset: Where they are from.
        bad: Indices of samples that are known to be bad, and are left out.
    """
    views = Views()
    if isinstance(dataset, TarStream):
        return views
    length = len(dataset)
    count = MOST_SHOWN if holds_videos(dataset) else _NUM_COUNTED  # whole videos are much to read
    count = min(count, length)
    indices = [number * length // count for number in range(count)]
    every = max(1, -(-len(indices) // MOST_SHOWN))
    for first in range(0, len(indices), every):
        entries = dataset.fetch(indices[first : first + every])
        for number, entry in enumerate(entries):
            if isinstance(entry, Sample) and entry.index not in bad:
                _look(views, dataset, entry, is_shown=number == 0)
    return views


def _look(views: Views, dataset: Dataset, sample: Sample, *, is_shown: bool) -> None:
    targets = _targets_of(sample, KINDS if is_shown else _CHEAP_KINDS)
    _count(views, sample, targets)
    if is_shown:
        words = _size_of(sample)
        if _holds_frames(dataset, sample):
            words = "" if isinstance(dataset, LeRobotDataset) else "first frame"
        picture = _picture(dataset, sample, targets)
        views.shown.append(SampleView(sample.key, class_number(sample.label), picture, words))


def bad_pictures(
    dataset: Dataset | TarStream, bad: Iterable[tuple[int, str]]
) -> dict[tuple[int, str], Thumbnail]:
    """Draw bad samples as far as they can be decoded.

    Args:
        dataset: Where they are from.
        bad: Index and key of each; of a clip its video is drawn, where each video has one clip.
    """
    drawn: dict[tuple[int, str], Thumbnail] = {}
    for index, key in bad:
        if len(drawn) >= MOST_BAD_SHOWN:
            break
        drawn[index, key] = _bad_picture(dataset, index, key)
    return drawn


def _bad_picture(dataset: Dataset | TarStream, index: int, key: str) -> Thumbnail:
    if isinstance(dataset, TarStream):
        return Thumbnail(fault=_STREAMED)
    if not 0 <= index < len(dataset):
        return Thumbnail(fault=f"the data has no sample {index} now")
    try:
        [sample] = dataset.fetch([index])
    except ReadersError as error:
        return Thumbnail(fault=str(error))
    video = key.rpartition("#")[0]  # of a clip; where each video has one, they have the same index
    if sample.key not in (key, video):
        return Thumbnail(fault=f"sample {index} is another one in the data as it is now")
    if not isinstance(sample, Sample):
        return Thumbnail(fault="it cannot be read")
    return _picture(dataset, sample, Targets())


def _picture(dataset: Dataset | TarStream, sample: Sample, targets: Targets) -> Thumbnail:
    if _holds_frames(dataset, sample):
        return first_frame(dataset, sample)
    if sample.image is None:
        return Thumbnail(fault="it has no image")
    if not targets:
        return thumbnail_of_file(sample.image)
    return thumbnail_of_file(sample.image, lambda picture: _annotated(picture, targets))


def _holds_frames(dataset: Dataset | TarStream, sample: Sample) -> bool:
    return isinstance(dataset, FrameFolderDataset) or is_video(sample)


def _annotated(picture: Picture, targets: Targets) -> Picture:
    masks = [] if targets.masks is None else list(targets.masks)
    if len(masks) > 1:  # instances: each is a colour of its own
        masks = [np.where(mask != 0, number + 1, 0) for number, mask in enumerate(masks)]
    labels = targets.box_labels
    whole = labels is not None and np.issubdtype(labels.dtype, np.integer)
    return annotate(
        picture,
        masks=masks,
        boxes=targets.boxes,
        box_labels=labels if whole else None,
        keypoints=targets.keypoints,
    )


def _targets_of(sample: Sample, kinds: Iterable[str]) -> Targets:
    """What belongs to an image; nothing where that cannot be read."""
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
    for name in ("boxes", "keypoints"):
        values = getattr(targets, name)
        if values is not None:
            views.targets[name] += 1
            views.objects[name] += len(values)
    masks = sum(mask_number(name) is not None for name in sample.fields)
    if masks:
        views.targets["masks"] += 1
        views.objects["masks"] += masks


def _size_of(sample: Sample) -> str:
    data = sample.image
    try:
        header = None if data is None else read_header(data)
    except HeaderError:
        header = None
    if header is None or data is None:
        return ""
    process = jpeg_process(data)
    kind = f"{process} {header.format}" if process not in (None, "baseline") else header.format
    return f"{header.height}x{header.width} {kind}"
