"""``python -m bench.gpu.report bench/results/gpu-*.json --out docs/gpu.md``: the results of visits to GPUs on a page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from bench.gpu.aims import AIMS
from bench.gpu.rows import Row
from bench.gpu.run_steps import NOT_RUN, Outcome
from bench.gpu.steps import STEPS
from bench.output import errors

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_NEEDED = ("command", "time", "commit", "versions", "machine", "settings", "steps")
_WARNING = "> **A rehearsal on a CPU.** Inputs are tiny and no GPU took part: no number below says anything about a GPU."
_LENGTH = 160

BEGIN, END = "<!-- results of make gpu -->", "<!-- end of results -->"
"""The lines of a page between which results stand."""


@dataclass(frozen=True)
class Device:
    """Results on machines with one kind of GPU.

    Attributes:
        name: The GPU's name; "" for a rehearsal on a CPU.
        visits: Their results, the newest first.
        outcomes: Each step's newest run that began, by name.
    """

    name: str
    visits: Sequence[Mapping[str, Any]]
    outcomes: Mapping[str, Outcome]


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="What `make gpu` wrote: result.json.")],
    out: Annotated[Path, typer.Option(help="The document.")],
    rehearsal: Annotated[bool, typer.Option(help="Take results of rehearsals, too.")] = False,
) -> None:
    """Write what visits to GPUs found: of every step the newest run, and of runs their medians."""
    visits = {path: _read(path) for path in results}
    if found := [str(path) for path, visit in visits.items() if not rehearsal and not device_of(visit)]:  # fmt: skip
        raise errors.BenchError(
            f"{', '.join(found)} was measured on a CPU: give results of a visit to a GPU, or --rehearsal "
            "to see what the document will look like"
        )
    lines = [line for device in devices(list(visits.values())) for line in section(device)]
    before, after = _around(out)
    text = "\n".join(lines).strip()
    out.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
    typer.echo(f"written: {out}")


def _around(page: Path) -> tuple[str, str]:
    """What stands on a page before its results and behind them; nothing where there is no page."""
    if not page.exists():
        return "", "\n"
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise errors.BenchError(
            f"{page} must have lines {BEGIN} and {END}, between which results stand, got none: add them, or name a new file"
        )
    return before, after


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise errors.BenchError(
            f"{path} cannot be read: {error}: give the JSON of `make gpu`"
        ) from error
    missing = [name for name in _NEEDED if name not in content]
    if missing or content["command"] != "gpu":
        raise errors.BenchError(
            f"{path} is no result of a visit (it lacks {', '.join(missing) or 'the command gpu'}): "
            "give the result.json of `make gpu`"
        )
    found: Mapping[str, Any] = content
    return found


def device_of(visit: Mapping[str, Any]) -> str:
    """The name of the GPU; "" for a rehearsal and a machine without one."""
    return "" if visit["settings"].get("rehearse") else visit["machine"].get("gpu") or ""


def devices(visits: Sequence[Mapping[str, Any]]) -> list[Device]:
    """Visits to the same kind of GPU together, the device that was visited last first, rehearsals at the end."""
    newest = sorted(visits, key=lambda visit: str(visit["time"]), reverse=True)
    found = []
    for name in sorted(dict.fromkeys(map(device_of, newest)), key=lambda name: not name):
        own = [visit for visit in newest if device_of(visit) == name]
        outcomes: dict[str, Outcome] = {}
        for step in (step for visit in own for step in visit["steps"]):
            before = outcomes.get(step["name"])
            if before is None or before.end in NOT_RUN:
                rows = [Row(**row) for row in step["rows"]]
                outcomes[step["name"]] = Outcome(step["name"], step["end"], step["seconds"], rows, step["headline"])  # fmt: skip
        found.append(Device(name, own, outcomes))
    return found


def section(device: Device) -> list[str]:
    """The lines about one device."""
    newest = device.visits[0]
    versions = ", ".join(f"{name} {version}" for name, version in newest["versions"].items())
    machine = ", ".join(f"{name} {value}" for name, value in newest["machine"].items())
    lines = [f"## {device.name or 'Rehearsal on a CPU'}", ""]
    lines += [] if device.name else [_WARNING, ""]
    lines += [f"{newest['time'][:10]}, commit `{newest['commit']}`; {machine}; {versions}.", ""]
    lines += ["### Is it right?", "", *_right(device), "### Is it fast?", "", *_aims(device)]
    for name, outcome in device.outcomes.items():
        if name in STEPS and any(row.verdict == "measured" for row in outcome.rows):
            lines += [f"#### {STEPS[name].promise} (`{name}`, {outcome.end})", "", *_measured(outcome.rows)]  # fmt: skip
    return lines


def _right(device: Device) -> list[str]:
    rows = []
    for name, step in STEPS.items():
        outcome = device.outcomes.get(name)
        if step.verifies:
            rows.append([step.promise, f"`{name}`", *verdict_of(outcome, device.name)])
    headings = ("promise", "step", "verdict", "rows", "nearest to what is allowed", "not right")
    return table(headings, rows)


def verdict_of(outcome: Outcome | None, device: str) -> list[str]:
    """Whether a promise holds; counts of rows by outcome; the difference nearest to its limit; the failures."""
    if outcome is None or outcome.end in NOT_RUN:
        return ["not known: it was not run", "", "", ""]
    counts: dict[str, int] = {}
    for row in outcome.rows:
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    if counts.get("wrong"):
        word = "**does not hold**"
    elif outcome.good and counts.get("right"):
        word = "holds"
    else:
        word = f"**not shown**: {outcome.end if not outcome.good else 'nothing was compared'}"
    if not device:
        word = f"no verdict on a CPU ({word.replace('**', '')})"
    near = [row for row in outcome.rows if row.value is not None and "allowed" in row.facts]
    most = max(near, key=_nearness, default=None)
    shown = f"{number(most.value)} of {number(most.facts['allowed'])}, a wrong result {number(most.facts['control'])} ({most.name})" if most else ""  # fmt: skip
    bad = [f"{row.name}: {row.facts.get('error', row.verdict)}" for row in outcome.rows if row.verdict in ("wrong", "failed")]  # fmt: skip
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return [word, told, shown, "; ".join(bad)[: 4 * _LENGTH] or ("" if outcome.good else outcome.headline)]  # fmt: skip


def _nearness(row: Row) -> float:
    value, allowed = row.value or 0.0, row.facts["allowed"]
    return value / allowed if allowed else float(value > 0) * 1e9


def _aims(device: Device) -> list[str]:
    found = {
        name: {row.name: row for row in outcome.rows if row.value is not None}
        for name, outcome in device.outcomes.items()
    }
    rows = []
    for aim in AIMS:
        runs = aim.find(found)
        reached = f"{number(median(runs))}{aim.unit}" if runs else ""
        spread = f"{number(min(runs))} to {number(max(runs))}" if len(runs) > 1 else ""
        bound = f"{aim.bound} {number(aim.number)}{aim.unit}"
        rows.append([aim.name, bound, reached, spread, aim.verdict(runs, device.name)])
    return table(("aim", "number", "reached:", "range:", "verdict"), rows)


def _measured(rows: Sequence[Row]) -> list[str]:
    shown = []
    for row in rows:
        runs = row.facts.get("runs", ())
        spread = f"{number(min(runs))} to {number(max(runs))}" if runs else ""
        facts = [
            f"{name} {number(value) if isinstance(value, int | float) else value}"
            for name, value in row.facts.items()
            if name != "runs"
        ]
        value = f"{number(row.value)} {row.unit}" if row.value is not None else f"**{row.verdict}**"
        shown.append([row.name, value, spread, "; ".join(facts)[: 2 * _LENGTH]])
    return table(("what", "median:", "range:", "with it"), shown)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table as lines; columns whose heading ends in ":" are aligned to the right."""
    lines = [[heading.rstrip(":") for heading in headings]]
    lines += [["--:" if heading.endswith(":") else "---" for heading in headings], *map(list, rows)]
    return [*(f"| {' | '.join(_cell(cell) or '-' for cell in cells)} |" for cells in lines), ""]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def number(value: float | None) -> str:
    """Three significant digits, whole numbers in full: 1234.5 as 1,234 and 0.012345 as 0.0123."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    errors.call(app)
