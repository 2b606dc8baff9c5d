"""What a thread works on, put into words only if somebody asks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dali_pipes.schedule import Plan

_NUM_NAMED = 3


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a step.

    Attributes:
        plan: The step.
        samples: Have a `key` each, or None where a row is lost; or the dataset that they are read from.
        indices: Where they stand in that dataset; None if `samples` are theirs.
    """

    plan: Plan
    samples: Any
    indices: Sequence[int] | None = None

    def keys(self) -> list[str]:
        """The names of the samples, as far as they are known without reading: else their indices."""
        if self.indices is None:
            return [one.key for one in self.samples if one is not None]
        names: Any = getattr(self.samples, "keys", None)
        try:
            keys = names() if names is not None else None
        except Exception:  # noqa: BLE001 - a dataset of the user's; this is said while something else goes wrong
            keys = None
        return [f"sample {index}" if keys is None else keys[index] for index in self.indices]

    def __str__(self) -> str:
        keys = self.keys()
        more = f" and {len(keys) - _NUM_NAMED:,} more" if len(keys) > _NUM_NAMED else ""
        return f"step {self.plan.step}: {', '.join(keys[:_NUM_NAMED])}{more}"
