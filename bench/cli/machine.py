"""Define the commands for this machine and its cache: warm, cache and doctor."""

from typing import Annotated

import typer

from bench.cli.options import Processes


def warm(workers: Processes = None) -> None:
    """Compile all of our functions ahead for this processor, for example when a container is built."""
    from pathlib import Path

    from bench.output.progress import samples_bar
    from bench.output.text import print_line
    from dali_pipes.machine import compile_ahead as warming
    from readers.plural import counted
    from readers.prepare.workers import checked_workers

    with samples_bar() as bar:
        done = warming.warm(checked_workers(workers), bar)
    size_mb = sum(path.stat().st_size for path in Path(done.folder).iterdir()) / 1e6
    what = (
        f"{counted(done.num_compiled, 'function')} compiled in {done.seconds:.1f} s"
        if done.num_compiled
        else "all functions were compiled before"
    )
    print_line(f"{what}; kept in {done.folder} ({size_mb:.1f} MB)")


def cache(
    remove: Annotated[
        str | None,
        typer.Option(
            metavar="KIND|all",
            help="Remove the files of a kind: blocks, indexes, videos, checkpoints, sizes, unpacked, compiled or all.",
        ),
    ] = None,
) -> None:
    """Show the contents of the cache folder, their size and last use, and the cost of removing them."""
    from bench.cli.cache_tables import print_kinds, print_removed
    from dali_pipes.machine import cache_folder as caches

    if remove is not None:
        print_removed(caches.remove(remove))
    else:
        print_kinds(caches.list_cache())


def doctor() -> None:
    """Show what this machine has, what will be used, what is missing and how to get it."""
    from rich.text import Text

    from bench.output.text import print_facts, print_line
    from dali_pipes.machine.doctor import examine

    facts, missing = [], []
    for finding in examine():
        subject, text, advice = finding.subject, finding.found, finding.advice
        if advice:
            missing.append(f"{subject}: {advice}")
        elif subject == "videos":
            text += _torchcodec()
        facts.append((subject, Text(text, style="yellow" if advice else "")))
    print_facts(facts)
    for line in missing or ["nothing is missing"]:
        print_line(line, "yellow" if missing else "")


def _torchcodec() -> str:
    """Return a text that says whether torchcodec, which comparisons use, can be loaded."""
    from bench.baselines.videos import load_torchcodec
    from bench.compare.task import Unable
    from dali_pipes.machine.description import versions

    try:
        load_torchcodec()
    except Unable as error:
        return f"; for comparisons: {error}"
    return f"; torchcodec {versions()['torchcodec']} loads, for comparisons"
