"""The page: sections one below the other, in one file that loads nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata, resources

from bench.report.bad import bad_of_data, bad_of_log, bad_samples
from bench.report.data import contents
from bench.report.data.classes import boxes, classes
from bench.report.data.images import images
from bench.report.data.samples import samples
from bench.report.data.videos import videos
from bench.report.elements import note, section, warning
from bench.report.log import RunLog, number_of, object_of
from bench.report.markup import Markup, joined, tag
from bench.report.numbers import count
from bench.report.pictures import Views, bad_pictures, look_at_samples
from bench.report.run.coverage import coverage
from bench.report.run.epochs import epochs
from bench.report.run.over_time import over_time
from bench.report.run.overview import overview
from bench.report.run.setup import setup
from bench.report.run.stages import stages
from readers.prepare import Inspection

# A browser refuses whatever a page with this would load or run.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


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


def run_page(log: RunLog, look: DataLook | None, why_no_data: str = "") -> str:
    """A page about a run, and about its data where that was looked at.

    Args:
        log: What the run wrote.
        look: Its data.
        why_no_data: Why that was not looked at.
    """
    bad = bad_of_log(log.bad)
    pictures = {} if look is None else bad_pictures(look.found.dataset, [one.place for one in bad])
    sections = [
        overview(log),
        over_time(log),
        epochs(log),
        stages(log),
        bad_samples("bad", "Bad samples of the run", bad, log.num_bad, pictures, why_no_data),
        coverage(log),
        setup(log),
        *(
            [section("data", "The data", note(f"Not looked at: {why_no_data}."))]
            if look is None
            else [*_changed(log, look), *_data_sections(look)]
        ),
    ]
    about = f"{log.start.get('recipe') or 'a recipe'} over {log.start.get('data') or 'data'}"
    return _document(f"Run: {log.path.name}", about, sections)


def _changed(log: RunLog, look: DataLook) -> list[Markup]:
    """That the data is not what it was."""
    was = number_of(log.end or {}, "coverage", "of")
    of_clips = object_of(log.start, "settings").get("clips") is not None
    now = look.found.length
    if not was or of_clips or now is None or now == was:
        return []
    words = f"the data has {count(now)} samples now, and had {count(was)} in the run."
    return [section("changed", "Since the run", warning(words))]


def data_page(look: DataLook) -> str:
    """A page about data."""
    return _document(f"Data: {look.source}", "", _data_sections(look))


def _data_sections(look: DataLook) -> list[Markup]:
    found, dataset = look.found, look.found.dataset
    bad = bad_of_data(found.bad)
    pictures = bad_pictures(dataset, [one.place for one in bad])
    heading = "Bad samples" if found.verified else "Bad samples, by headers alone"
    return [
        contents.overview(look.source, found),
        samples(look.views, dataset.class_names),
        images(found),
        videos(found),
        classes(found),
        boxes(found),
        contents.fields(found, look.views),
        bad_samples("broken", heading, bad, found.num_bad, pictures),
        *_damaged(found),
        contents.doubled(found),
    ]


def _damaged(found: Inspection) -> list[Markup]:
    """Images that decode with pixels that may be wrong."""
    if not found.damaged:
        return []
    damaged = bad_of_data(found.damaged)
    pictures = bad_pictures(found.dataset, [one.place for one in damaged])
    heading, noun = "Damaged images that decode", "damaged image"
    return [bad_samples("damaged", heading, damaged, found.num_damaged, pictures, noun=noun)]


def _document(title: str, about: str, sections: Sequence[Markup]) -> str:
    style = resources.files("bench.report").joinpath("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    header = tag("header", tag("h1", title), tag("p", about) if about else "")
    body = tag(
        "body",
        header,
        _contents(sections),
        tag("main", *sections),
        tag(
            "footer",
            f"Written by gpu-aug {metadata.version('gpu-aug')}, {made}. This page loads nothing.",
        ),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _contents(sections: Sequence[Markup]) -> Markup:
    """Links to the sections."""
    links = []
    for one in sections:
        if one:
            name = one.partition('id="')[2].partition('"')[0].removesuffix("-h")
            heading = Markup(one.partition(">")[2].partition(">")[2].partition("<")[0])
            links.append(tag("li", tag("a", heading, href=f"#{name}")))
    return tag("nav", tag("ul", joined(*links)), aria_label="Sections")
