"""What is in the data, and what was not looked at."""

from bench.report.charts.bars import bar
from bench.report.charts.histogram import NUM_BINS, histogram
from bench.report.charts.scale import Scale
from bench.report.elements import code, data, facts, note, section, table, tiles, warning
from bench.report.markup import Markup, joined
from bench.report.numbers import NONE, count, share, size
from bench.report.pictures import Views
from readers.formats.stream import TarStream
from readers.label_vector import described, label_shape_of
from readers.plural import counted
from readers.prepare import Inspection
from readers.prepare.percentiles import Spread
from readers.prepare.source import files_left_out, title_of

_MOST_FIELDS = 40
_MOST_DOUBLED = 20
_MOST_HISTOGRAMS = 3
_ENOUGH = 12  # samples, for a histogram to tell more than the table


def overview(source: str, found: Inspection) -> Markup:
    """How much there is, and of how much of it the page tells."""
    length = found.length
    total = found.total_bytes
    classes = sum(label >= 0 for label in found.labels)
    entries = [
        ("samples", "unknown" if length is None else data(length, count(length)), _looked(found)),
        ("size", "unknown" if total is None else data(total, size(total)), "encoded"),
        ("bad samples", data(found.num_bad, count(found.num_bad)), _judged(found)),
    ]
    if classes:
        entries.insert(2, ("classes", data(classes, count(classes)), _of(found)))
    others = files_left_out(source, found.dataset)
    return section(
        "data",
        "The data",
        tiles(entries),
        _not_looked_at(found),
        warning(f"{counted(len(others), 'file')} of another kind lie there and are no samples.")
        if others
        else "",
        facts(
            [
                ("data", code(source)),
                ("format", title_of(found.dataset)),
                ("fingerprint", code(found.dataset.fingerprint)),
                ("labels", _labels(found)),
            ]
        ),
    )


def fields(found: Inspection, views: Views) -> Markup:
    """The fields of samples, with their sizes, and the targets among them."""
    ranked = sorted(found.fields.items(), key=lambda item: -item[1].count)
    rows = [_field(name, spread, found) for name, spread in ranked[:_MOST_FIELDS]]
    left = len(ranked) - len(rows)
    largest = [item for item in sorted(ranked, key=lambda item: -item[1].total) if item[1].highest]
    return section(
        "fields",
        "Fields",
        table(
            ["field", "", "in", "smallest", "median", "95 %", "largest", "in all"],
            rows,
            caption="Encoded fields of those looked at, by how many have them",
        ),
        note(f"and {counted(left, 'other field')}") if left else "",
        _targets(views),
        *(_bytes(name, spread) for name, spread in largest[:_MOST_HISTOGRAMS]),
    )


def doubled(found: Inspection) -> Markup:
    """Samples whose key another one has."""
    if not found.doubled:
        return Markup()
    rows = [
        (str(index), str(first), _key(found, index))
        for index, first in found.doubled[:_MOST_DOUBLED]
    ]
    return section(
        "doubled",
        "Keys that come twice",
        note(f"{counted(found.num_doubled, 'sample')} with a key that was there before."),
        table(["sample", "has the key of sample", "key"], rows, caption="The first of them"),
    )


def _key(found: Inspection, index: int) -> Markup:
    if isinstance(found.dataset, TarStream):
        return Markup(NONE)
    [entry] = found.dataset.fetch([index])
    return code(entry.key)


def _looked(found: Inspection) -> str:
    if found.verified:
        return "all decoded"
    return f"{count(found.num_looked_at)} looked at"


def _judged(found: Inspection) -> str:
    if found.verified:
        return "of all"
    if found.length == found.num_looked_at:
        return "by their headers alone"
    return f"among {count(found.num_looked_at)}, by their headers alone"


def _of(found: Inspection) -> str:
    is_all = found.all_labels or found.length == found.num_looked_at
    return "in all samples" if is_all else "among those looked at"


def _not_looked_at(found: Inspection) -> Markup:
    """What this page does not know."""
    if found.verified:
        return Markup()
    if found.length == found.num_looked_at:
        what = "the headers of all samples were read, and no picture was decoded"
    elif found.length is None:
        what = f"the first {count(found.num_looked_at)} samples of the stream were looked at"
    else:
        what = (
            f"the headers of {count(found.num_looked_at)} samples, spread over the data, were read, and no "
            "picture was decoded"
        )
    return warning(f"{what}: damage behind a header is not seen; --verify decodes all.")


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


def _field(name: str, spread: Spread, found: Inspection) -> list[object]:
    middle, high = (f"{spread.about}{size(spread.percentile(one))}" for one in (50, 95))
    return [
        code(name),
        bar(spread.count / max(found.num_looked_at, 1)),
        share(spread.count, found.num_looked_at),
        size(spread.lowest),
        middle,
        high,
        size(spread.highest),
        data(spread.total, size(spread.total)),
    ]


def _targets(views: Views) -> Markup:
    if not views.num_counted:
        return Markup()
    told = [
        f"{views.objects[name]} {name} in {counted(number, 'sample')}"
        for name, number in views.targets.items()
    ]
    what = ", ".join(told) or "no boxes, keypoints or masks"
    return joined(note(f"Of {counted(views.num_counted, 'sample')} spread over the data: {what}."))


def _bytes(name: str, spread: Spread) -> Markup:
    if spread.count < _ENOUGH or spread.lowest == spread.highest:
        return Markup()
    scale = Scale.around(spread.lowest, spread.highest)
    edges = scale.edges(NUM_BINS)
    return histogram(
        f"Bytes of {name}",
        scale,
        edges,
        spread.histogram(edges),
        words=size,
        thing="sample",
        caption="" if spread.is_exact else "Sizes are rounded to 1 %.",
    )
