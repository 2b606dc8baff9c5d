"""Note: what a rank says of itself with every heartbeat."""

import json
import time
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, Literal, Self

State = Literal["loader", "training loop", "over"]

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Where a rank stands, and how its latest steps went.

    Shares and rates are of a window of about half a minute, which begins with the first batch of a loop or later.

    Attributes:
        rank: Who says it.
        host: Name of its machine.
        pid: Its process.
        number: Counts its notes: a rank whose number stays the same is silent.
        at: When it was written, in seconds since 1970 by the clock of its machine.
        loop: Tells apart loops over different data; those of other loops are not compared.
        epoch: The epoch of its loop.
        steps: Steps of that epoch that were handed over.
        state: What the process waits for: its loader for a batch, or the training loop for all else (a collective,
            too); "over" behind the end of a loop.
        state_seconds: For how long.
        waits_for: What the loader is at meanwhile, where that takes long; else "".
        window_seconds: Length of the window; 0 before the first batch.
        samples: Samples that were handed over in it.
        wait_seconds: Seconds of it in which the training loop waited for batches.
        stages: For each stage the seconds that it took per sample in the window, of all threads together.
        core_shares: For each stage the share of that time, 0 to 1, in which the threads had a core.
        file: The file that reading was found at most often in the window; "" if at none.
        whole_images: Images of the window that our JPEG decoder does not take, by kind.
        bad_samples: Bad samples since the loader was made.
        age_seconds: How old the note is, as its reader knows; nothing that is written.
    """

    rank: int
    host: str = ""
    pid: int = 0
    number: int = 0
    at: float = 0.0
    loop: str = ""
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

    def age_by_clock(self) -> float:
        """How old it is in seconds, if the clocks of its machine and this one agree."""
        return max(0.0, time.time() - self.at)

    def to_bytes(self) -> bytes:
        """Return it as JSON."""
        named = {"format": _FORMAT, **asdict(self)}
        del named["age_seconds"]
        return json.dumps(named, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self | None:
        """Return what another process wrote; None where it is no note, or of another version."""
        try:
            named = json.loads(data)
            if named.pop("format") != _FORMAT:
                return None
            note = cls(**named)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
        return note if note._is_sound() else None

    def _is_sound(self) -> bool:
        """Whether all values are of the type that they should be of."""
        for one in fields(self):
            value, usual = getattr(self, one.name), {} if one.default is MISSING else one.default
            kinds: Any = (int, float) if isinstance(usual, float) else type(usual)
            if one.name != "rank" and not isinstance(value, kinds):
                return False
        numbers = [
            *self.stages.values(),
            *self.core_shares.values(),
            *self.whole_images.values(),
            self.rank,
        ]
        return all(isinstance(number, int | float) for number in numbers)
