"""How long turns are, and how much time is left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.timing import Measurement, measure_in_turns
from bench.tune.trial import Contestant
from dali_pipes import BadSampleError
from gpu_aug.compiled.clock import clock


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
        """Give each contestant a turn in every round, with a rest after it.

        Args:
            contestants: By name.
            rounds: Number of turns of each.
            what: What is measured, for `progress`.
            on_failure: Gets the name and the error of a contestant that raised; None raises the error.

        Raises:
            dali_pipes.BadSampleError: A contestant met a bad sample, which has nothing to do with its settings.
        """

        def failed(name: str, error: Exception) -> None:
            if on_failure is None or isinstance(error, BadSampleError):
                raise error
            on_failure(name, error)

        began = self.clock()
        measured = measure_in_turns(
            {name: one.turn for name, one in contestants.items()},
            seconds=self.turn_seconds,
            rounds=rounds,
            progress=lambda text: self.progress(f"{what}: {text}"),
            after_turn=lambda name, turn: contestants[name].rest(turn),
            on_failure=failed,
        )
        self.turn_cost_seconds = (self.clock() - began) / (rounds * len(contestants))
        return measured


def reason_of(error: Exception) -> str:
    """Return an error as one line."""
    return " ".join(str(error).split()) or type(error).__name__
