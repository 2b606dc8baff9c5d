"""``gpu-aug audit``."""

from typing import Annotated

import typer


def audit(
    first: Annotated[
        str, typer.Argument(metavar="A", help="Audit files of a run: a file, folder or 'pattern'.")
    ],
    second: Annotated[
        str | None,
        typer.Argument(metavar="[B]", help="Audit files of another run, to compare them."),
    ] = None,
) -> None:
    """Say whether a run handed over each sample exactly once; or whether two runs handed over the same ones.

    The files are what Loader(audit='run-{rank}.jsonl') wrote, on any number of ranks and after any number of
    resumes: steps that were done again after one count once. Of two runs it says whether they had the same samples in the
    same order, and if not, where they part; where one goes on from a state of the other, both are checked as one run. Exit code 1 if the answer is no.
    """
    from rich.console import Console

    from bench.output.text import print_plain
    from dali_pipes.audit_check import check_audit
    from dali_pipes.audit_compare import compare_audits

    console = Console()
    if second is None:
        check = check_audit(first)
        lines, is_good = check.lines(), check.once
    else:
        found = compare_audits(first, second)
        lines, is_good = found.lines(), found.same
        if found.continued:
            check = check_audit(first, second)
            lines = [
                f"one of them goes on from a state of the other: {first} and {second} are checked as one run"
            ]
            lines, is_good = [*lines, *check.lines()], check.once
    for line in lines:
        print_plain(console, line)
    if not is_good:
        raise typer.Exit(1)
