"""How long turns are, and how much time is left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.timing import Measurement, Turn, measure_in_turns
from dali_pipes import BadSampleError
from gpu_aug.compiled.clock import clock

Contestant = Callable[[float], Turn]
"""Works for some seconds, and then waits until nothing works any more, so that the next one has the machine to itself."""


@dataclass
class Pace:
    """The time that trials may take.

    Attributes:
        turn_seconds: Length of a turn.
        turn_cost_seconds: How long a turn took lately, together with emptying and filling queues.
        until: When all should be over, by `clock`.
        progress: Gets a line of text before every turn.
        clock: Returns the time in seconds. The usual one stands still while functions are compiled, once per machine.
    """

    turn_seconds: float
    turn_cost_seconds: float
    until: float
    progress: Callable[[str], object] = lambda _: None
    clock: Callable[[], float] = clock

    @property
    def turns_left(self) -> int:
        """How many turns end in time; negative if it is over."""
        return int((self.until - self.clock()) / max(self.turn_cost_seconds, 1e-9))

    def measure(
        self,
        contestants: Mapping[str, Contestant],
        rounds: int,
        what: str,
        on_failure: Callable[[str, Exception], object] | None = None,
    ) -> dict[str, Measurement]:
        """Give each contestant a turn in every round.

        Args:
            contestants: By name.
            rounds: Number of turns of each.
            what: What is measured, for `progress`.
            on_failure: Gets the name and the error of a contestant that raised; None raises the error.
        """
        began = self.clock()
        measured = measure_in_turns(
            contestants,
            seconds=self.turn_seconds,
            rounds=rounds,
            progress=lambda text: self.progress(f"{what}: {text}"),
            on_failure=on_failure,
        )
        self.turn_cost_seconds = (self.clock() - began) / (rounds * len(contestants))
        return measured


def reason_of(error: Exception) -> str:
    """Return an error as one line.

    Raises:
        dali_pipes.BadSampleError: The error is one: a bad sample has nothing to do with what was tried.
    """
    if isinstance(error, BadSampleError):
        raise error
    return " ".join(str(error).split()) or type(error).__name__
