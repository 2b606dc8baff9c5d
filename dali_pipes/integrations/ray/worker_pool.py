"""Crew: the actors that make the steps of a loader; one that dies or is late is replaced, and its steps made again."""

import itertools
import logging
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from dali_pipes.errors import ClusterError
from dali_pipes.integrations.ray.capacity_check import (
    MOST_EMPTY_SECONDS,
    require_machine,
    require_place,
    require_room,
)
from dali_pipes.integrations.ray.connect import connect, require_ray
from dali_pipes.integrations.ray.maker import STEPS_AT_ONCE, Begun, Made, Maker
from dali_pipes.integrations.ray.probe import probe
from dali_pipes.integrations.ray.versions import missing_code, versions
from dali_pipes.integrations.ray.worker_slot import Seat, Task
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.stages.endings import end
from dali_pipes.stages.job import Job
from dali_pipes.steps.schedule import Plan
from readers.plural import counted

_log = logging.getLogger(f"gpu_aug.{__name__}")

_ANSWER_SECONDS = 10.0  # for an actor that is asked how long it has worked on a step
_TELL_SECONDS = 30.0  # without any actor that has started, before that is told
_REPLACEMENTS = 3  # of every actor, without a step that is handed over


class Crew:
    """Actors that make steps; tasks may be given in any order and taken in any.

    Its methods are called by one thread at a time, but for `account` and `machines`.

    Args:
        workers: Which actors.
        job: What they are told.
        data: The pickled job.

    Raises:
        ClusterError: The cluster cannot be reached, or has no machine or no room for this.
    """

    maker: type[Maker] = Maker

    def __init__(self, workers: RayWorkers, job: Job, data: Any) -> None:
        self._ray = ray = connect(workers.address)
        self.workers = workers
        self.capacity = job.steps_ahead + workers.count - 1
        require_machine(workers)
        largest = max(sum(frame.size_bytes for frame in frames) for frames in job.frames)
        self._needed = (self.capacity + 1) * largest + data.nbytes
        node = ray.get_runtime_context().get_node_id()
        require_room(node, self._needed, "this machine")
        self._session = ray.get_runtime_context().get_job_id()
        groups = {"make": STEPS_AT_ONCE, "ask": 1}
        remote = ray.remote(concurrency_groups=groups)(self.maker)
        self._class = remote.options(**workers.actor_options)
        self._probe, self._job = probe(job.setup.fetcher.dataset), ray.put(data)
        self._unsent: list[Task] = []
        self._numbers = itertools.count()
        self._losses: list[str] = []
        self._actors: dict[int, Any] = {}
        self._end = weakref.finalize(self, end, partial(_end, self._actors))
        self._most = -(-(self.capacity + 1) // workers.count) + 1
        self._told, self._since = False, time.monotonic()
        self._seats = [self._seat(number) for number in range(workers.count)]

    @property
    def is_alive(self) -> bool:
        """Whether the process is still connected to the cluster as it was."""
        ray = self._ray
        return (
            self._end.alive
            and ray.is_initialized()
            and ray.get_runtime_context().get_job_id() == self._session
        )

    def machines(self) -> list[str]:
        """The machines of those that have begun."""
        return [seat.begun.machine for seat in list(self._seats) if seat.begun is not None]

    def submit(self, plan: Plan, *, watched: bool) -> Task:
        """Start on a step; returns at once."""
        task = Task(next(self._numbers), plan, watched)
        self._unsent.append(task)
        self._tend()
        return task

    def has_arrived(self, tasks: Iterable[Task]) -> int:
        """How many steps, from the first on, are here."""
        self._tend()
        return len(list(itertools.takewhile(lambda task: task.arrived, tasks)))

    def take(self, task: Task) -> Made:
        """Wait for a step.

        Raises:
            ClusterError: Actors die again and again, or one cannot do the work.
        """
        while True:
            self._tend()
            if not task.arrived:
                self._wait(task)
                continue
            assert task.seat is not None
            if task.made is None:  # the error that came instead
                self._receive(task, due=True)
                continue
            made, task.made, task.ref = task.made, None, None
            task.seat.tasks.remove(task)
            self._losses.clear()
            return made

    def drop(self, tasks: Iterable[Task]) -> None:
        """Forget steps that nobody waits for any more; what is under way is finished in vain."""
        for task in tasks:
            if task.seat is not None and task in task.seat.tasks:
                task.seat.tasks.remove(task)
            elif task in self._unsent:
                self._unsent.remove(task)
            if task.ref is not None and not task.arrived:
                with suppress(Exception):  # the actor may be gone, or Ray
                    self._ray.cancel(task.ref)
            task.ref = task.made = None

    def account(self, seconds: float) -> str:
        """Ask the actors what their threads do; callable from any thread."""
        asked = [(seat, self._ask(seat)) for seat in list(self._seats)]
        refs = [ref for _, ref in asked if ref is not None]
        done = self._ray.wait(refs, num_returns=len(refs), timeout=seconds)[0] if refs else []
        return "\n".join(self._words(seat, ref, done) for seat, ref in asked)

    def close(self) -> None:
        """End the actors."""
        self._end()

    def _tend(self) -> None:
        """Look at what has begun and what has arrived, and give out what nobody works on; waits for nothing."""
        for seat in self._seats:
            if seat.start is not None and self._done([seat.start]):
                self._begin(seat)
            elif seat.start is not None:
                self._look_at_start(seat)
        under_way = {task.ref: task for task in self._under_way()}
        for ref in self._done(list(under_way)):
            if under_way[ref].ref is ref:  # else its actor was lost a moment ago
                self._receive(under_way[ref])
        while self._unsent and (seat_with_room := self._least_busy()) is not None:
            self._send(self._unsent.pop(0), seat_with_room)

    def _receive(self, task: Task, *, due: bool = False) -> None:
        """Take in what has arrived; an actor that died gets no more steps from here on.

        Args:
            task: Its result, or an error, is here.
            due: Whether somebody waits for it: what ends the loop is raised only then, behind the steps before it.

        Raises:
            ClusterError: Actors die again and again.
            Exception: What an actor raised that is not of the step: those errors are in its reply.
        """
        assert task.seat is not None
        task.arrived = True
        try:
            task.made = self._ray.get(task.ref, timeout=self.workers.deadline_seconds)
        except self._ray.exceptions.RayTaskError as error:
            if due:
                raise self._failed(error.cause) from None
        except self._ray.exceptions.RayError as error:
            if due or len(self._losses) < _REPLACEMENTS * self.workers.count:
                self._lose(task.seat, error)

    def _wait(self, task: Task) -> None:
        """Wait until something happens, or it is time to look after the actor of a step."""
        starting = [seat for seat in self._seats if seat.start is not None]
        refs = [seat.start for seat in starting]
        refs += [seat.here for seat in starting if seat.here is not None]
        refs += [one.ref for one in self._under_way()] if self._unsent else []
        if task.ref is not None and task.ref not in refs:
            refs.append(task.ref)
        now = time.monotonic()
        timeout = _TELL_SECONDS if task.seat is None else max(0.0, task.look_at - now)
        # Those that have no machine yet are not asked, and wake nobody.
        begins = min((_look_at(seat) - now for seat in starting if seat.machine), default=timeout)
        if self._ray.wait(refs, num_returns=1, timeout=max(0.0, min(timeout, begins)))[0]:
            return
        if begins < timeout:
            return
        if task.seat is not None:
            self._look_after(task)
        elif not self.machines():
            self._tell_of_none(now)

    def _tell_of_none(self, now: float) -> None:
        """Say that no actor has started, and give up in the end where no machine could take one.

        Raises:
            ClusterError: There has been none for too long.
        """
        if now - self._since >= MOST_EMPTY_SECONDS:
            try:
                require_machine(self.workers, may_grow=False)
                require_place(self.workers)
            except ClusterError as error:
                raise self._failed(error) from None
        if not self._told:
            self._told = True
            free = self._ray.available_resources()
            _log.warning(
                "no worker of the loader has started for %.0f s: each asks Ray for %s, and the cluster has %s free",
                _TELL_SECONDS,
                self.workers.asked,
                {name: free.get(name, 0) for name in self.workers.resources},
            )

    def _look_at_start(self, seat: Seat) -> None:
        """End an actor that has been starting for too long; one that waits for a machine may wait."""
        now, deadline = time.monotonic(), self.workers.deadline_seconds
        if seat.here is None:
            if now >= seat.look_at:
                seat.here = _ask_start(seat.actor)
        elif self._done([seat.here]):
            try:
                seat.machine, seconds = self._ray.get(seat.here)
            except self._ray.exceptions.RayError:  # its start will say why
                seconds = 0.0
            seat.here, seat.look_at = None, now + deadline - seconds
            if seconds >= deadline:
                self._lose(seat, f"it has been starting for {seconds:.1f} s")
        elif seat.machine and now >= _look_at(seat):
            self._lose(
                seat, f"it gave no sign of life for {_ANSWER_SECONDS:.0f} s while it started"
            )

    def _look_after(self, task: Task) -> None:
        """Ask the actor of a step that was long under way; end it where it is late."""
        seat, deadline = task.seat, self.workers.deadline_seconds
        assert seat is not None
        try:
            ask = seat.actor.seconds.options(concurrency_group="ask")
            seconds = self._ray.get(ask.remote(task.number), timeout=_ANSWER_SECONDS)
        except self._ray.exceptions.GetTimeoutError:
            self._lose(seat, f"it gave no sign of life for {_ANSWER_SECONDS:.0f} s")
        except self._ray.exceptions.RayError as error:
            self._lose(seat, error)
        else:
            if seconds >= deadline:
                self._lose(seat, f"it has worked on a step for {seconds:.1f} s")
            else:
                task.look_at = time.monotonic() + deadline - seconds

    def _lose(self, seat: Seat, why: object) -> None:
        """End an actor and let others make its steps.

        Raises:
            ClusterError: That has happened too often since a step was handed over.
        """
        where = f"worker {seat.number}"
        if seat.machine:
            where += f" on {seat.machine}"
        words = _told(why)
        _log.warning("%s of the loader is replaced: %s", where, words)
        self._losses.append(f"{where}: {words}")
        self._since = time.monotonic()  # the last moment with a machine, as far as is known
        _kill(self._actors.pop(seat.number))
        lost = [task for task in seat.tasks if task.made is None]
        for task in lost:
            task.seat, task.ref, task.arrived = None, None, False
            seat.tasks.remove(task)
        self._unsent = sorted([*lost, *self._unsent], key=lambda task: task.number)
        if len(self._losses) > _REPLACEMENTS * self.workers.count:
            raise self._failed(
                ClusterError(
                    f"workers of the loader were replaced {len(self._losses) - 1} times while no batch came; the latest one was "
                    f"{self._losses[-1]}: see the logs of Ray on that machine, and give them more memory, or a longer "
                    f"deadline_seconds than {self.workers.deadline_seconds:g}"
                )
            )
        self._seats[seat.number] = self._seat(seat.number)

    def _failed(self, error: BaseException) -> BaseException:
        """End all actors before an error that the loop ends with: the next loop begins with others."""
        self.close()
        return error

    def _seat(self, number: int) -> Seat:
        """Start an actor; it is looked for when something is done."""
        actor = self._actors[number] = self._class.remote()
        start = actor.begin.remote(versions(), self._job, self._probe)
        return Seat(number, actor, start, here=_ask_start(actor))

    def _begin(self, seat: Seat) -> None:
        """Hear what an actor says that has started.

        Raises:
            ClusterError: It cannot do the work.
        """
        exceptions = self._ray.exceptions
        try:
            begun: Begun = self._ray.get(seat.start)
        except exceptions.RayTaskError as error:
            raise self._failed(error.cause) from None
        except exceptions.RayError as error:
            if (missing := missing_code(error)) is not None:
                raise self._failed(missing) from error
            self._lose(seat, error)
            return
        try:
            require_room(begun.node, self._needed, begun.machine)
        except ClusterError as error:
            raise self._failed(error) from None
        seat.start, seat.here, seat.begun, seat.machine = None, None, begun, begun.machine
        _log.info("worker %d of the loader is on %s", seat.number, begun.machine)

    def _least_busy(self) -> Seat | None:
        # A step that ends its actor must not take others with it, time after time.
        most = 1 if self._losses else self._most
        free = [seat for seat in self._seats if seat.begun is not None and seat.load < most]
        return min(free, key=lambda seat: seat.load, default=None)

    def _send(self, task: Task, seat: Seat) -> None:
        make = seat.actor.make.options(concurrency_group="make")
        task.seat, task.ref = seat, make.remote(task.plan, task.number, task.watched)
        task.look_at = time.monotonic() + self.workers.deadline_seconds
        seat.tasks.append(task)

    def _under_way(self) -> list[Task]:
        return [task for seat in self._seats for task in seat.tasks if not task.arrived]

    def _done(self, refs: list[Any]) -> list[Any]:
        """Which of some results are here; Ray fetches the others once they are made."""
        done: list[Any] = self._ray.wait(refs, num_returns=len(refs), timeout=0)[0] if refs else []
        return done

    def _ask(self, seat: Seat) -> Any:
        if seat.begun is None:
            return None
        return seat.actor.account.options(concurrency_group="ask").remote()

    def _words(self, seat: Seat, ref: Any, done: list[Any]) -> str:
        if seat.begun is None:
            return f"Worker {seat.number} is starting, or waits until the cluster has {self.workers.asked} for it"
        who = f"In worker {seat.number} on {seat.begun.machine}, which has {counted(seat.load, 'step')} to make:"
        if ref not in done:
            return f"{who}\n  it does not answer"
        try:
            return f"{who}\n{self._ray.get(ref, timeout=1)}"
        except self._ray.exceptions.RayError as error:
            return f"{who}\n  {_told(error)}"


def _told(why: object) -> str:
    """The first line of an error that is not empty; Ray's errors have many."""
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    name = type(why).__name__
    return (
        f"{name}: {lines[0]}"
        if isinstance(why, Exception) and lines
        else "".join(lines[:1]) or name
    )


def _look_at(seat: Seat) -> float:
    """When to look after an actor that is starting: to ask it, or to find that it has not answered."""
    return seat.look_at + _ANSWER_SECONDS * (seat.here is not None)


def _ask_start(actor: Any) -> Any:
    return actor.starting.options(concurrency_group="ask").remote()


def _end(actors: dict[int, Any]) -> None:
    for actor in actors.values():
        _kill(actor)
    actors.clear()


def _kill(actor: Any) -> None:
    ray = require_ray()
    if ray.is_initialized():  # else the actors have ended with the connection
        with suppress(Exception):  # it may be dead, or its node
            ray.kill(actor, no_restart=True)
