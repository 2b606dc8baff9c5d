"""``gpu-aug warm``."""

from bench.cli.options import Processes


def warm(workers: Processes = None) -> None:
    """Compile all of our functions beforehand, for this processor: in a container, when it is built."""
    from pathlib import Path

    from rich.console import Console

    from bench.output.progress import samples_bar
    from bench.output.text import print_plain
    from dali_pipes import warm as warming
    from readers.plural import counted
    from readers.prepare.workers import checked_workers

    console, num_processes = Console(), checked_workers(workers)
    with samples_bar(console) as bar:
        done = warming.warm(num_processes, bar)
    size_mb = sum(path.stat().st_size for path in Path(done.folder).iterdir()) / 1e6
    what = (
        f"{counted(done.num_compiled, 'function')} compiled in {done.seconds:.1f} s"
        if done.num_compiled
        else "all functions were compiled before"
    )
    print_plain(console, f"{what}; kept in {done.folder} ({size_mb:.1f} MB)")
