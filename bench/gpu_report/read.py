"""The results of visits, read: of every device each step's newest run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import BenchError

NOT_RUN = "no time was left"
"""How a step ended that never began."""

_NEEDED = ("time", "machine", "settings", "steps")


@dataclass(frozen=True)
class Visit:
    """One ``result.json``.

    Attributes:
        file: Its name.
        content: All of it.
    """

    file: str
    content: Mapping[str, Any]

    @property
    def time(self) -> str:
        """When it was written, as ISO 8601 in UTC, so that the order of the texts is that of the times."""
        return str(self.content["time"])

    @property
    def machine(self) -> Mapping[str, Any]:
        """As `bench.machine.machine` describes it."""
        machine: Mapping[str, Any] = self.content["machine"]
        return machine

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the visit was asked for."""
        settings: Mapping[str, Any] = self.content["settings"]
        return settings

    @property
    def is_rehearsal(self) -> bool:
        """Whether everything ran on a CPU: asked for, or because no GPU was there."""
        return bool(self.settings.get("rehearse")) or not self.machine.get("gpu")

    @property
    def device(self) -> str:
        """What it ran on, as the heading of a section."""
        if self.is_rehearsal:
            return f"Rehearsal on a CPU ({self.machine.get('cpu')}), no GPU"
        return str(self.machine["gpu"])


@dataclass(frozen=True)
class Step:
    """A step's newest run.

    Attributes:
        name: Of the step.
        end: "done", or what went wrong.
        seconds: How long it took.
        result: What it found.
        headline: The same in a few words, "" where there is none.
        visit: The visit in which it ran.
    """

    name: str
    end: str
    seconds: float
    result: Mapping[str, Any]
    headline: str
    visit: Visit

    @property
    def rows(self) -> dict[str, Mapping[str, Any]]:
        """Its single measurements by name."""
        return {name: row for name, row in self.result.items() if isinstance(row, Mapping)}


@dataclass(frozen=True)
class Device:
    """What visits found on machines with one kind of GPU.

    Attributes:
        name: Of the GPU; of a rehearsal, that it is one.
        visits: The newest first.
        steps: Each step's newest run, by name, in the order in which they ran.
    """

    name: str
    visits: Sequence[Visit]
    steps: Mapping[str, Step]

    @property
    def is_rehearsal(self) -> bool:
        """Whether its numbers are a CPU's."""
        return self.visits[0].is_rehearsal

    def result(self, step: str) -> Mapping[str, Any]:
        """What a step found; empty where it did not run."""
        return self.steps[step].result if step in self.steps else {}


def read_visits(paths: Sequence[Path]) -> list[Visit]:
    """Read results.

    Raises:
        BenchError: A file cannot be read, or is no result of a visit.
    """
    return [_read(path) for path in paths]


def _read(path: Path) -> Visit:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} cannot be read: {error}: give the JSON of `make gpu`") from error
    found = content if isinstance(content, dict) else {}
    if missing := [name for name in _NEEDED if name not in found]:
        raise BenchError(
            f"{path} is no result of a visit, it lacks {', '.join(missing)}: give the result.json of `make gpu`"
        )
    return Visit(path.name, found)


def devices(visits: Sequence[Visit]) -> list[Device]:
    """Put visits to the same kind of GPU together, the device that was visited last first, rehearsals at the end."""
    newest = sorted(visits, key=lambda visit: visit.time, reverse=True)
    names = dict.fromkeys(visit.device for visit in newest)
    found = [_device(name, [visit for visit in newest if visit.device == name]) for name in names]
    return sorted(found, key=lambda device: device.is_rehearsal)


def _device(name: str, newest: Sequence[Visit]) -> Device:
    """A run that never began does not hide an older one that did; a run that failed does."""
    runs: dict[str, Step] = {}
    for visit in newest:
        for entry in visit.content["steps"]:
            step = _step(entry, visit)
            before = runs.get(step.name)
            if before is None or (before.end == NOT_RUN and step.end != NOT_RUN):
                runs[step.name] = step
    return Device(name, newest, runs)


def _step(entry: Mapping[str, Any], visit: Visit) -> Step:
    result = entry.get("result") or {}
    headline = entry.get("headline") or result.get("headline") or ""
    return Step(entry["name"], entry["end"], entry["seconds"], result, headline, visit)
