"""A crew of actors: who gets which step."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

import ray

from dali_pipes import ClusterError
from dali_pipes.integrations.ray.crew import Crew
from dali_pipes.integrations.ray.seat import Seat, Task
from dali_pipes.integrations.ray.workers import RayWorkers

DEAD = ray.exceptions.ActorDiedError()


class Crewed(Crew):
    """Two actors that never were, whose results are told by the numbers of steps; others take their places."""

    def __init__(self, results: dict[int, Any]) -> None:
        def get(ref: str, timeout: float | None = None) -> Any:
            del timeout
            result = results[int(ref.split()[0])]
            if isinstance(result, Exception):
                raise result
            return result

        def wait(refs: list[str], **_: Any) -> tuple[list[str], list[str]]:
            return [ref for ref in refs if int(ref.split()[0]) in results], []

        self._ray: Any = SimpleNamespace(exceptions=ray.exceptions, get=get, wait=wait)
        self.workers, self._most = RayWorkers(2), 3
        self._losses, self._unsent, self._told = [], [], False
        self._actors, self.given = {}, []
        self._end = lambda: None  # type: ignore[assignment]
        self._seats = [self._seat(number) for number in range(2)]

    def _seat(self, number: int) -> Seat:
        self._actors[number] = None
        begun: Any = SimpleNamespace(machine="m")
        return Seat(number, None, None, begun)

    def _send(self, task: Task, seat: Seat) -> None:
        self.given.append(task.number)
        task.seat, task.ref = seat, f"{task.number} by {id(seat)}"
        seat.tasks.append(task)

    def give(self, number: int) -> Task:
        """Ask for a step."""
        task = Task(number, None, False)  # type: ignore[arg-type]
        self._unsent.append(task)
        self._tend()
        return task


def test_a_dead_actor_gets_no_further_steps() -> None:
    """Though its error stands behind steps that are still made: it is replaced when it is heard of, and its steps made again."""
    results: dict[int, Any] = {}
    crew = Crewed(results)
    tasks = [crew.give(number) for number in range(4)]
    old = crew._seats[1]
    results[1] = DEAD

    later = crew.give(4)

    assert crew._seats[1] is not old
    assert later.seat is not old
    assert all(task.seat is not old for task in tasks)
    assert [task.number for task in tasks if task.arrived] == []


def test_what_a_lost_actor_made_before_is_kept() -> None:
    """A step that has arrived is handed over, not made again."""
    results: dict[int, Any] = {}
    crew = Crewed(results)
    tasks = [crew.give(number) for number in range(4)]
    results[1] = "made"
    crew._tend()
    results[3] = DEAD
    crew._tend()
    times = crew.given.count(1)

    assert (crew.take(tasks[1]), times) == ("made", 1)


def test_the_error_comes_behind_the_steps_before_it() -> None:
    """An actor that dies again and again ends the loop when its step is due, and not before."""
    results: dict[int, Any] = {}
    crew = Crewed(results)
    good, bad = crew.give(0), crew.give(1)
    results[1] = DEAD
    for _ in range(20):
        crew._tend()
    results[0] = "made"

    assert crew.take(good) == "made"
    with pytest.raises(ClusterError, match="replaced 6 times while no batch came"):
        crew.take(bad)
