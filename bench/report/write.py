"""Looking at what a page is about, and writing it."""

import ast
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.output.arguments import check_writable
from bench.output.errors import BenchError
from bench.output.progress import samples_bar
from bench.output.quiet import hushed
from bench.output.text import print_written
from bench.report.log import Object, RunLog, is_run_log, object_of, read_log
from bench.report.page import DataLook, data_page, look_at_data, run_page
from dali_pipes import MissingPackageError
from dali_pipes.decode.check import CHECKS
from readers import ReadersError
from readers.prepare import inspect
from readers.prepare.source import open_source

_ENDINGS = (".html", ".htm")


@dataclass(frozen=True)
class Asked:
    """What the page shall tell.

    Attributes:
        verify: Look at all samples, and decode them.
        log_only: Leave the data of a log alone.
        how: Options of `readers.open_dataset`.
        allow_pipe: Whether data may be a command, which is run.
        workers: Threads; all cores when None.
    """

    verify: bool = False
    log_only: bool = False
    how: dict[str, Any] = field(default_factory=dict)
    allow_pipe: bool = False
    workers: int | None = None


def write_report(source: str, out: Path, asked: Asked) -> None:
    """Write a page about a log or about data.

    Raises:
        BenchError: The page cannot be written, or the log not be read.
        MissingPackageError: matplotlib is not installed.
        ReadersError: The data cannot be read.
    """
    check_writable(out)
    if out.suffix.lower() not in _ENDINGS:
        raise BenchError(f"a page's name must end in .html, got {out}: name it so")
    if find_spec("matplotlib") is None:
        raise MissingPackageError(
            "gpu-aug report draws its charts with matplotlib: pip install 'gpu-aug[plots]'"
        )
    if is_run_log(source):
        page = _page_of_log(Path(source), asked)
    elif asked.log_only:
        raise BenchError(f"--log-only is for the log of a run, and {source} is none: leave it out")
    else:
        page = data_page(_look(source, asked, asked.how))
    try:
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{out} cannot be written ({error.strerror}): give another name") from None
    print_written(Console(), out)


def _page_of_log(path: Path, asked: Asked) -> str:
    log = read_log(path)
    look, why = _look_at_data_of(log, asked)
    return run_page(log, look, why)


def _look_at_data_of(log: RunLog, asked: Asked) -> tuple[DataLook | None, str]:
    """The data that a log names, or why it was not looked at."""
    source = log.start.get("data")
    if asked.log_only:
        return None, "--log-only was asked for"
    if not isinstance(source, str) or not source:
        return None, "the log does not name it"
    if "://" in source or source.startswith("pipe:"):
        # A log may come from elsewhere: what it names is not asked for over a network, and no command of it is run.
        return (
            None,
            f"{source} is no file of this machine; gpu-aug report DATA writes a page about it",
        )
    try:
        return _look(source, asked, _how_in(log.start) | asked.how), ""
    except (ReadersError, MissingPackageError) as error:
        return None, str(error)


def _look(source: str, asked: Asked, how: dict[str, Any]) -> DataLook:
    console = Console()
    dataset = open_source(source, allow_pipe=asked.allow_pipe, **how)
    with hushed(), samples_bar(console) as bar:
        found = inspect(
            dataset,
            verify=CHECKS if asked.verify else None,
            num_workers=asked.workers,
            on_progress=bar,
        )
        return look_at_data(source, found)


def _how_in(start: Object) -> dict[str, Any]:
    """The options of `readers.open_dataset` that a log tells, as texts of values."""
    options = object_of(object_of(start, "settings"), "source_options")
    return {
        name: value if name in ("format", "split") else _value(value)
        for name, value in options.items()
    }


def _value(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
