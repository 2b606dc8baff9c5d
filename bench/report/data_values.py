"""Compute from an inspection the values that the template data.html shows about data, and show its bad samples."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from bench.output.quiet import hushed
from bench.report.charts import size_chart
from bench.report.log import Object, number_of
from bench.report.numbers import NONE, Number, Share, count, plain, seconds, size
from bench.report.pictures import Card, bad_pictures, look_at_samples
from readers import BadSample, Dataset
from readers.formats.stream import TarStream
from readers.labels.label_vector import described, label_shape_of
from readers.plural import counted
from readers.prepare import Inspection
from readers.prepare.inspection.percentiles import Spread
from readers.prepare.source import files_left_out, title_of
from readers.video.info import peculiarity_lines

_MOST_ROWS = 12  # largest number of rows in a table of kinds
_MOST_FIELDS = 40
_MOST_DOUBLED = 20
_MOST_CLASSES = 2000  # largest number of rows in the folded table, to keep the page small

Rows = list[tuple[object, ...]]

_MOST_LISTED = 500
_MOST_REASONS = 12
_MOST_LETTERS = 300  # largest length of a reason


def bad_of_log(records: Sequence[Object]) -> dict[BadSample, tuple[str, int]]:
    """Return the bad samples of a run; for each, where it was first met, and how often it was met."""
    met: dict[tuple[int, str], list[Object]] = {}
    for record in records:
        sample = int(number_of(record, "index")), str(record.get("key", ""))
        met.setdefault(sample, []).append(record)
    found = {}
    for sample, [first, *others] in met.items():
        stage: Any = str(first.get("stage", ""))
        bad = BadSample(*sample, stage, str(first.get("reason", "")))
        where = f"epoch {int(number_of(first, 'epoch'))}, step {int(number_of(first, 'step'))}"
        kept = ", kept" if first.get("kept") is True else ""
        found[bad] = where + kept, 1 + len(others)
    return found


def bad_values(
    given: Sequence[BadSample],
    num_bad: int,
    dataset: Dataset | TarStream | None,
    met: Mapping[BadSample, tuple[str, int]],
) -> dict[str, Any]:
    """Return the values that the page's section of bad samples shows.

    Args:
        given: The samples, without duplicates.
        num_bad: Count of all bad samples; `given` may only have the first of these.
        dataset: The dataset from which pictures of the samples are drawn; None shows no pictures.
        met: For a run, where each sample was first met, and how often it was met; empty for data.
    """
    bad = [replace(one, reason=_shortened(one.reason)) for one in given]
    pictures = bad_pictures(dataset, bad) if dataset is not None else []
    cards = [
        Card(one.key, f"{one.stage}: {one.reason}", picture)
        for one, picture in zip(bad, pictures, strict=False)
        if not picture.fault
    ]
    reasons = Counter((one.stage, one.reason) for one in bad)
    num_listed = sum(many for _, many in met.values()) if met else len(bad)
    return {
        "bad": bad,
        "num_unlisted": max(num_bad - num_listed, 0),
        "num_reasons": len(reasons),
        "reasons": [
            (stage, count(many), Share(many, len(bad)), reason)
            for (stage, reason), many in reasons.most_common(_MOST_REASONS)
        ],
        "num_tried": len(pictures),
        "cards": cards,
        "rows": [
            (one.index, one.key, one.stage, one.reason, *met.get(original, ()))
            for one, original in zip(bad[:_MOST_LISTED], given, strict=False)
        ],
        "was_run": bool(met),
    }


def _shortened(reason: str) -> str:
    return reason if len(reason) <= _MOST_LETTERS else reason[: _MOST_LETTERS - 1] + "…"


def data_values(source: str, found: Inspection) -> dict[str, Any]:
    """Return the values of the template by name.

    Args:
        source: The name of the data, as the user gave it.
        found: The result of an inspection.
    """
    with hushed():
        views = look_at_samples(found.dataset, {one.index for one in found.bad})
    is_all = found.length == found.num_looked_at
    return {
        "source": source,
        "found": found,
        "views": views,
        "is_all": is_all,
        "num_classes": sum(label >= 0 for label in found.labels),
        "num_left_out": len(files_left_out(source, found.dataset)),
        "facts": [
            ("data", source),
            ("format", title_of(found.dataset)),
            ("fingerprint", found.dataset.fingerprint),
            ("labels", _labels(found)),
        ],
        "format_rows": _format_rows(found),
        "shape_chart": size_chart("Heights and widths", found.shapes)
        if len(found.shapes) > 1
        else None,
        "side_rows": [_percentiles("height", found.heights), _percentiles("width", found.widths)]
        if found.formats
        else [],
        "shape_rows": _kinds(_by_name(found.shapes)),
        **_video_rows(found),
        "classes": [
            _classes("sample", found, found.labels, is_all=found.all_labels or is_all),
            _classes("box", found, found.boxes, is_all=is_all),
        ],
        **_fields(found),
        "broken": bad_values(found.bad, found.num_bad, found.dataset, {}),
        "damaged": bad_values(found.damaged, found.num_damaged, found.dataset, {}),
        "doubled_rows": [
            (index, first, _key(found, index))
            for index, first in (found.doubled or [])[:_MOST_DOUBLED]
        ],
    }


def _labels(found: Inspection) -> str:
    shape = label_shape_of(found.dataset)
    if shape != ():
        return described(shape)
    if not any(label >= 0 for label in found.labels):
        return "none"
    missing = found.labels[-1]
    return "class numbers" + (f"; {counted(missing, 'sample')} without one" if missing else "")


def _format_rows(found: Inspection) -> Rows:
    """Return the formats of images; JPEG is followed by the encoding processes of its files."""
    total = found.formats.total()
    rows: Rows = []
    for name, many in found.formats.most_common():
        rows.append((name, count(many), Share(many, total)))
        if name == "jpeg":
            processes = found.processes.most_common()
            rows += [(f"jpeg: {one}", count(some), Share(some, total)) for one, some in processes]
    return rows


def _percentiles(name: str, spread: Spread, words: Any = count) -> tuple[object, ...]:
    """Return a row of a table: name, smallest value, 5 %, median, 95 % and largest value."""
    inner = [
        Number(f"{spread.about}{words(spread.percentile(percent))}") for percent in (5, 50, 95)
    ]
    return name, words(spread.lowest), *inner, words(spread.highest)


def _kinds(numbers: Mapping[str, int]) -> Rows:
    """Return rows for the most common kinds with their counts, and a row for all others together."""
    total = sum(numbers.values())
    ranked = Counter(numbers).most_common()
    named = [*ranked[:_MOST_ROWS], ("others", sum(many for _, many in ranked[_MOST_ROWS:]))]
    return [(name, count(many), Share(many, total)) for name, many in named if many]


def _by_name(shapes: Mapping[tuple[int, int], int]) -> dict[str, int]:
    return {f"{height}x{width}": many for (height, width), many in shapes.items()}


def _video_rows(found: Inspection) -> dict[str, Any]:
    videos = found.videos
    if not videos.codecs:
        return {"video_kinds": {}, "video_spreads": [], "video_facts": []}
    total = videos.codecs.total()
    length = f"{seconds(videos.milliseconds.total / 1000)}, {count(videos.frames.total)} frames"
    return {
        "video_kinds": {
            "codec": _kinds(videos.codecs),
            "frames per second": _kinds({f"{rate:g}": many for rate, many in videos.rates.items()}),
            "shape (height x width)": _kinds(_by_name(videos.shapes)),
        },
        "video_spreads": [
            _percentiles("duration", videos.milliseconds, lambda one: seconds(one / 1000)),
            _percentiles("frames", videos.frames),
        ],
        "video_facts": [
            ("in all", length),
            ("with sound", f"{count(videos.num_with_audio)} of {count(total)}"),
            *peculiarity_lines(videos.peculiar),
        ],
    }


def _classes(
    thing: str, found: Inspection, numbers: Counter[int], *, is_all: bool
) -> dict[str, Any] | None:
    """Return the counts of samples or boxes per class, and how unequal these are; None if nothing was counted."""
    names = found.dataset.class_names
    ranked = [
        (f"{label} {names[label]}" if label < len(names) else str(label), many)
        for label, many in numbers.most_common()
        if label >= 0 and many
    ]
    if not ranked:
        return None
    counts, things = [many for _, many in ranked], counted(2, thing).partition(" ")[2]
    total = sum(counts)
    return {
        "thing": thing,
        "things": things,
        "of": "" if is_all else f" among the {counted(found.num_looked_at, 'sample')} looked at",
        "num": len(ranked),
        "num_absent": max(len(names) - len(ranked), 0),
        "imbalance": _imbalance(counts, thing, things),
        "rows": [(name, count(many), Share(many, total)) for name, many in ranked],
        "listed": [(name, count(many)) for name, many in ranked[:_MOST_CLASSES]],
    }


def _imbalance(counts: Sequence[int], thing: str, things: str) -> str:
    if counts[0] == counts[-1]:
        return f"each has {counted(counts[0], thing)}"
    total = sum(counts)
    half = 1 + next(rank for rank, seen in enumerate(accumulate(counts)) if 2 * seen >= total)
    who = "the largest alone holds" if half == 1 else f"the {count(half)} largest hold"
    times = plain(counts[0] / counts[-1])
    return f"the largest has {times} times as many {things} as the smallest, and {who} half of all or more"


def _fields(found: Inspection) -> dict[str, Any]:
    ranked = sorted(found.fields.items(), key=lambda item: -item[1].count)
    looked_at = found.num_looked_at
    rows = [
        (*_percentiles(name, spread, size), size(spread.total), Share(spread.count, looked_at))
        for name, spread in ranked[:_MOST_FIELDS]
    ]
    return {"field_rows": rows, "num_more_fields": max(len(ranked) - _MOST_FIELDS, 0)}


def _key(found: Inspection, index: int) -> str:
    if isinstance(found.dataset, TarStream):
        return NONE
    [entry] = found.dataset.fetch([index])
    return entry.key
