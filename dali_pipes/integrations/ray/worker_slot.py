"""Seats of a crew, and the tasks that they are given."""

from dataclasses import dataclass, field
from typing import Any

from dali_pipes.integrations.ray.maker import Begun, Made
from dali_pipes.steps.schedule import Plan


@dataclass(slots=True, eq=False)
class Task:
    """A step that is to be made.

    Attributes:
        number: Tells it apart from all others of the crew; the lowest is the oldest.
        plan: The step.
        watched: See Maker.make.
        seat: Who makes it; None before that.
        ref: Ray's reference to what is made.
        arrived: Whether that is here, or what became of its actor.
        made: What is made, once it is here.
        look_at: When to ask how long it has been worked on.
    """

    number: int
    plan: Plan
    watched: bool
    seat: "Seat | None" = None
    ref: Any = None
    arrived: bool = False
    made: Made | None = None
    look_at: float = 0.0


@dataclass(slots=True, eq=False)
class Seat:
    """One of the crew's places, and the actor that has it now.

    Attributes:
        number: From 0.
        actor: Ray's handle.
        start: Reference to its `Begun`, None once that is here.
        begun: Who it is, once it has begun.
        here: Reference to its answer how long it has been starting, None where it was not asked; see Maker.starting.
        machine: The name of its machine, "" before it is on one.
        look_at: When to ask that again.
        tasks: What it was asked for and was not handed over yet.
    """

    number: int
    actor: Any
    start: Any
    begun: Begun | None = None
    here: Any = None
    machine: str = ""
    look_at: float = 0.0
    tasks: list[Task] = field(default_factory=list)

    @property
    def load(self) -> int:
        """Steps that it has still to make."""
        return sum(not task.arrived for task in self.tasks)
