"""What is in a dataset: fields, images, labels, and entries that are no good."""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from bench.crew import Crew
from bench.inspect_spread import Spread
from bench.inspect_video import VideoLook, VideoSurvey, look_at_video
from bench.video.kind import is_video
from readers import (
    BadSample,
    Dataset,
    Header,
    HeaderError,
    IndexedDataset,
    Order,
    Sample,
    read_header,
)
from readers.formats.stream import TarStream
from readers.storage.copies import copied_sample
from readers.video import FrameFolderDataset, VideoError

MOST_LISTED = 10_000  # bad entries that are kept; the others are counted
_MOST_SHAPES = 10_000
_SAMPLES_LOOKED_AT = 2000
_CHUNK, _FEW = 64, 8  # entries per task; few where they are decoded
_MAX_PIXELS = 100_000_000  # as for the loader
_NUMBER = re.compile(r"\.[0-9]+(?=\.)")


class Look(NamedTuple):
    """What was seen of one entry, without its bytes.

    Attributes:
        place: In the dataset.
        digest: Of its key, 8 bytes as a number.
        label: -1 for none.
        sizes: Bytes by field.
        header: Of its image, None when it has none or it cannot be read.
        video: Of its video; None as for the image.
        bad: What is wrong with it.
    """

    place: int
    digest: int
    label: int
    sizes: dict[str, int]
    header: Header | None = None
    video: VideoLook | None = None
    bad: BadSample | None = None


@dataclass
class Survey:
    """What was found.

    Attributes:
        length: Number of samples, None for a stream that was not read to its end.
        num_looked_at: Entries whose fields and headers were looked at.
        verified: Whether these are all, and were decoded.
        fields: Sizes in bytes by field.
        formats: How often which kind of image, such as "png, 16 bits, alpha": what a loader does not keep is named.
        num_imageless: Samples without image and video, which a loader takes for bad.
        heights: In pixels, of images.
        widths: In pixels.
        shapes: How often which (height, width); the first 10,000 different ones.
        videos: What the videos are like.
        labels: How many samples by class number, -1 for none; of all where the data tells them, else of
            those that were looked at.
        all_labels: Which of both.
        total_bytes: Of all fields of all samples; None when only a part of them is known.
        bad: Entries that are no good, at most 10,000.
        num_bad: How many there are.
        doubled: (index, index of the first) of samples with a key that was there before; None when not
            all keys were looked at.
        num_doubled: How many there are.
    """

    length: int | None
    num_looked_at: int = 0
    verified: bool = False
    fields: dict[str, Spread] = field(default_factory=dict)
    formats: Counter[str] = field(default_factory=Counter)
    num_imageless: int = 0
    videos: VideoSurvey = field(default_factory=VideoSurvey)
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
            self.heights.add(shape[0])
            self.widths.add(shape[1])
            if shape in self.shapes or len(self.shapes) < _MOST_SHAPES:
                self.shapes[shape] += 1

    def add_bad(self, bad: BadSample) -> None:
        """Count an entry that is no good."""
        self.num_bad += 1
        if len(self.bad) < MOST_LISTED:
            self.bad.append(bad)


def survey(
    dataset: Dataset | TarStream,
    crew: Crew,
    *,
    verify: bool,
    on_progress: Callable[[int, int | None], None],
) -> Survey:
    """Look at a dataset; at some thousand samples spread over it, or at all.

    Args:
        dataset: Of a stream the first samples are taken.
        crew: Does the reading and decoding.
        verify: Look at all, and decode every image.
        on_progress: Gets the number of samples that were looked at, and will be.
    """
    found = Survey(None if isinstance(dataset, TarStream) else len(dataset), verified=verify)
    if isinstance(dataset, IndexedDataset):
        _add_columns(found, dataset)
    expected = (
        found.length if verify else min(found.length or _SAMPLES_LOOKED_AT, _SAMPLES_LOOKED_AT)
    )
    digests, indices = array("Q"), array("q")
    folders = dataset if isinstance(dataset, FrameFolderDataset) else None
    look = partial(_look_and_decode if verify else _look, folders=folders)
    tasks = _tasks(dataset, expected, _FEW if verify else _CHUNK)
    for looks in crew.map(lambda task: [look(entry) for entry in task()], tasks):
        for one in looks:
            found.add(one, count_label=not found.all_labels)
            if verify:
                digests.append(one.digest)
                indices.append(one.place)
        on_progress(found.num_looked_at, expected)
    if verify:
        _add_doubled(found, digests, indices)
        _add_checks(found, dataset)
    if found.length is None and (verify or found.num_looked_at < _SAMPLES_LOOKED_AT):
        found.length = found.num_looked_at
    known = found.total_bytes is None and found.fields and not found.num_bad
    if found.length == found.num_looked_at and known:
        found.total_bytes = sum(spread.total for spread in found.fields.values())
    return found


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
        places = np.sort(order.indices(epoch=0, positions=np.arange(count)))
        tasks = (places[at : at + chunk] for at in range(0, count, chunk))
    for indices in tasks:
        yield lambda indices=indices: dataset.fetch(indices)  # type: ignore[misc]


def _kind(header: Header) -> str:
    bits = [f"{header.bits} bits"] if header.bits > 8 else []
    return ", ".join([header.format, *bits, *(["alpha"] if header.has_alpha else [])])


def _look(entry: Entry, folders: FrameFolderDataset | None) -> Look:
    digest = int.from_bytes(
        blake2b(entry.key.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little"
    )
    if isinstance(entry, Sample):
        entry = copied_sample(entry)
    if isinstance(entry, BadSample):
        return Look(entry.index, digest, -1, {}, bad=entry)
    seen = Look(
        entry.index, digest, entry.label, {name: len(data) for name, data in entry.fields.items()}
    )
    if folders is not None:  # its field lists the pictures, and is not what is stored
        return _with_video(seen._replace(sizes={}), entry, folders, decode=False)
    if is_video(entry):
        return _with_video(seen, entry, decode=False)
    if entry.image is None:
        return seen
    try:
        return seen._replace(header=read_header(entry.image))
    except HeaderError as error:
        return seen._replace(bad=BadSample(entry.index, entry.key, "header", str(error)))


def _look_and_decode(entry: Entry, folders: FrameFolderDataset | None) -> Look:
    from dali_pipes.decode.opencv import decode
    from dali_pipes.errors import DecodeError

    if isinstance(entry, Sample):
        entry = copied_sample(entry)
    look = _look(entry, folders)
    if look.video is not None and isinstance(entry, Sample):
        return _with_video(look, entry, folders, decode=True)
    if look.header is None or isinstance(entry, BadSample) or entry.image is None:
        return look
    height, width = look.header.height, look.header.width
    if height * width > _MAX_PIXELS:
        reason = f"{height}x{width} pixels, more than the loader's max_pixels={_MAX_PIXELS}"
        return look._replace(bad=BadSample(entry.index, entry.key, "header", reason))
    try:
        decode(entry.image, (height, width))
    except DecodeError as error:
        return look._replace(bad=BadSample(entry.index, entry.key, "decode", str(error)))
    return look


def _with_video(
    look: Look, sample: Sample, folders: FrameFolderDataset | None = None, *, decode: bool
) -> Look:
    try:
        return look._replace(video=look_at_video(sample, folders, decode=decode))
    except VideoError as error:
        stage: Literal["header", "decode"] = "decode" if decode else "header"
        return look._replace(video=None, bad=BadSample(sample.index, sample.key, stage, str(error)))


def _add_columns(found: Survey, dataset: IndexedDataset) -> None:
    labels, sizes = dataset.column("label"), dataset.column("num_bytes")
    numbers, counts = np.unique(labels, return_counts=True)
    found.labels = Counter(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
    found.all_labels = True
    if (sizes >= 0).all():
        found.total_bytes = int(sizes.sum())


def _add_doubled(found: Survey, digests: "array[int]", indices: "array[int]") -> None:
    numbers = np.frombuffer(digests, np.uint64)
    order = np.argsort(numbers, kind="stable")
    again = np.flatnonzero(numbers[order][1:] == numbers[order][:-1]) + 1
    found.num_doubled = len(again)
    pairs = [(indices[order[place]], indices[order[place - 1]]) for place in again[:MOST_LISTED]]
    found.doubled = sorted(pairs)


def _add_checks(found: Survey, dataset: Dataset | TarStream) -> None:
    """Ask a dataset whose format has checksums for what they say."""
    if not isinstance(dataset, IndexedDataset):
        return
    known = {bad.index for bad in found.bad}
    for bad in dataset.verify():
        if bad.index not in known:
            found.add_bad(bad)
