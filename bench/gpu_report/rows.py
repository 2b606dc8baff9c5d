"""The measurements of a step in one shape, however the step wrote them down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.gpu_report.markdown import is_number
from bench.gpu_report.read import Step

_SPEEDS = ("images_per_second", "clips_per_second")


@dataclass(frozen=True)
class Measured:
    """One measurement.

    Attributes:
        step: Of which it is a part.
        name: Within the step.
        speed: The median of the runs in images (frames, for videos) per second; None where it failed.
        runs: Each run's speed; empty where they were not kept.
        facts: Everything that was noted with it.
        error: Why there is no speed, "" where there is one.
    """

    step: str
    name: str
    speed: float | None
    runs: Sequence[float] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    def fact(self, name: str) -> float | None:
        """A number that was noted with it."""
        value = self.facts.get(name)
        return float(value) if is_number(value) else None


def measured(step: Step) -> list[Measured]:
    """The measurements of a step, in the order in which they were made."""
    return _READERS.get(step.name, _plain)(step)


def _plain(step: Step) -> list[Measured]:
    """A row for each entry with a speed, or with the reason why there is none."""
    found = []
    for name, row in step.rows.items():
        speed, runs = _speed(row)
        if speed is not None or "error" in row:
            found.append(Measured(step.name, name, speed, runs, row, str(row.get("error", ""))))
    return found


def _speed(row: Mapping[str, Any]) -> tuple[float | None, list[float]]:
    value: Any = next((row[key] for key in _SPEEDS if key in row), None)
    if isinstance(value, Mapping):
        return float(value["median"]), list(value["runs"])
    return (float(value) if is_number(value) else None), list(row.get("runs", ()))


def _compared(step: Step) -> list[Measured]:
    """The rows of a comparison, and who took no part."""
    found = []
    for row in step.result.get("rows", ()):
        speed, runs = _speed(row)
        facts = {**row, **{f"share of {part}": share for part, share in row["share"].items()}}
        found.append(Measured(step.name, row["name"], speed, runs, facts))
    for absent in step.result.get("absent", ()):
        found.append(Measured(step.name, absent["name"], None, error=absent["reason"]))
    return found


def _batch_stage(step: Step) -> list[Measured]:
    """The rows, and who took no part."""
    absent = step.result.get("absent", {})
    return [
        *_plain(step),
        *(Measured(step.name, name, None, error=str(reason)) for name, reason in absent.items()),
    ]


_READERS = {"compare": _compared, "batch-stage": _batch_stage}


def paired_ratio(one: Measured, other: Measured) -> tuple[float, list[float]]:
    """How many times faster one is than the other of the same step.

    Returns:
        The median of the ratios of their runs, and those; where runs were not kept, the speeds' ratio alone.
    """
    assert one.speed is not None
    assert other.speed is not None
    runs = [a / b for a, b in zip(one.runs, other.runs, strict=False) if b]
    return (median(runs), runs) if runs else (one.speed / other.speed, [])
