"""Write a page about a run or about data: one HTML file that loads nothing."""

from dataclasses import dataclass, field
from functools import cache
from importlib import metadata, resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from rich.console import Console

from bench.output.arguments import check_output, source_options
from bench.output.errors import BenchError
from bench.output.progress import samples_bar
from bench.output.quiet import hushed
from bench.output.text import print_written
from bench.report import numbers
from bench.report.data_values import bad_of_log, bad_values, data_values
from bench.report.log import Object, RunLog, is_run_log, number_of, object_of, read_log
from bench.report.run_values import run_values
from dali_pipes import MissingPackageError
from dali_pipes.decode.check import CHECKS
from readers import ReadersError
from readers.plural import counted
from readers.prepare import Inspection, inspect
from readers.prepare.source import open_source

_ENDINGS = (".html", ".htm")


@dataclass(frozen=True)
class Asked:
    """Options for a page.

    Attributes:
        verify: Whether to read and decode all samples.
        log_only: Whether to show only the log of a run, without inspecting the data.
        how: Keyword arguments of `readers.open_dataset`.
        allow_pipe: Whether the data may be given as a command, which is then run.
        workers: Count of threads; None uses all cores.
    """

    verify: bool = False
    log_only: bool = False
    how: dict[str, Any] = field(default_factory=dict)
    allow_pipe: bool = False
    workers: int | None = None


def write_report(source: str, out: Path, asked: Asked) -> None:
    """Write a page about a log or about data.

    Raises:
        BenchError: The page cannot be written, or the log cannot be read.
        MissingPackageError: matplotlib is not installed.
        ReadersError: The data cannot be read.
    """
    check_output(out, _ENDINGS, "page")
    if find_spec("matplotlib") is None:
        raise MissingPackageError(
            "gpu-aug report draws its charts with matplotlib: pip install 'gpu-aug[plots]'"
        )
    if is_run_log(source):
        log = read_log(Path(source))
        page = run_page(log, *_inspect_data_of(log, asked))
    elif asked.log_only:
        raise BenchError(f"--log-only is for the log of a run, and {source} is none: leave it out")
    else:
        page = data_page(source, _inspect(source, asked, asked.how))
    try:
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{out} cannot be written ({error.strerror}): give another name") from None
    print_written(Console(), out)


def run_page(log: RunLog, found: Inspection | None, why_no_data: str = "") -> str:
    """Return the HTML of a page about a run, and about its data if the data was inspected.

    Args:
        log: The log of the run.
        found: The result of an inspection of the run's data; None if the data was not inspected.
        why_no_data: The reason why the data was not inspected; "" if it was.
    """
    bad = bad_of_log(log.bad)
    dataset = found.dataset if found else None
    values = run_values(log) | {"bad": bad_values(list(bad), log.num_bad, dataset, bad)}
    values |= {"why_no_data": why_no_data, "length_before": 0}
    if found is not None:
        values |= data_values(str(log.start["data"]), found)
        # For clips, coverage counts clips instead of samples.
        if object_of(log.start, "settings").get("clips") is None:
            values["length_before"] = number_of(log.end or {}, "coverage", "of")
    about = f"{log.start.get('recipe') or 'a recipe'} over {log.start.get('data') or 'data'}"
    return _render(f"Run: {log.path.name}", about, values)


def data_page(source: str, found: Inspection) -> str:
    """Return the HTML of a page about data."""
    return _render(f"Data: {source}", "", {"log": None, **data_values(source, found)})


def _render(title: str, about: str, values: dict[str, Any]) -> str:
    style = resources.files("bench.report").joinpath("style.css").read_text(encoding="utf-8")
    page = _template().render(
        {"found": None, **values, "contents": []},
        title=title,
        about=about,
        style=Markup(style),
        footer=f"Written by gpu-aug {metadata.version('gpu-aug')}. This page loads nothing.",
    )
    return numbers.cleaned(page) + "\n"


@cache
def _template() -> Template:
    page = Environment(
        loader=PackageLoader("bench.report"),
        extensions=["jinja2.ext.do"],
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("count", "plain", "seconds", "share", "size")
    page.globals |= {name: getattr(numbers, name) for name in names}
    page.globals |= {"counted": counted, "number": number_of}
    page.tests["numeric"] = lambda cell: isinstance(cell, int | numbers.Number | numbers.Share)
    return page.get_template("page.html")


def _inspect_data_of(log: RunLog, asked: Asked) -> tuple[Inspection | None, str]:
    """Return the inspection of a log's data, or None and the reason."""
    source = log.start.get("data")
    if asked.log_only:
        return None, "--log-only was asked for"
    if not isinstance(source, str) or not source:
        return None, "the log does not name it"
    if "://" in source or source.startswith("pipe:"):
        # A log may come from an untrusted place: its URLs are not requested, and its commands are not run.
        return (
            None,
            f"{source} is no file of this machine; gpu-aug report DATA writes a page about it",
        )
    try:
        return _inspect(source, asked, _how_in(log.start) | asked.how), ""
    except (BenchError, ReadersError, MissingPackageError) as error:
        return None, str(error)


def _inspect(source: str, asked: Asked, how: dict[str, Any]) -> Inspection:
    dataset = open_source(source, allow_pipe=asked.allow_pipe, **how)
    checks = CHECKS if asked.verify else None
    with hushed(), samples_bar(Console()) as bar:
        return inspect(dataset, verify=checks, num_workers=asked.workers, on_progress=bar)


def _how_in(start: Object) -> dict[str, Any]:
    """Return the options of `readers.open_dataset` in a log, which stores them as text."""
    stored = object_of(object_of(start, "settings"), "source_options")
    options = {name: str(value) for name, value in stored.items()}
    format, split = options.pop("format", None), options.pop("split", None)
    return source_options(format, split, [f"{name}={text}" for name, text in options.items()])
