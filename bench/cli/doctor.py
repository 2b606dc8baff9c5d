"""``gpu-aug doctor``."""


def doctor() -> None:
    """Say what this machine has, what will be used, and what is missing and how to get it."""
    from rich.console import Console
    from rich.text import Text

    from bench.cli.tables import print_facts
    from bench.output.text import print_plain
    from dali_pipes.doctor import examine

    console, facts, missing = Console(), [], []
    for finding in examine():
        is_good, text = not finding.advice, finding.found
        if finding.subject == "videos" and is_good:
            text += _torchcodec()
        facts.append((finding.subject, Text(text, style="" if is_good else "yellow")))
        if not is_good:
            missing.append(f"{finding.subject}: {finding.advice}")
    print_facts(console, facts)
    for text in missing:
        print_plain(console, text, "yellow")
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
