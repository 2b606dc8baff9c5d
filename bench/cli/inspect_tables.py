"""The findings of `gpu-aug inspect`, as tables and as JSON."""

from collections import Counter
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from bench.output.text import fact_table, plain_table, print_plain, printable
from dali_pipes.jpeg.finder import FINDER
from readers import BadSample, Dataset, Sample
from readers.checkpoints.store import DatasetCheckpoints
from readers.formats.stream import TarStream
from readers.label_vector import described, label_shape_of
from readers.plural import counted
from readers.prepare import Inspection
from readers.prepare.findings import MOST_LISTED
from readers.prepare.percentiles import Spread
from readers.prepare.source import title_of
from readers.prepare.video_inspection import VideoFindings
from readers.video import FRAMES_CODEC
from readers.video.info import peculiarity_lines

_MOST_KINDS = 3  # of codecs, rates and streams
_MOST_FIELDS = 15
_MOST_SHAPES = 3
_MOST_CLASSES = 5  # largest, and smallest
_MOST_BAD = 20
_BAR = 24


def print_inspection(source: str, found: Inspection, console: Console) -> None:
    """Print everything."""
    table = fact_table()
    for subject, text in _facts(source, found):
        table.add_row(subject, Text(text))
    console.print(table)
    if found.fields:
        console.print(_fields(found))
    if set(found.labels) - {-1}:
        console.print(_classes(found.labels, found.dataset.class_names, "samples"))
    if found.boxes:
        of = (
            "all"
            if found.num_looked_at == found.length
            else f"the {found.num_looked_at:,} looked at"
        )
        console.print(_classes(found.boxes, found.dataset.class_names, f"boxes of {of}"))
    _print_doubled(found, console)
    _print_damaged(found, console)
    _print_bad(found, console)


def to_dict(source: str, found: Inspection) -> dict[str, object]:
    """The same for JSON: all classes, and at most 10,000 bad samples."""
    names = found.dataset.class_names
    classes = [
        {"label": label, "name": names[label] if label < len(names) else None, "samples": count}
        for label, count in sorted(found.labels.items())
        if label >= 0
    ]
    boxes = [
        {"label": label, "name": names[label] if 0 <= label < len(names) else None, "boxes": count}
        for label, count in sorted(found.boxes.items())
    ]
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
        "classes": classes,
        "boxes_per_class": boxes,
        "unlabelled": found.labels[-1] if label_shape_of(found.dataset) == () else 0,
        "doubled_keys": None if found.doubled is None else found.num_doubled,
        "doubled": found.doubled,
        "num_bad": found.num_bad,
        "bad": list(map(_bad_to_dict, found.bad)),
        "num_damaged": found.num_damaged,
        "damaged": list(map(_bad_to_dict, found.damaged)),
    }


def _bad_to_dict(bad: BadSample) -> dict[str, object]:
    return {
        "index": bad.index,
        "key": printable(bad.key),
        "stage": bad.stage,
        "reason": bad.reason,
    }


def _facts(source: str, found: Inspection) -> list[tuple[str, str]]:
    facts = [("data", printable(source)), ("format", title_of(found.dataset))]
    length = "unknown: a stream has no length" if found.length is None else f"{found.length:,}"
    if not getattr(found.dataset, "declares_count", True):
        length += "; the files do not say how many they had, so records that a cut took from an end cannot be seen"
    facts.append(("samples", length))
    if found.total_bytes is not None:
        facts.append(("size", decimal(found.total_bytes)))
    looked = f"{found.num_looked_at:,}"
    if found.verified:
        decoded = "; every image was decoded" if found.formats else ""
        if found.videos.codecs:
            decoded = "; every frame was decoded"
        if found.num_earlier:
            decoded += (
                f"; {found.num_earlier:,} by an earlier run and not again, so files that changed since and kept their size "
                "need a new --parts folder"
            )
        facts.append(("looked at", "all of them" + decoded))
    elif found.length == found.num_looked_at:
        facts.append(("looked at", "the headers of all; --verify decodes them, too"))
    elif found.length is None:
        facts.append(("looked at", f"the first {looked}; --verify decodes all"))
    else:
        facts.append(
            ("looked at", f"the headers of {looked}, spread over it; --verify decodes all")
        )
    if found.formats:
        total = found.formats.total()
        kinds = [f"{name} {_share(count, total)}" for name, count in found.formats.most_common()]
        if found.num_imageless:
            kinds.append(f"and {counted(found.num_imageless, 'sample')} without one")
        facts.append(("images", ", ".join(kinds)))
        if set(found.processes) - {"baseline"}:
            facts.append(("JPEGs", _processes(found.processes)))
        if found.processes["baseline"] and not isinstance(found.dataset, TarStream):
            facts.append(("checkpoints", _checkpoints(found.dataset)))
        facts.append(("heights", _pixels(found.heights)))
        facts.append(("widths", _pixels(found.widths)))
        facts.append(("shapes", _shapes(found.shapes, total)))
    elif found.num_imageless:
        facts.append(("images", "none"))
    facts += _video_facts(found.videos)
    return facts + _label_facts(found)


def _checkpoints(dataset: Dataset) -> str:
    known = DatasetCheckpoints(dataset, FINDER.version).count_known()
    more = "" if known == len(dataset) else "; gpu-aug index --checkpoints looks through the others"
    return f"{known:,} of {counted(len(dataset), 'sample')} were looked through{more}"


def _processes(counts: Counter[str]) -> str:
    total = counts.total()
    return ", ".join(f"{name} {_share(count, total)}" for name, count in counts.most_common())


def _video_facts(found: VideoFindings) -> list[tuple[str, str]]:
    """Lines of a table; none without videos."""
    if not found.codecs:
        return []
    sizes = [f"{height}x{width}" for height, width in found.shapes]
    named = Counter(dict(zip(sizes, found.shapes.values(), strict=True)))
    rates = Counter({f"{rate:g}": count for rate, count in found.rates.items()})
    taken = f" ({_listed(found.streams)})" if found.streams else ""
    return [
        (
            "videos",
            "folders of frames" if FRAMES_CODEC in found.codecs else _listed(found.codecs),
        ),
        ("shapes", f"{_listed(named)} (height x width)"),
        ("frames", f"{_ends(found.frames, 1)}; {found.frames.total:,} in all"),
        (
            "lengths",
            f"{_ends(found.milliseconds, 1000)} seconds; {found.milliseconds.total / 3.6e6:.3g} hours in all",
        ),
        ("frames per second", _listed(rates)),
        ("sound", f"in {found.num_with_audio:,}"),
        *(
            (name, text + taken * (name == "several streams"))
            for name, text in peculiarity_lines(found.peculiar)
        ),
    ]


def _listed(counts: Counter[str]) -> str:
    total = counts.total()
    named = [f"{name} ({count:,} of {total:,})" for name, count in counts.most_common(_MOST_KINDS)]
    if total == next(iter(counts.values())):
        return f"all {next(iter(counts))}"
    more = len(counts) - len(named)
    return ", ".join(named) + (f", and {counted(more, 'other')}" if more else "")


def _ends(spread: Spread, unit: int) -> str:
    if spread.lowest == spread.highest:
        return f"all {spread.lowest / unit:g}"
    ends = (spread.lowest, spread.highest, spread.percentile(50))
    low, high, middle = (f"{number / unit:g}" for number in ends)
    return f"{low} to {high}, median {spread.about}{middle}"


def _label_facts(found: Inspection) -> list[tuple[str, str]]:
    if not found.labels:
        return []
    shape = label_shape_of(found.dataset)
    if shape != ():
        return [("labels", described(shape))]
    of = "" if found.all_labels or found.length == found.num_looked_at else " of those looked at"
    counts = [count for label, count in found.labels.items() if label >= 0]
    if not counts:
        return [("labels", "none")]
    text = f"{counted(len(counts), 'class')}{of}"
    if len(counts) > 1:
        text += f", the largest {max(counts) / min(counts):.3g} times the smallest"
    if found.labels[-1]:
        text += f"; {counted(found.labels[-1], 'sample')} without a label"
    return [("labels", text)]


def _pixels(spread: Spread) -> str:
    """Ends and percentiles of a length in pixels."""
    if spread.lowest == spread.highest:
        return f"all {spread.lowest}"
    low, middle, high = (f"{spread.about}{spread.percentile(percent)}" for percent in (5, 50, 95))
    return f"{spread.lowest} to {spread.highest}, median {middle}, 90 % in {low} to {high}"


def _shapes(shapes: Counter[tuple[int, int]], total: int) -> str:
    common = [
        f"{height}x{width} {_share(count, total)}"
        for (height, width), count in shapes.most_common(_MOST_SHAPES)
    ]
    more = len(shapes) - len(common)
    return ", ".join(common) + (f", and {counted(more, 'other')} (height x width)" if more else "")


def _fields(found: Inspection) -> Table:
    table = plain_table()
    table.add_column("field", style="bold", overflow="fold")
    for name in ("in", "smallest", "median", "95 %", "largest"):
        table.add_column(name, justify="right", no_wrap=True)
    most = sorted(found.fields.items(), key=lambda item: -item[1].count)
    for name, spread in most[:_MOST_FIELDS]:
        middle, high = (f"{spread.about}{decimal(spread.percentile(one))}" for one in (50, 95))
        table.add_row(
            Text(printable(name)),
            _share(spread.count, found.num_looked_at),
            *(decimal(spread.lowest), middle, high, decimal(spread.highest)),
        )
    if len(most) > _MOST_FIELDS:
        table.add_row(f"and {len(most) - _MOST_FIELDS} more")
    return table


def _classes(counts: Counter[int], names: tuple[str, ...], counted_things: str) -> Table:
    table = plain_table()
    table.add_column("class", style="bold", overflow="ellipsis", no_wrap=True, max_width=30)
    table.add_column(counted_things, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    ranked = [item for item in counts.most_common() if item[0] >= 0]
    rows: list[tuple[int, int] | None] = list(ranked)
    if len(ranked) > 2 * _MOST_CLASSES + 1:
        rows = [*ranked[:_MOST_CLASSES], None, *ranked[-_MOST_CLASSES:]]
    for row in rows:
        if row is None:
            table.add_row(f"... {len(ranked) - 2 * _MOST_CLASSES:,} more", "", "")
            continue
        label, count = row
        name = f"{label} {printable(names[label])}" if label < len(names) else str(label)
        bar = "━" * max(round(_BAR * count / ranked[0][1]), 1)
        table.add_row(Text(name), f"{count:,}", Text(bar, style="cyan"))
    return table


def _print_doubled(found: Inspection, console: Console) -> None:
    if not found.doubled:
        return
    have = "samples have" if found.num_doubled > 1 else "sample has"
    text = f"{found.num_doubled:,} {have} a key that was there before"
    index, first = found.doubled[0]
    text += f": sample {index} that of sample {first}"
    if not isinstance(found.dataset, TarStream):
        entry = found.dataset.fetch([index])[0]
        text += f", {printable(entry.key)}" if isinstance(entry, Sample) else ""
    print_plain(console, text, "yellow")


def _print_damaged(found: Inspection, console: Console) -> None:
    if found.num_damaged:
        _print_listed(found.damaged, found.num_damaged, "damaged image", console)
        console.print(
            "    They decode all the same, with pixels that may be wrong, and a loader takes them."
        )


def _print_bad(found: Inspection, console: Console) -> None:
    if found.num_bad:
        _print_listed(found.bad, found.num_bad, "bad sample", console)
    else:
        console.print("no bad sample" + ("" if found.verified else " among those looked at"))


def _print_listed(listed: list[BadSample], number: int, noun: str, console: Console) -> None:
    """Print the first of some, and how many there are."""
    for bad in listed[:_MOST_BAD]:
        text = Text(printable(bad.key), style="bold")
        text.append(f" ({bad.stage}): {bad.reason}", style="yellow")
        console.print(text, soft_wrap=True)
    text = Text(counted(number, noun), style="red")
    if number > _MOST_BAD:
        most = "all" if number <= MOST_LISTED else f"the first {MOST_LISTED:,}"
        text.append(f", the first {_MOST_BAD} above; --json FILE lists {most}")
    console.print(text)


def _share(count: int, total: int) -> str:
    """Percent, never rounded up to all or down to none."""
    share: Any = 100 * count / max(total, 1)
    if count == total:
        return "100 %"
    return f"{min(max(share, 0.1), 99.9):.1f} %"
