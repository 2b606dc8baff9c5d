"""A simulated cluster, by discrete events, that `readers.prepare.scheduling` drives as it drives a real one."""

import heapq
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from readers.prepare.errors import WorkerLostError
from tests.support.simulated_shards import ENTRY, WRITING, Fate, Fates, Storage

_LOOK_SECONDS = 0.1  # a task whose shard is done already looks, and ends
_NODE_BACK_SECONDS = 300.0  # after which another node takes the place of a dead one
_NOTICE_SECONDS = 15.0  # for which the death of a node goes unnoticed, as in Ray
_RESTART_SECONDS = 2.0  # to replace a worker process


@dataclass(frozen=True)
class Machines:
    """Size of the cluster, and how it fails.

    Attributes:
        nodes: Number of nodes.
        places: Tasks that each runs at a time.
        node_dies_seconds: Interval at which one node after the other dies with its tasks; 0 for never.
        cut_off: Every Nth of these nodes is cut off instead: its tasks go on writing, but their results are lost; 0 for none.
    """

    nodes: int = 1
    places: int = 4
    node_dies_seconds: float = 0.0
    cut_off: int = 0


@dataclass
class Counts:
    """Counts of events.

    Attributes:
        attempts: Tasks that were handed over, repetitions included.
        deaths: Worker processes that died, by how far their tasks came: WRITING, FILE, INDEX, ENTRY.
        node_deaths: Nodes that died or were cut off.
        most_in_flight: Most tasks that were handed over and had not ended.
    """

    attempts: int = 0
    deaths: list[int] = field(default_factory=lambda: [0] * 4)
    node_deaths: int = 0
    most_in_flight: int = 0


@dataclass(eq=False, slots=True)
class Attempt:
    """One time that a task was handed over; the handle of `SimulatedCluster`."""

    number: int
    fate: Fate
    node: int = -1
    state: str = "waits"  # runs, cut off, gone
    lost: str = ""


class SimulatedCluster:
    """A `readers.prepare.scheduling.Cluster` whose time is `clock`.

    Args:
        storage: Destination of the shards.
        fates: The course of each attempt.
        machines: Size and failures of the cluster.
    """

    def __init__(self, storage: Storage, fates: Fates, machines: Machines) -> None:
        self._storage, self._fates, self._machines = storage, fates, machines
        self.counts = Counts()
        self._now, self._serial = 0.0, 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._tries: dict[int, int] = {}
        self._queue: deque[Attempt] = deque()
        self._lives = [0] * machines.nodes  # odd while a node is down
        self._free = [(node, 0) for _ in range(machines.places) for node in range(machines.nodes)]
        self._running: list[set[Attempt]] = [set() for _ in range(machines.nodes)]
        self._ended: list[Attempt] = []
        if machines.node_dies_seconds:
            self._after(machines.node_dies_seconds, partial(self._kill, 0))

    def clock(self) -> float:
        """Seconds since it began."""
        return self._now

    def running(self) -> int:
        """How many tasks run now."""
        return sum(map(len, self._running))

    def capacity(self) -> int:
        """See `readers.prepare.scheduling.Cluster`."""
        return sum(life % 2 == 0 for life in self._lives) * self._machines.places

    def submit(self, number: int) -> Attempt:
        """See `readers.prepare.scheduling.Cluster`."""
        tries = self._tries.get(number, 0)
        self._tries[number] = tries + 1
        attempt = Attempt(number, self._fates.of(number, tries))
        self._queue.append(attempt)
        self.counts.attempts += 1
        self._start()
        return attempt

    def wait(self, handles: Collection[Attempt], timeout_seconds: float) -> list[Attempt]:
        """See `readers.prepare.scheduling.Cluster`."""
        self.counts.most_in_flight = max(self.counts.most_in_flight, len(handles))
        until = self._now + timeout_seconds
        while self._events and self._events[0][0] <= (self._now if self._ended else until):
            moment, _, happen = heapq.heappop(self._events)
            self._now = max(self._now, moment)
            happen()
        if not self._ended:
            self._now = until
        ended, self._ended = [attempt for attempt in self._ended if attempt in handles], []
        return ended

    def result(self, handle: Attempt) -> int:
        """See `readers.prepare.scheduling.Cluster`."""
        if handle.lost:
            raise WorkerLostError(handle.lost)
        self._tries.pop(handle.number, None)
        return handle.number

    def cancel(self, handles: Collection[Attempt]) -> None:
        """See `readers.prepare.scheduling.Cluster`; a task that is cut off goes on all the same."""
        self._queue.clear()
        for attempt in handles:
            if attempt.state == "runs":
                self._leave(attempt, "gone")
                self._place(attempt.node, self._lives[attempt.node])

    def _after(self, seconds: float, happen: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._events, (self._now + seconds, self._serial, happen))

    def _place(self, node: int, life: int) -> None:
        """Give back the place of a task, if its node is still the one that it was."""
        if self._lives[node] == life:
            self._free.append((node, life))
            self._start()

    def _start(self) -> None:
        while self._queue and self._free:
            node, life = self._free.pop()
            if self._lives[node] != life:
                continue
            attempt = self._queue.popleft()
            attempt.node, attempt.state = node, "runs"
            self._running[node].add(attempt)
            seconds = attempt.fate.seconds
            if self._storage.has_entry(attempt.number):
                seconds = _LOOK_SECONDS
            elif attempt.fate.dies_after == WRITING:
                seconds *= attempt.fate.part
            if seconds < float("inf"):
                self._after(seconds, partial(self._end, attempt))

    def _end(self, attempt: Attempt) -> None:
        if attempt.state not in ("runs", "cut off"):
            return
        last = attempt.fate.dies_after
        if not self._storage.has_entry(attempt.number):
            self._storage.write(attempt.number, ENTRY if last is None else last)
        if attempt.state == "cut off":  # it wrote, and nobody hears of it
            return
        self._leave(attempt, "gone")
        self._ended.append(attempt)
        life = self._lives[attempt.node]
        if last is None:
            self._place(attempt.node, life)
            return
        self.counts.deaths[last] += 1
        attempt.lost = "its worker process died"
        self._after(_RESTART_SECONDS, partial(self._place, attempt.node, life))

    def _leave(self, attempt: Attempt, state: str) -> None:
        self._running[attempt.node].discard(attempt)
        attempt.state = state

    def _kill(self, node: int) -> None:
        machines, counts = self._machines, self.counts
        self._after(machines.node_dies_seconds, partial(self._kill, (node + 1) % machines.nodes))
        if self._lives[node] % 2:
            return
        counts.node_deaths += 1
        cut_off = machines.cut_off > 0 and counts.node_deaths % machines.cut_off == 0
        for attempt in list(self._running[node]):
            self._leave(attempt, "cut off" if cut_off else "gone")
            attempt.lost = "its node died"
            self._after(_NOTICE_SECONDS, partial(self._tell, attempt))
        self._lives[node] += 1
        self._after(_NODE_BACK_SECONDS, partial(self._revive, node))

    def _tell(self, attempt: Attempt) -> None:
        self._ended.append(attempt)

    def _revive(self, node: int) -> None:
        self._lives[node] += 1
        self._free.extend([(node, self._lives[node])] * self._machines.places)
        self._start()
