"""Is it right? What every step that verifies promised, ran and found."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.gpu_report.markdown import is_number, number, shortened, table
from bench.gpu_report.read import Device, Step
from bench.gpu_report.verdicts import HOLDS, PROMISES, cases_of, fault_of, verdict

_SHOWN = 6  # cases that are named in a cell
_FACTS = 8  # of a case
_DIFFERENCE = re.compile(r"max|largest.difference|.*, difference of 255")
_OWN_COLUMNS = ("error", "tolerance", "allowed")


@dataclass(frozen=True)
class Gap:
    """A difference beside what is allowed.

    Attributes:
        case: Where it was found.
        value: The difference.
        allowed: The tolerance; infinite where it differs from value to value, None where there is none.
        text: Both, as people read them.
    """

    case: str
    value: float
    allowed: float | None
    text: str

    @property
    def rank(self) -> tuple[bool, float]:
        """Larger for what is nearer to its tolerance, or beyond it."""
        if self.allowed:
            return True, self.value / self.allowed
        return self.allowed is not None and self.value > 0, self.value


def right_lines(device: Device) -> list[str]:
    """A row for every promise, also for those that nothing was run for."""
    headings = ("promise", "what was run", "verdict", "largest difference, allowed", "control")
    rows = [_row(promise, device.steps.get(name), name) for name, promise in PROMISES.items()]
    if device.is_rehearsal:
        for name, row in zip(PROMISES, rows, strict=True):
            if name in device.steps:
                row[2] = f"no verdict: a CPU's run ({row[2].replace('**', '')})"
    return table(headings, rows)


def right_summary(device: Device) -> str:
    """How many promises hold, and which do not."""
    if device.is_rehearsal:
        return "Right: no verdicts, since no GPU took part."
    verdicts = {name: verdict(device.steps[name]) for name in PROMISES if name in device.steps}
    held = [name for name, said in verdicts.items() if said == HOLDS]
    others = [f"`{name}`" for name in verdicts if name not in held]
    left = [f"`{name}`" for name in PROMISES if name not in verdicts]
    parts = [f"{len(held)} of {len(PROMISES)} promises were shown to hold"]
    parts += [f"not shown, or broken: {', '.join(others)}"] if others else []
    parts += [f"not run: {', '.join(left)}"] if left else []
    return f"Right: {'; '.join(parts)}."


def case_lines(device: Device) -> list[str]:
    """Every single case of the steps that verify, folded up."""
    lines = []
    for name in PROMISES:
        step = device.steps.get(name)
        if step is not None and cases_of(step):
            lines += _cases(step)
    return lines


def _row(promise: str, step: Step | None, name: str) -> list[str]:
    if step is None:
        return [promise, f"`{name}`: nothing", "not known: it was not run", "", ""]
    every = (gap for case, row in cases_of(step).items() for gap in gaps(case, row))
    gap = max(every, key=lambda gap: gap.rank, default=None)
    found = step.result.get("largest_difference")
    if gap is None and is_number(found):
        gap = Gap("", found, None, number(found))
    difference = f"{gap.text} ({gap.case})" if gap and gap.case else gap.text if gap else ""
    return [promise, _what_ran(step), verdict(step), difference, _control(step, gap)]


def gaps(case: str, row: Mapping[str, Any]) -> Iterator[Gap]:
    """Every difference that a case names, beside its tolerance where it has one."""
    tolerance = _tolerance(row)
    for key, value in row.items():
        found = value.get("max") if isinstance(value, Mapping) else None
        if is_number(found):
            yield _gap(f"{case}, {key}", case, float(found), tolerance)
        elif is_number(value) and _DIFFERENCE.fullmatch(key):
            yield _gap(case, case, float(value), tolerance)
    allowed: Mapping[str, float] = row.get("allowed, MiB", {})
    for name, grown in row.get("growth, MiB", {}).items():
        limit = allowed.get(name, math.nan)
        yield Gap(f"{case}, {name}", grown, limit, f"{number(grown)} MiB, {number(limit)} allowed")


def _tolerance(row: Mapping[str, Any]) -> float | None:
    """Of a case; where it is one for the largest and one for the mean difference, the first."""
    found = row.get("tolerance", row.get("allowed"))
    if isinstance(found, list) and found:
        found = found[0]
    return float(found) if is_number(found) else None


def _gap(place: str, case: str, value: float, tolerance: float | None) -> Gap:
    if tolerance is None:
        return Gap(place, value, None, number(value))
    if case.startswith("bfloat16"):  # the step of a bfloat16 grows with the value that is written
        text = f"{number(value)}, {number(tolerance)} and a step of bfloat16 allowed"
        return Gap(place, value, math.inf, text)
    limit = math.ceil(tolerance) if case == "uint8" else tolerance
    return Gap(place, value, limit, f"{number(value)}, {number(limit)} allowed")


def _control(step: Step, gap: Gap | None) -> str:
    """What the negative control gave, of the case with the largest difference."""
    cases = cases_of(step)
    controls = {
        case: (key, row[key])
        for case, row in cases.items()
        for key in row
        if "control" in key or (case.startswith("control") and key == "noticed")
    }
    if not controls:
        return "none"
    case = next((name for name in controls if gap and gap.case.startswith(name)), None)
    key, value = controls[case or next(iter(controls))]
    said = _fact(value) if key == "control" else f"{key}: {_fact(value)}"
    return f"{said} ({len(controls)} of {len(cases)} cases)"


def _what_ran(step: Step) -> str:
    names = list(cases_of(step))
    rest = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    more = {name: value for name, value in step.result.items() if is_number(value)}
    what = (
        [f"{len(names)} case{'s' if len(names) > 1 else ''}: {'; '.join([*names[:_SHOWN], *rest])}"]
        if names
        else []
    )
    what += [f"{name} {number(value)}" for name, value in more.items() if name != "seconds"]
    said = what or [shortened(step.headline, 100)]
    return f"`{step.name}`, {number(step.seconds, 2)} s: {'; '.join(said) or 'nothing is known'}"


def _cases(step: Step) -> list[str]:
    """Every case with all that was noted."""
    rows = []
    for case, row in cases_of(step).items():
        facts = {key: value for key, value in row.items() if key not in _OWN_COLUMNS}
        found = "; ".join(f"{key}: {_fact(value)}" for key, value in list(facts.items())[:_FACTS])
        allowed = _tolerance(row)
        tolerance = "" if allowed is None else number(allowed)
        rows.append([case, shortened(found, 400), tolerance, shortened(fault_of(row), 300) or "-"])
    summary = f"<details><summary>{step.name}, case by case</summary>"
    return [summary, "", *table(("case", "found", "tolerance", "fault"), rows), "</details>", ""]


def _fact(value: Any) -> str:
    if is_number(value):
        return number(value)
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{key} {_fact(part)}" for key, part in value.items()) + ")"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_fact, value)) if len(value) <= 4 else f"{len(value)} values"
    return shortened(str(value), 80)
