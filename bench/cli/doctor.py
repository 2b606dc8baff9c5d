"""``gpu-aug doctor``."""


def doctor() -> None:
    """Say what this machine has, what will be used, and what is missing and how to get it."""
    from dataclasses import replace

    from rich.console import Console
    from rich.text import Text

    from bench.output.text import fact_table, print_plain
    from dali_pipes.doctor import examine

    console, table = Console(), fact_table()
    findings = [
        replace(finding, found=finding.found + _torchcodec())
        if finding.subject == "videos" and not finding.advice
        else finding
        for finding in examine()
    ]
    for finding in findings:
        style = "yellow" if finding.advice else ""
        table.add_row(finding.subject, Text(finding.found, style=style))
    console.print(table)
    missing = [finding for finding in findings if finding.advice]
    for finding in missing:
        print_plain(console, f"{finding.subject}: {finding.advice}", "yellow")
    if not missing:
        console.print("nothing is missing")


def _torchcodec() -> str:
    """Whether torchcodec loads, which comparisons use."""
    from bench.baselines.videos import load_torchcodec
    from bench.compare.contestant import Unable
    from dali_pipes.machine import versions

    try:
        load_torchcodec()
    except Unable as error:
        return f"; for comparisons: {error}"
    return f"; torchcodec {versions()['torchcodec']} loads, for comparisons"
