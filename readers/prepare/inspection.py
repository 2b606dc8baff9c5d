"""What is in a dataset: fields, images, labels, and entries that are no good."""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from readers.dataset import IndexedDataset
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.stream import TarStream
from readers.image.header import Header, read_header
from readers.image.jpeg_process import jpeg_process
from readers.label_vector import class_number
from readers.order import Order
from readers.prepare.checks import Checks
from readers.prepare.kind import is_video
from readers.prepare.percentiles import Spread
from readers.prepare.robot_frames import check_pictures, header_of, own_sizes
from readers.prepare.source import open_source
from readers.prepare.video_inspection import VideoFindings, VideoLook, look_at_video
from readers.prepare.workers import Threads, checked_workers
from readers.sample import BadSample, Dataset, HeaderError, Sample
from readers.storage.copies import copied_sample
from readers.video.containers.open import VideoError
from readers.video.frame_folder import FrameFolderDataset

MOST_LISTED = 10_000  # bad entries that are kept; the others are counted
_MOST_SHAPES = 10_000
_SAMPLES_LOOKED_AT = 2000
_CHUNK, _FEW = 64, 8  # entries per task; few where they are decoded
_MAX_PIXELS = 100_000_000  # as for the loader
_NUMBER = re.compile(r"\.[0-9]+(?=\.)")


class Look(NamedTuple):
    """Properties of one entry, without its bytes.

    Attributes:
        sample_index: Its index in the dataset.
        digest: A hash of its key, 8 bytes as a number.
        label: Class number, -1 for none.
        sizes: Bytes by field.
        header: The header of its image; None when it has none or it cannot be read.
        video: What its video is; None as for the image.
        bad: What is wrong with it.
        process: By which process its JPEG was encoded; None where it is none.
    """

    sample_index: int
    digest: int
    label: int
    sizes: dict[str, int]
    header: Header | None = None
    video: VideoLook | None = None
    bad: BadSample | None = None
    process: str | None = None


@dataclass
class Inspection:
    """What was found.

    Attributes:
        dataset: The inspected dataset.
        length: Number of samples, None for a stream that was not read to its end.
        num_looked_at: Entries whose fields and headers were looked at.
        verified: Whether these are all, and were decoded.
        fields: Sizes in bytes by field.
        formats: Number of images by kind, such as "png, 16 bits, alpha": what a loader does not keep is named.
        processes: Number of JPEGs by the process they were encoded by, such as "progressive".
        num_imageless: Samples without image and video, which a loader takes for bad.
        heights: Heights of images, in pixels.
        widths: Widths of images, in pixels.
        shapes: Number of images by (height, width); the first 10,000 different ones.
        videos: What the videos are like.
        labels: Number of samples by class number, -1 for none; of all where the data tells them, else of
            those that were looked at.
        all_labels: Whether `labels` counts all samples.
        total_bytes: Size of all fields of all samples; None when only a part of them is known.
        bad: Entries that are no good, at most 10,000.
        num_bad: Number of bad entries.
        doubled: (index, index of the first) of samples with a key that was there before; None when not
            all keys were looked at.
        num_doubled: Number of duplicates.
    """

    dataset: Dataset | TarStream
    length: int | None = None
    num_looked_at: int = 0
    verified: bool = False
    fields: dict[str, Spread] = field(default_factory=dict)
    formats: Counter[str] = field(default_factory=Counter)
    processes: Counter[str] = field(default_factory=Counter)
    num_imageless: int = 0
    videos: VideoFindings = field(default_factory=VideoFindings)
    heights: Spread = field(default_factory=Spread)
    widths: Spread = field(default_factory=Spread)
    shapes: Counter[tuple[int, int]] = field(default_factory=Counter)
    labels: Counter[int] = field(default_factory=Counter)
    all_labels: bool = False
    total_bytes: int | None = None
    bad: list[BadSample] = field(default_factory=list)
    num_bad: int = 0
    doubled: list[tuple[int, int]] | None = None
    num_doubled: int = 0

    def add(self, look: Look, *, count_label: bool) -> None:
        """Count an entry in."""
        self.num_looked_at += 1
        if look.bad is not None:
            self.add_bad(look.bad)
        elif look.video is not None:
            self.videos.add(look.video)
        elif look.header is None:
            self.num_imageless += 1
        if count_label and look.sizes:
            self.labels[look.label] += 1
        for name, size in look.sizes.items():
            self.fields.setdefault(_NUMBER.sub(".N", name), Spread()).add(size)
        if look.header is not None:
            shape = (look.header.height, look.header.width)
            self.formats[_kind(look.header)] += 1
            if look.process is not None:
                self.processes[look.process] += 1
            self.heights.add(shape[0])
            self.widths.add(shape[1])
            if shape in self.shapes or len(self.shapes) < _MOST_SHAPES:
                self.shapes[shape] += 1

    def add_bad(self, bad: BadSample) -> None:
        """Count an entry that is no good."""
        self.num_bad += 1
        if len(self.bad) < MOST_LISTED:
            self.bad.append(bad)


def inspect(
    source: str | Dataset | TarStream,
    *,
    verify: Checks | None = None,
    format: str | None = None,
    allow_pipe: bool = False,
    num_workers: int | None = None,
    on_progress: Callable[[int, int | None], None] = lambda *_: None,
    **options: Any,
) -> Inspection:
    """Inspect a dataset: report its contents and its broken entries, from a sample of some thousand or from all.

    Args:
        source: A source as for `readers.open_dataset`, ``pipe:COMMAND``, or a dataset. Of a stream the first samples
            are taken.
        verify: Look at all samples, and decode every image and frame with these.
        format: Name of the format, where the source does not tell it.
        allow_pipe: Whether the source may be a command, which is run.
        num_workers: Threads; all cores when None.
        on_progress: Called with the number of samples that were looked at and that will be, None where unknown.
        options: ``split`` and options of the format, as for `readers.open_dataset`.

    Raises:
        PrepareError: The number of workers is less than 1.
        ReadersError: There is nothing to read.

    Example:
        >>> from dali_pipes.decode.check import CHECKS
        >>> from readers.prepare import inspect
        >>> found = inspect("damaged/", verify=CHECKS)
        >>> found.num_bad, found.heights.percentile(50)
        (1, 96)
    """
    workers = checked_workers(num_workers)
    dataset = source
    if isinstance(dataset, str):
        dataset = open_source(dataset, format=format, allow_pipe=allow_pipe, **options)
    found = Inspection(dataset, verified=verify is not None)
    found.length = None if isinstance(dataset, TarStream) else len(dataset)
    if isinstance(dataset, IndexedDataset):
        _add_columns(found, dataset)
    most = min(found.length or _SAMPLES_LOOKED_AT, _SAMPLES_LOOKED_AT)
    expected = most if verify is None else found.length
    digests, indices = array("Q"), array("q")
    folders = dataset if isinstance(dataset, FrameFolderDataset) else None
    look = partial(_look, folders=folders, checks=verify)
    if isinstance(dataset, LeRobotDataset):
        look = partial(_look_at_frame, dataset=dataset, checks=verify)
    tasks = _tasks(dataset, expected, _CHUNK if verify is None else _FEW)
    with Threads(workers) as threads:
        for looks in threads.map(lambda task: [look(entry) for entry in task()], tasks):
            for one in looks:
                found.add(one, count_label=not found.all_labels)
                digests.append(one.digest)
                indices.append(one.sample_index)
            on_progress(found.num_looked_at, expected)
    if verify is not None:
        _add_doubled(found, digests, indices)
        _add_checks(found, dataset)
    _complete(found)
    return found


def _complete(found: Inspection) -> None:
    """Fill in the facts about all samples, after all were inspected."""
    if found.length is None and (found.verified or found.num_looked_at < _SAMPLES_LOOKED_AT):
        found.length = found.num_looked_at
    known = found.total_bytes is None and found.fields and not found.num_bad
    if found.length == found.num_looked_at and known:
        found.total_bytes = sum(spread.total for spread in found.fields.values())


Entry = Sample | BadSample
Task = Callable[[], Iterable[Entry]]


def _tasks(dataset: Dataset | TarStream, count: int | None, chunk: int) -> Iterator[Task]:
    """Yield what fetches a few entries each, from the front to the back."""
    if isinstance(dataset, TarStream):
        entries = islice(dataset.iterate(), count)
        while some := list(islice(entries, chunk)):
            yield lambda some=some: some  # type: ignore[misc]
        return
    length = len(dataset)
    if count is None or count >= length:
        tasks = (np.arange(at, min(at + chunk, length)) for at in range(0, length, chunk))
    else:
        order = Order(length, seed=0)
        chosen = np.sort(order.indices(epoch=0, positions=np.arange(count)))
        tasks = (chosen[at : at + chunk] for at in range(0, count, chunk))
    for indices in tasks:
        yield lambda indices=indices: dataset.fetch(indices)  # type: ignore[misc]


def _kind(header: Header) -> str:
    bits = [f"{header.bits} bits"] if header.bits > 8 else []
    return ", ".join([header.format, *bits, *(["alpha"] if header.has_alpha else [])])


def _look_at_frame(entry: Entry, dataset: LeRobotDataset, checks: Checks | None) -> Look:
    if isinstance(entry, BadSample):
        return _look(entry, None, checks)
    seen = _look(replace(entry, fields={}, image_field=None), None, None)
    seen = seen._replace(sizes=own_sizes(entry), header=header_of(dataset, entry))
    if seen.header is None:
        assert entry.image is not None
        seen = seen._replace(header=read_header(entry.image))
    if checks is not None and (reason := check_pictures(dataset, entry, checks)):
        return seen._replace(bad=BadSample(entry.index, entry.key, "decode", reason))
    return seen


def _look(entry: Entry, folders: FrameFolderDataset | None, checks: Checks | None) -> Look:
    digest = int.from_bytes(
        blake2b(entry.key.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little"
    )
    if isinstance(entry, Sample):
        entry = copied_sample(entry)
    if isinstance(entry, BadSample):
        return Look(entry.index, digest, -1, {}, bad=entry)
    sizes = {name: len(data) for name, data in entry.fields.items()}
    seen = Look(entry.index, digest, class_number(entry.label), sizes)
    if folders is not None:  # its field lists the pictures, and is not what is stored
        return _with_video(seen._replace(sizes={}), entry, folders, checks)
    if is_video(entry):
        return _with_video(seen, entry, None, checks)
    if entry.image is None:
        return seen
    try:
        header, process = read_header(entry.image), jpeg_process(entry.image)
        seen = seen._replace(header=header, process=process)
    except HeaderError as error:
        return seen._replace(bad=BadSample(entry.index, entry.key, "header", str(error)))
    return seen if checks is None else _with_verdict(seen, entry, checks)


def _with_verdict(look: Look, sample: Sample, checks: Checks) -> Look:
    """Decode an image and add the error, if there is one."""
    assert look.header is not None
    assert sample.image is not None
    size = height, width = look.header.height, look.header.width
    if height * width > _MAX_PIXELS:
        reason = f"{height}x{width} pixels, more than the loader's max_pixels={_MAX_PIXELS}"
        return look._replace(bad=BadSample(sample.index, sample.key, "header", reason))
    if reason := checks.image(sample.image, size):
        return look._replace(bad=BadSample(sample.index, sample.key, "decode", reason))
    return look


def _with_video(
    look: Look, sample: Sample, folders: FrameFolderDataset | None, checks: Checks | None
) -> Look:
    stage: Literal["header", "decode"] = "header"
    try:
        look = look._replace(video=look_at_video(sample, folders))
        if checks is not None:
            stage = "decode"
            look_at_video(sample, folders, checks)
    except VideoError as error:
        return look._replace(video=None, bad=BadSample(sample.index, sample.key, stage, str(error)))
    return look


def _add_columns(found: Inspection, dataset: IndexedDataset) -> None:
    labels, sizes = dataset.column("label"), dataset.column("num_bytes")
    numbers, counts = np.unique(labels, return_counts=True)
    found.labels = Counter(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
    found.all_labels = True
    if (sizes >= 0).all():
        found.total_bytes = int(sizes.sum())


def _add_doubled(found: Inspection, digests: "array[int]", indices: "array[int]") -> None:
    numbers = np.frombuffer(digests, np.uint64)
    order = np.argsort(numbers, kind="stable")
    again = np.flatnonzero(numbers[order][1:] == numbers[order][:-1]) + 1
    found.num_doubled = len(again)
    pairs = [(indices[order[at]], indices[order[at - 1]]) for at in again[:MOST_LISTED]]
    found.doubled = sorted(pairs)


def _add_checks(found: Inspection, dataset: Dataset | TarStream) -> None:
    """Ask a dataset whose format has checksums for what they say."""
    if not isinstance(dataset, IndexedDataset):
        return
    known = {bad.index for bad in found.bad}
    for bad in dataset.verify():
        if bad.index not in known:
            found.add_bad(bad)
