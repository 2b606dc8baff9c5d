"""The document: what ran, is it right, is it fast, what limits it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.gpu_report.fast import fast_lines
from bench.gpu_report.markdown import number, shortened, table
from bench.gpu_report.plots import Plot, plots
from bench.gpu_report.read import Device, Step
from bench.gpu_report.right import case_lines, right_lines, right_summary
from bench.gpu_report.targets import target_lines, target_summary

_WARNING = (
    "> **A rehearsal on a CPU.** Inputs are tiny and no GPU took part: no number below says anything about a GPU, "
    "and few about anything. It shows that every step runs and what the document looks like."
)


def write_page(found: Sequence[Device], out: Path) -> list[Path]:
    """Write the document, and beside it its pictures as NAME-PLOT.svg.

    Returns:
        Everything that was written, the document first.
    """
    pictures: dict[Path, str] = {}
    lines = _head(found)
    for place, device in enumerate(found):
        prefix = out.stem if len(found) == 1 else f"{out.stem}-{place + 1}"
        drawn = plots(device)
        pictures |= {out.with_name(f"{prefix}-{plot.name}.svg"): plot.svg for plot in drawn}
        lines += _section(device, drawn, prefix)
    out.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    for path, svg in pictures.items():
        path.write_text(svg, encoding="utf-8")
    return [out, *pictures]


def _head(found: Sequence[Device]) -> list[str]:
    names = [visit.file for device in found for visit in device.visits]
    return [
        "# On a GPU",
        "",
        f"Made by `python -m bench.gpu_report` from {', '.join(f'`{name}`' for name in names)}, which `make gpu` wrote. "
        "Of every step the newest run counts. Speeds are medians of the runs, ranges are those of the runs, and ratios are "
        "of measurements of one run of one step, side by side. Slow rows and failed ones are shown like the others.",
        "",
    ]


def _section(device: Device, drawn: Sequence[Plot], prefix: str) -> list[str]:
    lines = [f"## {device.name}", ""]
    if device.is_rehearsal:
        lines += [_WARNING, ""]
    lines += [f"- {right_summary(device)}", f"- {target_summary(device)}", ""]
    lines += ["### What ran", "", *_visits(device), *_ends(device)]
    lines += ["### Is it right?", "", *right_lines(device)]
    lines += ["### Is it fast?", "", *target_lines(device), *_drawn(drawn, prefix)]
    lines += ["### Everything that was measured, and what limits it", ""]
    lines += fast_lines(device)
    return [*lines, "### Every case that was verified", "", *case_lines(device)]


def _visits(device: Device) -> list[str]:
    rows = []
    for visit in device.visits:
        machine = visit.machine
        settings = ", ".join(f"{name} {value}" for name, value in visit.settings.items())
        used = [name for name, step in device.steps.items() if step.visit is visit]
        count = "all" if len(used) == len(device.steps) else f"{len(used)} of {len(device.steps)}"
        host = f"{machine.get('cores')} cores of {machine.get('cpu')}, {machine.get('memory_gib')} GiB, load {machine.get('load_1_minute')}"  # fmt: skip
        rows.append([visit.time, f"`{visit.file}`", str(visit.content.get("commit"))[:20], str(machine.get("driver")), host, settings, count])  # fmt: skip
    headings = ("time", "file", "commit", "driver", "host", "settings", "steps shown from it")
    lines = table(headings, rows)
    return [*lines, _versions(device), "", *_found(device)]


_FOUND = ("CUDA", "capability", "decoder dali", "decoder cpu", "videos", "threads", "photographs")


def _found(device: Device) -> list[str]:
    """What the step `environment` saw that a number may depend on."""
    findings = device.result("environment").get("findings", {})
    said = [f"{name}: {shortened(findings[name], 200)}" for name in _FOUND if name in findings]
    return [f"Found there: {'; '.join(said)}.", ""] if said else []


def _versions(device: Device) -> str:
    """Of the newest visit, and where older ones had others."""
    newest: Mapping[str, str] = device.visits[0].content.get("versions", {})
    said = ", ".join(f"{name} {version}" for name, version in newest.items())
    other = [
        f"{name} {version} in `{visit.file}`"
        for visit in device.visits[1:]
        for name, version in visit.content.get("versions", {}).items()
        if newest.get(name) != version
    ]
    return f"Versions: {said}{'; but ' if other else ''}{', '.join(other)}."


def _ends(device: Device) -> list[str]:
    """What failed first, each with what became of it; what came to its end in one line."""
    steps = list(device.steps.values())
    bad = [step for step in steps if step.end != "done"]
    good = [step for step in steps if step.end == "done"]
    lines = []
    if bad:
        lines += [f"**{len(bad)} of {len(steps)} steps did not come to a good end:**", ""]
        lines += [_failure(step) for step in bad]
        lines.append("")
    names = ", ".join(f"{step.name} ({number(step.seconds, 2)} s)" for step in good)
    return [*lines, f"{len(good)} of {len(steps)} steps came to their end: {names or 'none'}.", ""]


def _failure(step: Step) -> str:
    errors = [f"{name}: {shortened(row['error'], 200)}" for name, row in step.rows.items() if row.get("error")]  # fmt: skip
    said = "; ".join(errors[:4]) or shortened(step.headline, 200) or "it left no result"
    more = f"; and {len(errors) - 4} more" if len(errors) > 4 else ""
    return f"- `{step.name}`: {step.end} after {number(step.seconds, 2)} s: {said}{more}"


def _drawn(drawn: Sequence[Plot], prefix: str) -> list[str]:
    lines = []
    for plot in drawn:
        lines += [f"![{plot.words}]({prefix}-{plot.name}.svg)", "", f"*{plot.words}.*", ""]
    return lines
