"""The sections about data, made from an inspection."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

from bench.report.bad_samples import bad_of_data, bad_section
from bench.report.charts import density_chart, histogram, ranking_chart
from bench.report.elements import (
    Card,
    Gallery,
    Note,
    Part,
    Section,
    Share,
    Tiles,
    facts,
    note,
    section,
    table,
)
from bench.report.numbers import NONE, count, plain, seconds, share, size
from bench.report.pictures import Views, bad_pictures
from readers.formats.stream import TarStream
from readers.label_vector import described, label_shape_of
from readers.plural import counted
from readers.prepare import Inspection
from readers.prepare.percentiles import Spread
from readers.prepare.source import files_left_out, title_of
from readers.video.info import peculiarity_lines

_MOST_ROWS = 12  # of a table of kinds
_MOST_FIELDS = 40
_MOST_DOUBLED = 20
_MOST_HISTOGRAMS = 3
_ENOUGH = 12  # samples or classes: below, the table alone tells more than a chart
_ENDS = 10  # largest and smallest classes
_MOST_CLASSES = 2000  # rows of the folded table, which keep the page small


def data_sections(source: str, found: Inspection, views: Views) -> list[Section | None]:
    """Return all sections about data.

    Args:
        source: How the data was named.
        found: What an inspection found in it.
        views: Some of its samples.
    """
    is_all = found.length == found.num_looked_at
    bad, damaged = bad_of_data(found.bad), bad_of_data(found.damaged)
    pictures = bad_pictures(found.dataset, [one.place for one in [*bad, *damaged]])
    heading = "Bad samples" if found.verified else "Bad samples, by headers alone"
    return [
        _overview(source, found),
        _samples(views, found.dataset.class_names),
        _images(found),
        _videos(found),
        _classes("classes", found, found.labels, "sample", is_all=found.all_labels or is_all),
        _classes("boxes", found, found.boxes, "box", is_all=is_all),
        _fields(found, views),
        bad_section("broken", heading, bad, found.num_bad, pictures),
        bad_section(
            "damaged",
            "Damaged images that decode",
            damaged,
            found.num_damaged,
            pictures,
            noun="damaged image",
        )
        if damaged
        else None,
        _doubled(found),
    ]


def _overview(source: str, found: Inspection) -> Section | None:
    length, total, looked = found.length, found.total_bytes, count(found.num_looked_at)
    is_all = length == found.num_looked_at
    classes = sum(label >= 0 for label in found.labels)
    among = "of all" if is_all else f"among {looked}"
    entries = [
        (
            "samples",
            "unknown" if length is None else count(length),
            "all decoded" if found.verified else f"{looked} looked at",
        ),
        ("size", "unknown" if total is None else size(total), "encoded"),
        (
            "bad samples",
            count(found.num_bad),
            "of all" if found.verified else f"{among}, by headers alone",
        ),
    ]
    if classes:
        of = "in all samples" if is_all or found.all_labels else "among those looked at"
        entries.insert(2, ("classes", count(classes), of))
    others = files_left_out(source, found.dataset)
    left_out = f"{counted(len(others), 'file')} of another kind lie there and are no samples."
    return section(
        "data",
        "The data",
        Tiles(entries),
        _not_looked_at(found),
        Note(left_out, is_warning=True) if others else None,
        facts(
            "What it is",
            [
                ("data", source),
                ("format", title_of(found.dataset)),
                ("fingerprint", found.dataset.fingerprint),
                ("labels", _labels(found)),
            ],
        ),
    )


def _not_looked_at(found: Inspection) -> Part | None:
    if found.verified:
        return None
    looked = count(found.num_looked_at)
    if found.length == found.num_looked_at:
        what = "the headers of all samples were read"
    elif found.length is None:
        what = f"the headers of the first {looked} samples of the stream were read"
    else:
        what = f"the headers of {looked} samples, spread over the data, were read"
    text = (
        f"{what}, and no picture was decoded: damage behind a header is not seen; --verify "
        "decodes all."
    )
    return Note(text, is_warning=True)


def _labels(found: Inspection) -> str:
    shape = label_shape_of(found.dataset)
    if shape != ():
        return described(shape)
    if not any(label >= 0 for label in found.labels):
        return "none"
    missing = found.labels[-1]
    return "class numbers" + (f"; {counted(missing, 'sample')} without one" if missing else "")


def _samples(views: Views, class_names: Sequence[str]) -> Section | None:
    cards = []
    for view in views.shown:
        known = 0 <= view.label < len(class_names)
        label = class_names[view.label] if known else str(view.label) if view.label >= 0 else ""
        cards.append(Card(view.key, ", ".join(filter(None, (label, view.words))), view.picture))
    return section("samples", "Samples", Gallery(cards)) if cards else None


def _images(found: Inspection) -> Section | None:
    if not found.formats:
        return None
    total, shapes, processes = found.formats.total(), found.shapes, found.processes
    formats = []
    for name, many in found.formats.most_common():
        formats.append((name, count(many), Share(many, total)))
        if name == "jpeg":
            formats += [
                (f"jpeg: {process}", count(some), Share(some, total))
                for process, some in processes.most_common()
            ]
    others = share(processes.total() - processes["baseline"], processes.total())
    named = {f"{height}x{width}": many for (height, width), many in shapes.items()}
    return section(
        "images",
        "Images",
        table(
            "Formats; of JPEGs also the process they were encoded by",
            ["format", "images", "share"],
            formats,
        ),
        note(
            f"{others} of the JPEGs are not baseline: a CPU decodes them in full, of a baseline file only the crop.",
            when=processes.total() > processes["baseline"],
        ),
        note(
            f"{counted(found.num_imageless, 'sample')} without an image.", when=found.num_imageless
        ),
        density_chart("Heights and widths", shapes, "images") if len(shapes) > 1 else None,
        note(
            f"{share(shapes.total(), total)} of the images are drawn: of more shapes no count is kept.",
            when=shapes.total() != total,
        ),
        table(
            "In pixels, after EXIF orientation",
            ["", "smallest", "5 %", "median", "95 %", "largest"],
            [_spread("height", found.heights), _spread("width", found.widths)],
        ),
        _kinds("shape (height x width)", named, "images", total),
    )


def _spread(name: str, spread: Spread) -> list[object]:
    percentiles = [f"{spread.about}{count(spread.percentile(one))}" for one in (5, 50, 95)]
    return [name, count(spread.lowest), *percentiles, count(spread.highest)]


def _kinds(kind: str, numbers: Mapping[str, int], things: str, total: int) -> Part | None:
    ranked = sorted(numbers.items(), key=lambda item: -item[1])
    rows = [(name, count(many), Share(many, total)) for name, many in ranked[:_MOST_ROWS]]
    others = sum(many for _, many in ranked[_MOST_ROWS:])
    if others:
        rows.append(("others", count(others), Share(others, total)))
    return table(f"{things.capitalize()} by {kind}", [kind, things, "share"], rows)


def _videos(found: Inspection) -> Section | None:
    looked = found.videos
    if not looked.codecs:
        return None
    total, durations = looked.codecs.total(), looked.milliseconds
    rates = {f"{rate:g}": many for rate, many in looked.rates.items()}
    shapes = {f"{height}x{width}": many for (height, width), many in looked.shapes.items()}
    lasted = f"{seconds(durations.total / 1000)}, {count(looked.frames.total)} frames"
    return section(
        "videos",
        "Videos",
        _kinds("codec", looked.codecs, "videos", total),
        _kinds("frames per second", rates, "videos", total),
        _kinds("shape (height x width)", shapes, "videos", total),
        facts(
            "All videos together",
            [
                ("in all", lasted),
                ("with sound", f"{count(looked.num_with_audio)} of {count(total)}"),
                *peculiarity_lines(looked.peculiar),
            ],
        ),
        _histogram("Durations", durations, x="seconds", y="videos", unit=1000),
        _histogram("Frames", looked.frames, x="frames", y="videos"),
    )


def _histogram(title: str, spread: Spread, *, x: str, y: str, unit: float = 1) -> Part:
    if spread.lowest == spread.highest:
        return Note(f"{title}: all {plain(spread.lowest / unit)} {x}.")
    return histogram(title, spread, x=x, y=y, unit=unit)


def _classes(
    name: str, found: Inspection, numbers: Counter[int], thing: str, *, is_all: bool
) -> Section | None:
    """Return how many things each class has, and how far the classes are apart."""
    names = found.dataset.class_names
    ranked = [
        (f"{label} {names[label]}" if label < len(names) else str(label), many)
        for label, many in numbers.most_common()
        if label >= 0 and many
    ]
    if not ranked:
        return None
    counts = [many for _, many in ranked]
    things = counted(2, thing).partition(" ")[2]
    of = "" if is_all else f" among the {counted(found.num_looked_at, 'sample')} looked at"
    absent = len(names) - len(ranked)
    chart = f"{things.capitalize()} of each class, from the largest to the smallest"
    return section(
        name,
        "Classes" if thing == "sample" else "Boxes per class",
        note(f"{counted(len(ranked), 'class')}{of}; {_imbalance(counts, thing, things)}."),
        note(f"{counted(absent, 'class')} with a name and without a {thing}{of}.", when=absent > 0),
        ranking_chart(chart, counts, things) if len(ranked) >= _ENOUGH else None,
        *_class_tables(ranked, things),
    )


def _imbalance(counts: Sequence[int], thing: str, things: str) -> str:
    if counts[0] == counts[-1]:
        return f"each has {counted(counts[0], thing)}"
    total = sum(counts)
    half = 1 + next(rank for rank, seen in enumerate(accumulate(counts)) if 2 * seen >= total)
    who = "the largest alone holds" if half == 1 else f"the {count(half)} largest hold"
    times = plain(counts[0] / counts[-1])
    return f"the largest has {times} times as many {things} as the smallest, and {who} half of all or more"


def _class_tables(ranked: Sequence[tuple[str, int]], things: str) -> list[Part | None]:
    total = sum(many for _, many in ranked)
    rows = [(name, count(many), Share(many, total)) for name, many in ranked]
    headings = ["class", things, "share"]
    if len(rows) <= 2 * _ENDS:
        return [table("All classes", headings, rows)]
    what = f"All {count(len(rows))} classes"
    if len(rows) > _MOST_CLASSES:
        what = f"The largest {count(_MOST_CLASSES)} of {count(len(rows))} classes"
    plain_rows = [(name, number) for name, number, _ in rows[:_MOST_CLASSES]]
    return [
        table("The largest classes", headings, rows[:_ENDS]),
        table("The smallest classes", headings, rows[-_ENDS:]),
        table(what, headings[:2], plain_rows, folded=True),
    ]


def _fields(found: Inspection, views: Views) -> Section | None:
    ranked = sorted(found.fields.items(), key=lambda item: -item[1].count)
    left = len(ranked) - _MOST_FIELDS
    rows = [
        (
            name,
            Share(spread.count, found.num_looked_at),
            size(spread.lowest),
            *(f"{spread.about}{size(spread.percentile(one))}" for one in (50, 95)),
            size(spread.highest),
            size(spread.total),
        )
        for name, spread in ranked[:_MOST_FIELDS]
    ]
    drawn = [
        (name, spread)
        for name, spread in sorted(ranked, key=lambda item: -item[1].total)
        if spread.count >= _ENOUGH and spread.lowest != spread.highest
    ]
    targets = ", ".join(
        f"{views.objects[name]} {name} in {counted(number, 'sample')}"
        for name, number in views.targets.items()
    )
    return section(
        "fields",
        "Fields",
        table(
            "Encoded fields of those looked at, by how many have them",
            ["field", "in", "smallest", "median", "95 %", "largest", "in all"],
            rows,
        ),
        note(f"and {counted(left, 'other field')}.", when=left > 0),
        note(
            f"Of {counted(views.num_counted, 'sample')} spread over the data: "
            f"{targets or 'no boxes, keypoints or masks'}.",
            when=views.num_counted,
        ),
        *(
            histogram(f"Bytes of {name}", spread, x="kB", y="samples", unit=1000)
            for name, spread in drawn[:_MOST_HISTOGRAMS]
        ),
    )


def _doubled(found: Inspection) -> Section | None:
    if not found.doubled:
        return None
    rows = [(index, first, _key(found, index)) for index, first in found.doubled[:_MOST_DOUBLED]]
    return section(
        "doubled",
        "Keys that come twice",
        note(f"{counted(found.num_doubled, 'sample')} with a key that was there before."),
        table("The first of them", ["sample", "has the key of sample", "key"], rows),
    )


def _key(found: Inspection, index: int) -> str:
    if isinstance(found.dataset, TarStream):
        return NONE
    [entry] = found.dataset.fetch([index])
    return entry.key
