"""The result of tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from bench.timing import Measurement
from bench.tune.limits import Limit
from bench.tune.search import Found, Tried


@dataclass
class Tuning:
    """What `bench.tune.tune` found.

    Attributes:
        settings: Arguments of the Loader that the user gave.
        unit: "images" or "clips".
        step_rate: Samples per second that the training step takes at most; None if none is simulated.
        stages: Trials of stages, each of which does what the one before it does, and more; without a training step.
        not_measured: By name why a trial of `stages` or `repeated` could not be made.
        base: The loader with the user's settings, with the training step.
        limit: What limits it.
        found: What the search found.
        repeated: Samples that were read before, beside all; None if that was not measured.
        help: What helps besides settings, one sentence each.
        seconds: How long all of it took.
        is_interrupted: Whether the search was ended before its time.
    """

    settings: Mapping[str, Any]
    unit: str
    step_rate: float | None
    stages: Mapping[str, Measurement]
    not_measured: dict[str, str]
    base: Measurement
    limit: Limit
    found: Found
    repeated: Tried | None = None
    help: Sequence[str] = field(default_factory=tuple)
    seconds: float = 0.0
    is_interrupted: bool = False

    @property
    def changes(self) -> dict[str, Any]:
        """Settings to change; empty if nothing helps."""
        return self.found.changes

    @property
    def chosen(self) -> dict[str, Any]:
        """All arguments of the Loader: what the user gave, and the changes."""
        return {**self.settings, **self.changes}

    @property
    def result(self) -> tuple[Measurement, Measurement]:
        """The user's settings and the chosen ones: the last trial of both, or all turns of the first if nothing helps."""
        found = self.found
        kept = [one for one in found.tried if one.is_kept]
        if not self.changes:
            # Until a change was kept the user's own settings were the best.
            own = found.tried[: found.tried.index(kept[0]) + 1] if kept else found.tried
            turns = [
                turn for one in (self.base, *(one.before for one in own)) for turn in one.turns
            ]
            return Measurement(tuple(turns)), Measurement(tuple(turns))
        last = found.check or kept[-1]  # interrupted before the check
        return last.before, last.after

    def as_python(self) -> str:
        """Return a line of Python that makes the loader."""
        arguments = ", ".join(f"{name}={_written(value)}" for name, value in self.chosen.items())
        return f"loader = Loader(dataset, recipe, {arguments})"

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values."""
        found = self.found
        return {
            "unit": self.unit,
            "step_rate": self.step_rate,
            "limit": asdict(self.limit),
            "stages": {name: one.to_dict() for name, one in self.stages.items()},
            "not_measured": dict(self.not_measured),
            "base": {**self.base.to_dict(), "wait_share": round(self.base.wait_share, 3)},
            "trials": [one.to_dict() for one in found.tried],
            "check": found.check and found.check.to_dict(),
            "repeated": self.repeated and self.repeated.to_dict(),
            "failed": dict(found.failed),
            "left_out": list(found.left_out),
            "changes": dict(found.changes),
            "chosen": {name: _plain(value) for name, value in self.chosen.items()},
            "help": list(self.help),
            "python": self.as_python(),
            "seconds": round(self.seconds, 1),
            "interrupted": self.is_interrupted,
        }


def _written(value: Any) -> str:
    return repr(str(value)) if isinstance(value, torch.device) else repr(value)


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)
