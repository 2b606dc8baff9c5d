"""``gpu-aug audit``."""

from typing import Annotated

import typer


def audit(
    first: Annotated[
        str, typer.Argument(metavar="A", help="Audit files of a run: a file, folder or 'pattern'.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Audit files of another run.")],
) -> None:
    """Say whether two runs handed over the same samples in the same order, and if not, where they part.

    The files are what Loader(audit='run-{rank}.jsonl') wrote, on any number of ranks and after any number of
    resumes. Exit code 1 if they differ.
    """
    from rich.console import Console

    from bench.output.text import print_plain
    from dali_pipes.audit_compare import compare_audits

    found, console = compare_audits(first, second), Console()
    for line in found.lines():
        print_plain(console, line)
    if not found.same:
        raise typer.Exit(1)
