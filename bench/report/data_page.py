"""The page about data: what an inspection found in it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from bench.report import charts
from bench.report.bad import bad_of_data, bad_section
from bench.report.numbers import NONE, count, plain, seconds, share, size
from bench.report.page import render
from bench.report.parts import (
    Bar,
    Code,
    Number,
    Part,
    Section,
    facts,
    folded,
    note,
    section,
    table,
    warning,
)
from bench.report.pictures import Views, bad_pictures, look_at_samples
from readers.formats.stream import TarStream
from readers.label_vector import described, label_shape_of
from readers.plural import counted
from readers.prepare import Inspection
from readers.prepare.percentiles import Spread
from readers.prepare.source import files_left_out, title_of
from readers.video.info import peculiarity_lines

_MOST_FIELDS = 40
_MOST_DOUBLED = 20
_MOST_HISTOGRAMS = 3
_ENOUGH = 12  # samples or classes, from which on a chart tells more than the table
_MOST_KINDS = 12
_MOST_SHAPES = 8
_ENDS = 10  # largest and smallest classes
_MOST_LISTED = 2000


@dataclass(frozen=True)
class DataLook:
    """Data that was looked at.

    Attributes:
        source: How it was named.
        found: What is in it.
        views: Some samples of it.
    """

    source: str
    found: Inspection
    views: Views


def look_at_data(source: str, found: Inspection) -> DataLook:
    """Look at some samples of data that was inspected."""
    return DataLook(source, found, look_at_samples(found.dataset, {one.index for one in found.bad}))


def data_page(look: DataLook) -> str:
    """Return a page about data."""
    return render(f"Data: {look.source}", "", data_sections(look))


def data_sections(look: DataLook) -> list[Section]:
    """Return the sections about data."""
    found, dataset = look.found, look.found.dataset
    bad, damaged = bad_of_data(found.bad), bad_of_data(found.damaged)
    heading = "Bad samples" if found.verified else "Bad samples, by headers alone"
    sections = [
        _overview(look.source, found),
        section("samples", "Samples", look.views.gallery(dataset.class_names)),
        _images(found),
        _videos(found),
        _classes("classes", "Classes", found, found.labels, "sample"),
        _classes("boxes", "Boxes per class", found, found.boxes, "box"),
        _fields(found, look.views),
        bad_section("broken", heading, bad, found.num_bad, bad_pictures(dataset, [one.place for one in bad])),
    ]  # fmt: skip
    if damaged:
        pictures = bad_pictures(dataset, [one.place for one in damaged])
        title, noun = "Damaged images that decode", "damaged image"
        sections.append(
            bad_section("damaged", title, damaged, found.num_damaged, pictures, noun=noun)
        )
    return [*sections, _doubled(found)]


def _overview(source: str, found: Inspection) -> Section:
    length, total = found.length, found.total_bytes
    classes = sum(label >= 0 for label in found.labels)
    looked = count(found.num_looked_at)
    judged = (
        "by their headers alone" if _is_all(found) else f"among {looked}, by their headers alone"
    )
    tiles = [
        ("samples", "unknown" if length is None else Number(length, count(length)), "all decoded" if found.verified else f"{looked} looked at"),
        ("size", "unknown" if total is None else Number(total, size(total)), "encoded"),
        ("bad samples", Number(found.num_bad, count(found.num_bad)), "of all" if found.verified else judged),
    ]  # fmt: skip
    if classes:
        of = "in all samples" if found.all_labels or _is_all(found) else "among those looked at"
        tiles.insert(2, ("classes", Number(classes, count(classes)), of))
    others = len(files_left_out(source, found.dataset))
    return section(
        "data",
        "The data",
        Part("tiles", tiles),
        warning(_not_looked_at(found)),
        warning(
            f"{counted(others, 'file')} of another kind lie there and are no samples."
            if others
            else ""
        ),
        facts(
            [
                ("data", Code(source)),
                ("format", title_of(found.dataset)),
                ("fingerprint", Code(found.dataset.fingerprint)),
                ("labels", _labels(found)),
            ]
        ),
    )


def _is_all(found: Inspection) -> bool:
    return found.length == found.num_looked_at


def _not_looked_at(found: Inspection) -> str:
    if found.verified:
        return ""
    looked = count(found.num_looked_at)
    if _is_all(found):
        what = "the headers of all samples were read, and no picture was decoded"
    elif found.length is None:
        what = f"the first {looked} samples of the stream were looked at"
    else:
        what = f"the headers of {looked} samples, spread over the data, were read, and no picture was decoded"
    return f"{what}: damage behind a header is not seen; --verify decodes all."


def _labels(found: Inspection) -> str:
    shape = label_shape_of(found.dataset)
    if shape != ():
        return described(shape)
    if not any(label >= 0 for label in found.labels):
        return "none"
    missing = found.labels[-1]
    return (
        f"class numbers; {counted(missing, 'sample')} without one" if missing else "class numbers"
    )


def _images(found: Inspection) -> Section:
    if not found.formats:
        return section("images", "Images")
    total, drawn = found.formats.total(), found.shapes.total()
    rows = []
    for name, many in found.formats.most_common():
        rows.append(_share_row(name, many, total))
        if name == "jpeg":
            rows += [
                _share_row(f"jpeg: {process}", some, total)
                for process, some in found.processes.most_common()
            ]
    jpegs = found.processes.total()
    others, without = jpegs - found.processes["baseline"], found.num_imageless
    spreads = [
        [name, count(one.lowest), *(f"{one.about}{count(one.percentile(p))}" for p in (5, 50, 95)), count(one.highest)]
        for name, one in (("height", found.heights), ("width", found.widths))
    ]  # fmt: skip
    common = [
        _share_row(f"{height}x{width}", many, total)
        for (height, width), many in found.shapes.most_common(_MOST_SHAPES)
    ]
    return section(
        "images",
        "Images",
        table(
            ["format", "", "images", "share"],
            rows,
            "Formats; of JPEGs also the process they were encoded by",
        ),
        note(
            f"{share(others, jpegs)} of the JPEGs are not baseline: on a CPU they are decoded whole, where of a "
            "baseline file only the crop is."
            if others
            else ""
        ),
        note(f"{counted(without, 'sample')} without an image." if without else ""),
        charts.shapes("Heights and widths", found.shapes, "images")
        if len(found.shapes) > 1
        else None,
        note(
            f"{share(drawn, total)} of the images are drawn: of more shapes no count is kept."
            if drawn != total
            else ""
        ),
        table(
            ["", "smallest", "5 %", "median", "95 %", "largest"],
            spreads,
            "In pixels, after EXIF orientation",
        ),
        table(
            ["shape", "", "images", "share"],
            common,
            f"The most common of {counted(len(found.shapes), 'shape')} (height x width)",
        ),
    )


def _share_row(name: str, many: int, total: int) -> list[object]:
    return [name, Bar(many / total), Number(many, count(many)), share(many, total)]


def _videos(found: Inspection) -> Section:
    looked = found.videos
    total = looked.codecs.total()
    if not total:
        return section("videos", "Videos")
    rates = {f"{rate:g}": many for rate, many in looked.rates.most_common()}
    duration, frames = seconds(looked.milliseconds.total / 1000), count(looked.frames.total)
    sizes: Part | None
    if len(looked.shapes) > 1:
        sizes = charts.shapes("Heights and widths", looked.shapes, "videos")
    else:
        [(height, width)] = looked.shapes
        sizes = facts([("frames", f"all {height}x{width} (height x width)")])
    return section(
        "videos",
        "Videos",
        _kinds("codec", looked.codecs, total),
        _kinds("frames per second", rates, total),
        facts(
            [
                ("in all", f"{duration}, {frames} frames"),
                ("with sound", f"{count(looked.num_with_audio)} of {count(total)}"),
                *peculiarity_lines(looked.peculiar),
            ]
        ),
        _spread("Durations", looked.milliseconds, lambda number: seconds(number / 1000), "videos"),
        _spread("Frames", looked.frames, count, "videos"),
        sizes,
    )


def _kinds(heading: str, counts: Mapping[str, int], total: int) -> Part | None:
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    rows = [_share_row(name, many, total) for name, many in ranked[:_MOST_KINDS]]
    others = sum(many for _, many in ranked[_MOST_KINDS:])
    if others:
        rows.append(_share_row("others", others, total))
    return table([heading, "", "videos", "share"], rows, f"Videos by {heading}")


def _spread(title: str, spread: Spread, words: Callable[[float], str], things: str) -> Part | None:
    """Return a histogram, or the one number that all have."""
    if spread.lowest == spread.highest:
        return facts([(title.lower(), f"all {words(spread.lowest)}")])
    title = title if spread.is_exact else f"{title}, rounded to 1 %"
    return charts.histogram(title, spread.lowest, spread.highest, spread.histogram, words, things)


def _classes(
    name: str, title: str, found: Inspection, numbers: Counter[int], thing: str
) -> Section:
    """Return a section about how many things each class has."""
    ranked = [(label, many) for label, many in numbers.most_common() if label >= 0 and many]
    if not ranked:
        return section(name, title)
    counts = [many for _, many in ranked]
    things = counted(2, thing).partition(" ")[2]
    is_all = _is_all(found) or (found.all_labels and thing == "sample")
    of = "" if is_all else f" among the {counted(found.num_looked_at, 'sample')} looked at"
    names = found.dataset.class_names
    absent = len(names) - len(ranked)
    ranking = f"{things.capitalize()} of each class, from the largest to the smallest"
    return section(
        name,
        title,
        note(f"{counted(len(ranked), 'class')}{of}; {_imbalance(counts, thing, things)}."),
        note(
            f"{counted(absent, 'class')} with a name and without a {thing}{of}."
            if absent > 0
            else ""
        ),
        charts.ranking(ranking, counts, things) if len(ranked) >= _ENOUGH else None,
        *_class_tables(ranked, names, things),
    )


def _imbalance(counts: Sequence[int], thing: str, things: str) -> str:
    if counts[0] == counts[-1]:
        return f"each has {counted(counts[0], thing)}"
    total = sum(counts)
    half = 1 + next(rank for rank, seen in enumerate(accumulate(counts)) if 2 * seen >= total)
    who = "the largest alone holds" if half == 1 else f"the {count(half)} largest hold"
    times = plain(counts[0] / counts[-1])
    return f"the largest has {times} times as many {things} as the smallest, and {who} half of all or more"


def _class_tables(
    ranked: Sequence[tuple[int, int]], names: Sequence[str], things: str
) -> list[Part | None]:
    most, total = ranked[0][1], sum(many for _, many in ranked)

    def of(rows: Sequence[tuple[int, int]], title: str) -> Part | None:
        cells = [
            [
                f"{label} {names[label]}" if label < len(names) else str(label),
                Bar(many / most),
                Number(many, count(many)),
                share(many, total),
            ]
            for label, many in rows
        ]
        return table(["class", "", things, "share"], cells, title)

    if len(ranked) <= 2 * _ENDS:
        return [of(ranked, "All classes")]
    listed = ranked[:_MOST_LISTED]
    what = f"All {count(len(ranked))} classes"
    if len(listed) < len(ranked):
        what = f"The largest {count(len(listed))} of {count(len(ranked))} classes"
    ends = [of(ranked[:_ENDS], "The largest"), of(ranked[-_ENDS:], "The smallest")]
    return [Part("beside", ends), folded(what, of(listed, what))]


def _fields(found: Inspection, views: Views) -> Section:
    ranked = sorted(found.fields.items(), key=lambda item: -item[1].count)
    rows = [
        [
            Code(name),
            Bar(spread.count / max(found.num_looked_at, 1)),
            share(spread.count, found.num_looked_at),
            size(spread.lowest),
            *(f"{spread.about}{size(spread.percentile(percent))}" for percent in (50, 95)),
            size(spread.highest),
            Number(spread.total, size(spread.total)),
        ]
        for name, spread in ranked[:_MOST_FIELDS]
    ]
    left = len(ranked) - len(rows)
    largest = [item for item in sorted(ranked, key=lambda item: -item[1].total) if item[1].highest]
    return section(
        "fields",
        "Fields",
        table(
            ["field", "", "in", "smallest", "median", "95 %", "largest", "in all"],
            rows,
            "Encoded fields of those looked at, by how many have them",
        ),
        note(f"and {counted(left, 'other field')}" if left else ""),
        note(views.targets_in_words()),
        *(
            _spread(f"Bytes of {name}", spread, size, "samples")
            for name, spread in largest[:_MOST_HISTOGRAMS]
            if spread.count >= _ENOUGH and spread.lowest < spread.highest
        ),
    )


def _doubled(found: Inspection) -> Section:
    def key(index: int) -> object:
        if isinstance(found.dataset, TarStream):
            return NONE
        [entry] = found.dataset.fetch([index])
        return Code(entry.key)

    rows = [
        (str(index), str(first), key(index))
        for index, first in (found.doubled or [])[:_MOST_DOUBLED]
    ]
    words = f"{counted(found.num_doubled, 'sample')} with a key that was there before."
    return section(
        "doubled",
        "Keys that come twice",
        note(words if rows else ""),
        table(["sample", "has the key of sample", "key"], rows, "The first of them"),
    )
