"""Compiling everything beforehand, with a bar."""

from pathlib import Path

from rich.console import Console

from bench.crew import checked_workers
from bench.progress import samples_bar
from dali_pipes.warm import Warmed, warm
from readers.plural import counted


def warm_and_show(num_workers: int | None) -> Warmed:
    """Compile what a loader can need, show how far that is, and print where it is kept.

    Raises:
        BenchError: The number of processes is less than 1.
        dali_pipes.LoaderError: Nothing can be kept.
    """
    num_processes = checked_workers(num_workers)
    console = Console()
    with samples_bar(console) as bar:
        task = bar.add_task("")
        done = warm(
            num_processes, lambda done, total: bar.update(task, completed=done, total=total)
        )
    size_mb = sum(path.stat().st_size for path in Path(done.folder).iterdir()) / 1e6
    what = (
        f"{counted(done.num_compiled, 'function')} compiled in {done.seconds:.1f} s"
        if done.num_compiled
        else "all functions were compiled before"
    )
    console.print(
        f"{what}; kept in {done.folder} ({size_mb:.1f} MB)", soft_wrap=True, highlight=False
    )
    return done
