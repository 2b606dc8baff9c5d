"""Define RankReport, the progress of a rank, which the rank sends with every heartbeat."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self

State = Literal["loader", "training loop", "over"]

_FORMAT = 1
"""Version of the format; reports of ranks with another version are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """The progress of a rank, and the rates of its latest steps.

    Shares and rates cover a window of about half a minute, which starts with the first batch of a loop or later.

    Attributes:
        rank: The rank.
        host: Name of the rank's machine.
        pid: Id of the rank's process.
        number: Count of the reports that the rank has written; a rank whose count does not change is silent.
        at: Time at which the report was written, in seconds since 1970 by the clock of the rank's machine.
        loop: A text that identifies the data of the loop; only reports with equal texts are compared.
        draws: A text with the seed and the weights of a mixture, which all ranks of a loop must share; "" if the loop has
            no other ranks.
        epoch: The epoch of the rank's loop.
        steps: Count of steps of that epoch that were handed over.
        state: What the process waits for: "loader" for a batch, "training loop" for anything else (also a collective),
            "over" after the end of a loop.
        state_seconds: Duration of the present state in seconds.
        waits_for: A text about the loader's present work, if it takes long; else "".
        window_seconds: Length of the window in seconds; 0 before the first batch.
        samples: Count of samples that were handed over in the window.
        wait_seconds: Seconds of the window in which the training loop waited for batches.
        stages: Seconds per sample of each stage in the window, summed over all threads.
        core_shares: For each stage, the share of that time, 0 to 1, in which the threads had a core.
        file: The file that was read most often in the window; "" if no file stands out.
        whole_images: Count of images in the window that our JPEG decoder left to another decoder, by kind.
        bad_samples: Count of bad samples in the loop.
        age_seconds: Age of the report in seconds, set by the rank that reads it; not part of the written report.
    """

    rank: int
    host: str = ""
    pid: int = 0
    number: int = 0
    at: float = 0.0
    loop: str = ""
    draws: str = ""
    epoch: int = 0
    steps: int = 0
    state: State = "training loop"
    state_seconds: float = 0.0
    waits_for: str = ""
    window_seconds: float = 0.0
    samples: int = 0
    wait_seconds: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)
    core_shares: Mapping[str, float] = field(default_factory=dict)
    file: str = ""
    whole_images: Mapping[str, int] = field(default_factory=dict)
    bad_samples: int = 0
    age_seconds: float = 0.0

    @property
    def wait_share(self) -> float:
        """Share of the window in which the training loop waited for batches, 0 to 1."""
        return self.wait_seconds / self.window_seconds if self.window_seconds > 0 else 0.0

    @property
    def images_per_second(self) -> float:
        """Samples per second of the window."""
        return self.samples / self.window_seconds if self.window_seconds > 0 else 0.0

    def to_bytes(self) -> bytes:
        """Return the report as JSON."""
        named = {"format": _FORMAT, **asdict(self)}
        del named["age_seconds"]
        return json.dumps(named, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self | None:
        """Return a report that another process wrote; None if it is damaged or has another version."""
        try:
            named = json.loads(data)
            if named.pop("format") != _FORMAT:
                return None
            report = cls(**named)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
        usual = cls(rank=0)
        names = [one.name for one in fields(cls)]
        is_sound = all(_is_like(getattr(report, name), getattr(usual, name)) for name in names)
        return report if is_sound else None


def _is_like(value: Any, usual: Any) -> bool:
    """Return whether both values are numbers, strings, or dictionaries of numbers."""
    if isinstance(usual, dict):
        return isinstance(value, dict) and all(_is_like(one, 0) for one in value.values())
    return isinstance(value, str if isinstance(usual, str) else int | float)
