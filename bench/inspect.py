"""What is in the data, before anybody trains on it."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.arguments import check_writable
from bench.compare.report import write_json
from bench.crew import Crew, checked_workers
from bench.errors import BenchError
from bench.inspect_show import show, to_dict
from bench.inspect_survey import survey
from bench.progress import samples_bar
from bench.quiet import hushed
from bench.source import open_source, show_others, title_of


@dataclass(frozen=True)
class InspectSettings:
    """How to look.

    Attributes:
        verify: Look at every entry and decode every image.
        format: Name of the format, where the source does not tell it.
        allow_pipe: Whether ``pipe:`` sources may run their commands.
    """

    verify: bool = False
    format: str | None = None
    allow_pipe: bool = False


def inspect_and_show(
    source: str, settings: InspectSettings, *, num_workers: int | None, json_path: Path | None
) -> bool:
    """Look at the data, and print what is there.

    Returns:
        Whether nothing is wrong with what was looked at.

    Raises:
        BenchError: A result cannot be written.
        readers.ReadersError: There is nothing to read.
    """
    check_writable(json_path)
    workers = checked_workers(num_workers)
    dataset = open_source(source, format=settings.format, allow_pipe=settings.allow_pipe)
    console = Console()
    with Crew(workers) as crew, hushed(), samples_bar(console) as bar:
        task = bar.add_task("", total=None)
        found = survey(
            dataset,
            crew,
            verify=settings.verify,
            on_progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    show(source, dataset, title_of(dataset), found, console)
    show_others(source, dataset, console)
    if json_path:
        try:
            write_json(json_path, to_dict(source, dataset, title_of(dataset), found))
        except OSError as error:
            raise BenchError(f"{json_path} cannot be written ({error.strerror})") from None
    return found.num_bad == 0
