"""The result of an inspection, which is accumulated sample by sample or part by part."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from readers.formats.stream import TarStream
from readers.image.header import Header
from readers.prepare.inspection.percentiles import Spread
from readers.prepare.inspection.videos import VideoFindings, VideoLook
from readers.sample import BadSample, Dataset

MOST_LISTED = 10_000
"""Largest number of bad samples that are listed; further ones are only counted, so that memory does not grow."""
# Different image sizes that are counted; see `Inspection.extend`.
_MOST_SHAPES = 10_000
# Numbers in field names are summed up: mask.0.png and mask.1.png are mask.N.png.
_NUMBER = re.compile(r"\.[0-9]+(?=\.)")


class Look(NamedTuple):
    """Properties of one sample, good or bad, without its bytes.

    Attributes:
        sample_index: Index of the sample in the dataset.
        digest: 64-bit hash of the sample's key.
        label: Class number, -1 for no label.
        sizes: Number of bytes in each field.
        header: Header of the image; None if there is no image, or its header cannot be read.
        video: Properties of the video; None if there is no video, or it cannot be read.
        bad: The reason why the sample cannot be used; None if it can.
        damaged: The damage of an image that decodes nevertheless; None if there is none.
        process: Coding process of a JPEG, such as "progressive"; None for other images.
        box_labels: Class numbers of the boxes in the field ``json``.
    """

    sample_index: int
    digest: int
    label: int
    sizes: dict[str, int]
    header: Header | None = None
    video: VideoLook | None = None
    bad: BadSample | None = None
    damaged: BadSample | None = None
    process: str | None = None
    box_labels: tuple[int, ...] = ()


@dataclass
class Inspection:
    """The result of an inspection.

    Attributes:
        dataset: The inspected dataset.
        length: Number of samples in the dataset; None for a stream that was not read to its end.
        num_looked_at: Number of samples whose fields and headers were inspected, including bad ones.
        verified: Whether all samples were inspected and decoded.
        num_earlier: Number of inspected samples whose results come from an earlier, interrupted run.
        fields: Distribution of the size in bytes, for each field.
        formats: Number of images for each format; the format includes properties that a loader does not preserve, such as
            "png, 16 bits, alpha".
        processes: Number of JPEGs for each coding process, such as "progressive".
        num_imageless: Number of samples without image and video, which are bad samples for a loader.
        videos: Statistics of the videos.
        heights: Distribution of the heights of images, in pixels.
        widths: Distribution of the widths of images, in pixels.
        shapes: Number of images for each (height, width), limited to the first 10,000 different sizes.
        labels: Number of samples for each class number, -1 for no label; see `all_labels`.
        all_labels: Whether `labels` counts all samples of the dataset, not only the inspected ones.
        boxes: Number of boxes for each class number, in the inspected samples.
        total_bytes: Size of all fields of all samples; None if only some sizes are known.
        bad: Samples that cannot be used, at most 10,000.
        num_bad: Number of samples that cannot be used.
        damaged: Images that decode, but with pixels that may be wrong, at most 10,000.
        num_damaged: Number of such images.
        doubled: Pairs (index, index of an earlier sample) of samples with equal keys, at most 10,000; None if not all keys
            were inspected.
        num_doubled: Number of samples whose key an earlier sample has, too.
    """

    dataset: Dataset | TarStream
    length: int | None = None
    num_looked_at: int = 0
    verified: bool = False
    num_earlier: int = 0
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
    boxes: Counter[int] = field(default_factory=Counter)
    total_bytes: int | None = None
    bad: list[BadSample] = field(default_factory=list)
    num_bad: int = 0
    damaged: list[BadSample] = field(default_factory=list)
    num_damaged: int = 0
    doubled: list[tuple[int, int]] | None = None
    num_doubled: int = 0

    def add(self, look: Look, *, count_label: bool) -> None:
        """Add the properties of one sample.

        Args:
            look: The properties.
            count_label: Whether to count the label.
        """
        self.num_looked_at += 1
        if look.bad is not None:
            self.add_bad(look.bad)
        elif look.video is not None:
            self.videos.add(look.video)
        elif look.header is None:
            self.num_imageless += 1
        if look.damaged is not None:
            self.num_damaged += 1
            if len(self.damaged) < MOST_LISTED:
                self.damaged.append(look.damaged)
        if count_label and look.sizes:
            self.labels[look.label] += 1
        self.boxes.update(look.box_labels)
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
        """Add a sample that cannot be used."""
        self.num_bad += 1
        if len(self.bad) < MOST_LISTED:
            self.bad.append(bad)

    def extend(self, later: "Inspection") -> None:
        """Add the result of the samples that follow; the sum is as if one inspection had covered both.

        Args:
            later: Result of at most 10,000 samples, so that its `shapes` are complete.
        """
        self.num_looked_at += later.num_looked_at
        self.num_imageless += later.num_imageless
        for name, spread in later.fields.items():
            self.fields.setdefault(name, Spread()).extend(spread)
        self.heights.extend(later.heights)
        self.widths.extend(later.widths)
        for name in _COUNTERS:
            getattr(self, name).update(getattr(later, name))
        for shape, count in later.shapes.items():
            if shape in self.shapes or len(self.shapes) < _MOST_SHAPES:
                self.shapes[shape] += count
        self.videos.extend(later.videos)
        self.bad += later.bad[: MOST_LISTED - len(self.bad)]
        self.num_bad += later.num_bad
        self.damaged += later.damaged[: MOST_LISTED - len(self.damaged)]
        self.num_damaged += later.num_damaged

    def counts_to_json(self) -> dict[str, Any]:
        """Return all that `extend` adds up, in a form that JSON can store, for `from_json`."""
        return {
            "looked_at": self.num_looked_at,
            "imageless": self.num_imageless,
            "fields": [[name, spread.to_json()] for name, spread in self.fields.items()],
            "heights": self.heights.to_json(),
            "widths": self.widths.to_json(),
            **{name: list(map(list, getattr(self, name).items())) for name in _COUNTERS},
            "shapes": [[*shape, count] for shape, count in self.shapes.items()],
            "videos": self.videos.to_json(),
            "bad": list(map(_to_list, self.bad)),
            "num_bad": self.num_bad,
            "damaged": list(map(_to_list, self.damaged)),
            "num_damaged": self.num_damaged,
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any], dataset: Dataset) -> "Inspection":
        """Return the result that `counts_to_json` has stored, for the dataset that was inspected."""
        return cls(
            dataset,
            num_looked_at=stored["looked_at"],
            num_imageless=stored["imageless"],
            fields={name: Spread.from_json(spread) for name, spread in stored["fields"]},
            heights=Spread.from_json(stored["heights"]),
            widths=Spread.from_json(stored["widths"]),
            formats=Counter(dict(stored["formats"])),
            processes=Counter(dict(stored["processes"])),
            labels=Counter(dict(stored["labels"])),
            boxes=Counter(dict(stored["boxes"])),
            shapes=Counter({(height, width): count for height, width, count in stored["shapes"]}),
            videos=VideoFindings.from_json(stored["videos"]),
            bad=[BadSample(*bad) for bad in stored["bad"]],
            num_bad=stored["num_bad"],
            damaged=[BadSample(*bad) for bad in stored["damaged"]],
            num_damaged=stored["num_damaged"],
        )


_COUNTERS = ("formats", "processes", "labels", "boxes")


def _to_list(bad: BadSample) -> list[str | int]:
    return [bad.index, bad.key, bad.stage, bad.reason]


def _kind(header: Header) -> str:
    bits = [f"{header.bits} bits"] if header.bits > 8 else []
    return ", ".join([header.format, *bits, *(["alpha"] if header.has_alpha else [])])
