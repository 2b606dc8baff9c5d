"""Define the result of tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from bench.timing import Measurement
from bench.tune.limits import LOADING, WITH_STEP, Limit, Stages
from bench.tune.search import Found, Tried
from dali_pipes.arguments.names import spelled, with_settings


@dataclass
class Tuning:
    """The result of `bench.tune.tune`.

    Attributes:
        settings: Arguments of the Loader that the user gave.
        unit: "images" or "clips".
        step_rate: Largest count of samples per second that the training step can take; None if no step is simulated.
        given: Stages and limit with the user's settings, measured before the search, which starts from these settings.
        found: The result of the search.
        own: All turns (timed intervals) of the user's settings, with the training step.
        recommended: Stages and limit with the recommended settings, measured after the search; None if nothing helps, or
            the search was interrupted.
        repeated: Samples that were read before, compared with all data; None if not measured.
        not_measured: For each measurement of stages, or of `repeated`, that could not be made, the reason by its name.
        help: Sentences about what helps besides settings.
        seconds: Total duration in seconds.
        is_interrupted: Whether the search was interrupted.
    """

    settings: Mapping[str, Any]
    unit: str
    step_rate: float | None
    given: Stages
    found: Found
    own: Measurement
    recommended: Stages | None = None
    repeated: Tried | None = None
    not_measured: dict[str, str] = field(default_factory=dict)
    help: Sequence[str] = field(default_factory=tuple)
    seconds: float = 0.0
    is_interrupted: bool = False

    @property
    def stages(self) -> Stages:
        """Stages and limit with the recommended settings or, if these were not measured, with the user's settings."""
        return self.recommended or self.given

    @property
    def limit(self) -> Limit:
        """The bottleneck of the loader with the settings of `stages`."""
        return self.stages.limit

    @property
    def base(self) -> Measurement:
        """The first measurement of the loader with the user's settings and the training step."""
        return self.given.measured.get(WITH_STEP, self.given.measured[LOADING])

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that the user should change, with their new values; empty if nothing helps."""
        return self.found.changes

    @property
    def chosen(self) -> dict[str, Any]:
        """All arguments of the Loader: those of the user, and the changes."""
        return with_settings(self.settings, self.changes)

    @property
    def result(self) -> tuple[Measurement, Measurement]:
        """The measurements of the user's settings and of the chosen ones; equal ones if nothing helps."""
        if not self.changes:
            return self.own, self.own
        return self.last_trial.before, self.last_trial.after

    @property
    def last_trial(self) -> Tried:
        """The trial that shows the gain of the changes: the check, or, if that was interrupted, the last kept trial."""
        return self.found.check or [one for one in self.found.tried if one.is_kept][-1]

    def as_python(self) -> str:
        """Return a line of Python that makes the loader."""
        given = {
            name: str(value) if isinstance(value, torch.device) else value
            for name, value in self.chosen.items()
        }
        return f"loader = Loader(dataset, recipe, {spelled(given)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as values for JSON."""
        found = self.found
        return {
            "unit": self.unit,
            "step_rate": self.step_rate,
            "limit": asdict(self.limit),
            "stages": {name: one.to_dict() for name, one in self.stages.alone.items()},
            "limit_given": asdict(self.given.limit),
            "stages_given": {name: one.to_dict() for name, one in self.given.alone.items()},
            "not_measured": dict(self.not_measured),
            "base": {**self.base.to_dict(), "wait_share": round(self.base.wait_share, 3)},
            "trials": [one.to_dict() for one in found.tried],
            "check": found.check and found.check.to_dict(),
            "repeated": self.repeated and self.repeated.to_dict(),
            "failed": dict(found.failed),
            "left_out": list(found.left_out),
            "changes": dict(found.changes),
            "chosen": {
                name: value if isinstance(value, bool | int | float | str) else str(value)
                for name, value in self.chosen.items()
            },
            "help": list(self.help),
            "python": self.as_python(),
            "seconds": round(self.seconds, 1),
            "interrupted": self.is_interrupted,
        }
