"""The page: one HTML file that loads nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from bench.report.bad_samples import bad_of_log, bad_section
from bench.report.data_sections import data_sections
from bench.report.elements import Note, Section, cleaned, section
from bench.report.log import RunLog, number_of, object_of
from bench.report.numbers import count
from bench.report.pictures import Views, bad_pictures, look_at_samples
from bench.report.run_sections import coverage, run_sections, setup
from readers.prepare import Inspection


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

    @property
    def sections(self) -> list[Section | None]:
        """All sections about it."""
        return data_sections(self.source, self.found, self.views)


def look_at_data(source: str, found: Inspection) -> DataLook:
    """Look at some samples of data that was inspected."""
    return DataLook(source, found, look_at_samples(found.dataset, {one.index for one in found.bad}))


def run_page(log: RunLog, look: DataLook | None, why_no_data: str = "") -> str:
    """Return a page about a run, and about its data if that was looked at.

    Args:
        log: What the run wrote.
        look: Its data.
        why_no_data: Why the data was not looked at.
    """
    bad = bad_of_log(log.bad)
    pictures = {} if look is None else bad_pictures(look.found.dataset, [one.place for one in bad])
    missing = section("data", "The data", Note(f"Not looked at: {why_no_data}."))
    sections = [
        *run_sections(log),
        bad_section("bad", "Bad samples of the run", bad, log.num_bad, pictures, why_no_data),
        coverage(log),
        setup(log),
        *([missing] if look is None else [_changed(log, look), *look.sections]),
    ]
    about = f"{log.start.get('recipe') or 'a recipe'} over {log.start.get('data') or 'data'}"
    return _render(f"Run: {log.path.name}", about, sections)


def data_page(look: DataLook) -> str:
    """Return a page about data."""
    return _render(f"Data: {look.source}", "", look.sections)


def _changed(log: RunLog, look: DataLook) -> Section | None:
    """Return a warning if the data has another length than in the run."""
    before, now = number_of(log.end or {}, "coverage", "of"), look.found.length
    of_clips = object_of(log.start, "settings").get("clips") is not None
    if not before or of_clips or now is None or now == before:
        return None
    text = f"the data has {count(now)} samples now, and had {count(before)} in the run."
    return section("changed", "Since the run", Note(text, is_warning=True))


def _render(title: str, about: str, sections: Iterable[Section | None]) -> str:
    style = resources.files("bench.report").joinpath("style.css").read_text(encoding="utf-8")
    page = _template().render(
        title=title,
        about=about,
        sections=[one for one in sections if one is not None],
        style=Markup(style),
        footer=f"Written by gpu-aug {metadata.version('gpu-aug')}. This page loads nothing.",
    )
    return cleaned(page) + "\n"


@cache
def _template() -> Template:
    loader = PackageLoader("bench.report")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(
        "page.html"
    )
