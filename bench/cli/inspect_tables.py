"""Print the findings of `gpu-aug inspect` as tables, and convert them to JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from bench.output.text import (
    Row,
    listed,
    print_facts,
    print_left_out,
    print_line,
    print_table,
    printable,
)
from dali_pipes.jpeg.seek_points import FINDER
from readers import BadSample, Dataset, Sample
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.stream import TarStream
from readers.jpeg_seek_points.store import DatasetSeekPoints
from readers.labels.label_vector import described, label_shape_of
from readers.plural import counted
from readers.prepare import Inspection
from readers.prepare.inspection.findings import MOST_LISTED
from readers.prepare.inspection.percentiles import Spread
from readers.prepare.inspection.videos import VideoFindings
from readers.prepare.source import title_of
from readers.video import FRAMES_CODEC
from readers.video.info import peculiarity_lines

_MOST_FIELDS = 15
_MOST_CLASSES = 5  # how many of the largest, and of the smallest classes are listed
_MOST_BAD = 20
_BAR = 24


def print_inspection(source: str, found: Inspection) -> None:
    """Print all findings."""
    print_facts(_facts(source, found))
    if found.fields:
        columns = ("field", ">in", ">smallest", ">median", ">95 %", ">largest")
        print_table(columns, _fields(found))
    names = found.dataset.class_names
    if set(found.labels) - {-1}:
        print_table(("class", ">samples", ""), _classes(found.labels, names))
    if found.boxes:
        all_boxes = found.num_looked_at == found.length
        of = "all" if all_boxes else f"the {found.num_looked_at:,} looked at"
        print_table(("class", f">boxes of {of}", ""), _classes(found.boxes, names))
    if found.doubled:
        _print_doubled(found.doubled[0], found)
    if found.num_damaged:
        _print_listed(found.damaged, found.num_damaged, "damaged image")
        print_line(
            "    They decode all the same, with pixels that may be wrong, and a loader takes them."
        )
    if found.num_bad:
        _print_listed(found.bad, found.num_bad, "bad sample")
    else:
        print_line("no bad sample" + ("" if found.verified else " among those looked at"))
    print_left_out(source, found.dataset)


def print_part(found: Inspection, task: str) -> None:
    """Print the findings of one task of an array job."""
    bad, of = counted(found.num_bad, "bad sample"), counted(found.length or 0, "sample")
    text = f"task {task}: {found.num_looked_at:,} of {of} looked at, {bad}"
    print_line(f"{text}; --merge tells of all of them when all tasks have ended")


def to_dict(source: str, found: Inspection) -> dict[str, object]:
    """Return the findings for JSON: all classes, and at most 10,000 bad samples."""
    names = found.dataset.class_names
    labels = {label: count for label, count in found.labels.items() if label >= 0}
    return {
        "source": source,
        "format": title_of(found.dataset),
        "fingerprint": found.dataset.fingerprint,
        "samples": found.length,
        "looked_at": found.num_looked_at,
        "verified": found.verified,
        "total_bytes": found.total_bytes,
        "fields": {name: spread.to_dict() for name, spread in sorted(found.fields.items())},
        "image_formats": dict(found.formats),
        "jpeg_processes": dict(found.processes),
        "without_image": found.num_imageless,
        "heights": found.heights.to_dict(),
        "widths": found.widths.to_dict(),
        "shapes": [
            {"height": height, "width": width, "images": count}
            for (height, width), count in found.shapes.most_common(100)
        ],
        "videos": found.videos.to_dict() if found.videos.codecs else None,
        "labels_of_all": found.all_labels,
        "classes": _class_counts(labels, names, "samples"),
        "boxes_per_class": _class_counts(found.boxes, names, "boxes"),
        "unlabelled": found.labels[-1] if label_shape_of(found.dataset) == () else 0,
        "doubled_keys": None if found.doubled is None else found.num_doubled,
        "doubled": found.doubled,
        "num_bad": found.num_bad,
        "bad": list(map(_bad_to_dict, found.bad)),
        "num_damaged": found.num_damaged,
        "damaged": list(map(_bad_to_dict, found.damaged)),
    }


def _class_counts(
    counts: Mapping[int, int], names: Sequence[str], things: str
) -> list[dict[str, object]]:
    return [
        {"label": label, "name": names[label] if 0 <= label < len(names) else None, things: count}
        for label, count in sorted(counts.items())
    ]


def _bad_to_dict(bad: BadSample) -> dict[str, object]:
    return {"index": bad.index, "key": printable(bad.key), "stage": bad.stage, "reason": bad.reason}


def _facts(source: str, found: Inspection) -> Iterator[tuple[str, str]]:
    length = "unknown: a stream has no length" if found.length is None else f"{found.length:,}"
    if not getattr(found.dataset, "declares_count", True):
        length += "; the files do not say how many they had, so records that a cut took from an end cannot be seen"
    yield from (
        ("data", printable(source)),
        ("format", title_of(found.dataset)),
        ("samples", length),
    )
    if isinstance(found.dataset, LeRobotDataset):
        yield from _robot_facts(found.dataset)
    if found.total_bytes is not None:
        yield "size", decimal(found.total_bytes)
    yield "looked at", _looked_at(found)
    if found.formats:
        without = f"; {counted(found.num_imageless, 'sample')} without one"
        yield "images", listed(found.formats) + (without if found.num_imageless else "")
        if set(found.processes) - {"baseline"}:
            yield "JPEGs", listed(found.processes)
        if found.processes["baseline"] and not isinstance(found.dataset, TarStream):
            yield "seek points", _seek_points(found.dataset)
        yield from (
            ("heights", _ends(found.heights)),
            ("widths", _ends(found.widths)),
            ("height x width", _listed_shapes(found.shapes)),
        )
    elif found.num_imageless:
        yield "images", "none"
    if found.videos.codecs:
        yield from _video_facts(found.videos)
    if found.labels:
        yield "labels", _labels(found)


def _robot_facts(robot: LeRobotDataset) -> Iterator[tuple[str, str]]:
    num_episodes = len(np.unique(robot.episodes_of(np.arange(len(robot)))))
    yield "episodes", f"{num_episodes:,}, at {robot.info.fps:g} frames per second"
    for feature in (robot.info.features[name] for name in robot.cameras):
        kind = "distances" if feature.depth else "pictures"
        yield "camera", f"{feature.name}: {kind} of {feature.shape[0]}x{feature.shape[1]}"


def _looked_at(found: Inspection) -> str:
    if not found.verified:
        if found.length == found.num_looked_at:
            return "the headers of all; --verify decodes them, too"
        if found.length is None:
            return f"the first {found.num_looked_at:,}; --verify decodes all"
        return f"the headers of {found.num_looked_at:,}, spread over it; --verify decodes all"
    text = "all of them"
    if found.formats or found.videos.codecs:
        text += f"; every {'frame' if found.videos.codecs else 'image'} was decoded"
    if found.num_earlier:
        text += (
            f"; {found.num_earlier:,} by an earlier run and not again, so files that changed since and kept their size "
            "need a new --parts folder"
        )
    return text


def _seek_points(dataset: Dataset) -> str:
    known = DatasetSeekPoints(dataset, FINDER.version).count_known()
    more = "" if known == len(dataset) else "; gpu-aug index --seek-points looks through the others"
    return f"{known:,} of {counted(len(dataset), 'sample')} were looked through{more}"


def _video_facts(found: VideoFindings) -> list[tuple[str, str]]:
    is_folder = FRAMES_CODEC in found.codecs
    hours = f"{found.milliseconds.total / 3.6e6:.3g} hours in all"
    rates = Counter({f"{rate:g}": count for rate, count in found.rates.items()})
    streams = {"several streams": f" ({listed(found.streams)})"}
    return [
        ("videos", "folders of frames" if is_folder else listed(found.codecs)),
        ("height x width", _listed_shapes(found.shapes)),
        ("frames", f"{_ends(found.frames)}; {found.frames.total:,} in all"),
        ("lengths", f"{_ends(found.milliseconds, 1000)} seconds; {hours}"),
        ("frames per second", listed(rates)),
        ("sound", f"in {found.num_with_audio:,}"),
        *((name, text + streams.get(name, "")) for name, text in peculiarity_lines(found.peculiar)),
    ]


def _listed_shapes(shapes: Counter[tuple[int, int]]) -> str:
    return listed(
        Counter({f"{height}x{width}": count for (height, width), count in shapes.items()})
    )


def _ends(spread: Spread, unit: int = 1) -> str:
    if spread.lowest == spread.highest:
        return f"all {spread.lowest / unit:g}"
    ends = (spread.lowest, spread.highest, spread.percentile(50))
    low, high, middle = (f"{number / unit:g}" for number in ends)
    return f"{low} to {high}, median {spread.about}{middle}"


def _labels(found: Inspection) -> str:
    shape = label_shape_of(found.dataset)
    if shape != ():
        return described(shape)
    counts = [count for label, count in found.labels.items() if label >= 0]
    if not counts:
        return "none"
    of = "" if found.all_labels or found.length == found.num_looked_at else " of those looked at"
    text = f"{counted(len(counts), 'class')}{of}"
    if len(counts) > 1:
        text += f", the largest {max(counts) / min(counts):.3g} times the smallest"
    if found.labels[-1]:
        text += f"; {counted(found.labels[-1], 'sample')} without a label"
    return text


def _fields(found: Inspection) -> Iterator[list[str]]:
    most = sorted(found.fields.items(), key=lambda item: -item[1].count)
    for name, spread in most[:_MOST_FIELDS]:
        # Never rounded up to 100 % or down to 0 %.
        share = min(max(100 * spread.count / max(found.num_looked_at, 1), 0.1), 99.9)
        is_in_all = spread.count == found.num_looked_at
        middle, high = (f"{spread.about}{decimal(spread.percentile(one))}" for one in (50, 95))
        sizes = [decimal(spread.lowest), middle, high, decimal(spread.highest)]
        yield [printable(name), "100 %" if is_in_all else f"{share:.1f} %", *sizes]
    if len(most) > _MOST_FIELDS:
        yield [f"and {len(most) - _MOST_FIELDS} more"]


def _classes(counts: Counter[int], names: tuple[str, ...]) -> list[Row]:
    """Return the table rows of the largest and the smallest classes, with bars."""
    ranked = [item for item in counts.most_common() if item[0] >= 0]
    rows: list[Row] = []
    for label, count in ranked:
        name = f"{label} {printable(names[label])}" if label < len(names) else str(label)
        bar = "━" * max(round(_BAR * count / ranked[0][1]), 1)
        rows.append((name, f"{count:,}", Text(bar, style="cyan")))
    num_hidden = len(rows) - 2 * _MOST_CLASSES
    if num_hidden > 1:
        rows[_MOST_CLASSES:-_MOST_CLASSES] = [[f"... {num_hidden:,} more"]]
    return rows


def _print_doubled(doubled: tuple[int, int], found: Inspection) -> None:
    have = "samples have" if found.num_doubled > 1 else "sample has"
    index, first = doubled
    text = f"{found.num_doubled:,} {have} a key that was there before: sample {index} that of sample {first}"
    if not isinstance(found.dataset, TarStream):
        entry = found.dataset.fetch([index])[0]
        text += f", {printable(entry.key)}" if isinstance(entry, Sample) else ""
    print_line(text, "yellow")


def _print_listed(bad_samples: list[BadSample], number: int, noun: str) -> None:
    """Print the first bad samples, and the count of all."""
    for bad in bad_samples[:_MOST_BAD]:
        what = f" ({bad.stage}): {bad.reason}"
        text = Text.assemble((printable(bad.key), "bold"), (what, "yellow"))
        Console().print(text, soft_wrap=True)
    most = "all" if number <= MOST_LISTED else f"the first {MOST_LISTED:,}"
    more = f", the first {_MOST_BAD} above; --json FILE lists {most}" if number > _MOST_BAD else ""
    print_line(counted(number, noun) + more, "red")
