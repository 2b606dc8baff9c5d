"""What was run: choices, settings, versions, machine."""

from bench.report.elements import facts, flat, folded, section
from bench.report.log import RunLog, object_of
from bench.report.markup import Markup, tag

_OWN = {"kind", "explain", "settings", "versions", "machine"}


def setup(log: RunLog) -> Markup:
    """What was chosen and why, and all that it takes to run it again."""
    start = log.start
    explain = start.get("explain")
    rest = {name: value for name, value in start.items() if name not in _OWN}
    settings, versions, machine = (
        facts(
            flat({key: value for key, value in object_of(start, name).items() if key not in rest})
        )
        for name in ("settings", "versions", "machine")
    )
    return section(
        "setup",
        "What was run",
        facts(flat(rest)),
        _choices(explain) if isinstance(explain, str) and explain else "",
        folded("Settings", settings) if settings else "",
        folded("Versions", versions) if versions else "",
        folded("Machine", machine) if machine else "",
    )


def _choices(explain: str) -> Markup:
    """The lines of `Loader.explain` as a table of subjects and choices."""
    pairs = [line.partition(": ") for line in explain.splitlines() if line.strip()]
    rows = [(subject, reason) if reason else ("also", subject) for subject, _, reason in pairs]
    return Markup(tag("h3", "What was chosen, and why") + facts(rows))
