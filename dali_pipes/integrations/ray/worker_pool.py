"""Manage the Ray actors that make the steps of a loader (WorkerPool).

An actor that dies or is late is replaced, and its steps are made again.
"""

import itertools
import logging
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from dali_pipes.errors import ClusterError
from dali_pipes.integrations.ray.cluster import (
    connect,
    first_line,
    require_machine,
    require_ray,
    require_store,
    shortage,
)
from dali_pipes.integrations.ray.consistency import missing_code, probe, versions
from dali_pipes.integrations.ray.maker import STEPS_AT_ONCE, LateError, MadeStep, Maker, as_memory
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.stages.endings import end
from dali_pipes.stages.job import Job
from dali_pipes.stages.shared_batch import SentStep
from dali_pipes.steps.schedule import Plan
from readers.plural import counted

_log = logging.getLogger(f"gpu_aug.{__name__}")

# Interval of checking workers that have not started; a result ends the wait at once.
_LOOK_SECONDS = 1.0
# Time without any started worker before a warning: imports take some seconds, more on a busy machine.
_WARN_SECONDS = 30.0
# Time without any worker before an error, if the cluster has no cores or no machine fits the placement: a cloud starts a machine
# within minutes.
_GIVE_UP_SECONDS = 900.0
# Time for a worker past its deadline to answer: compilers hold the GIL for seconds, not minutes.
_ANSWER_SECONDS = 60.0
# Replacements per worker without any received step before an error: then a step, not a machine, makes workers end.
_REPLACEMENTS = 3


@dataclass(slots=True, eq=False)
class Worker:
    """A Ray actor of the pool.

    Attributes:
        number: Index of the actor in the pool; a replacement gets the index of the replaced actor.
        actor: Ray's handle of the actor.
        machine: Name of the actor's machine; "" until the actor has started.
    """

    number: int
    actor: Any
    machine: str = ""


@dataclass(slots=True, eq=False)
class Step:
    """A step to be made.

    Attributes:
        number: Index of the step among all steps of the pool; older steps have lower indices.
        plan: The plan of the step.
        is_watched: Whether the worker records each stage call.
        worker: The worker that makes the step; None before the step is sent.
        made: The finished step; None until it has arrived.
    """

    number: int
    plan: Plan
    is_watched: bool
    worker: Worker | None = None
    made: MadeStep | None = None


class WorkerPool:
    """Actors that make steps, for one or several loops at a time; see BatchMakers.

    Only one thread at a time may call the methods, except `describe_remote_threads` and `machines`. Ray does not
    restart actors: the steps of an actor would wait for it while other workers are free (DECISIONS.md, "Batches made on
    other machines").

    Args:
        workers: The user's choice of actors.
        job: Describes the batches.
        data: The pickled job, uint8 [bytes].

    Raises:
        ClusterError: The cluster cannot be reached, no machine has the resources of a worker, or the object store of
            this machine is too small.
    """

    def __init__(self, workers: RayWorkers, job: Job, data: Any) -> None:
        self._ray = ray = connect(workers.address)
        self._options, self._job = workers, job
        self.capacity, self.left_out = job.steps_ahead + workers.count - 1, 0.0
        require_machine("a worker of the loader", workers.resources)
        self._store_bytes = (self.capacity + 1) * job.step_bytes + data.nbytes
        context = ray.get_runtime_context()
        require_store(context.get_node_id(), self._store_bytes, "this machine")
        self._session = context.get_job_id()
        groups = {"make": STEPS_AT_ONCE, "ask": 1}
        self._class = ray.remote(concurrency_groups=groups)(Maker).options(
            **{"scheduling_strategy": "SPREAD", **workers.placement},
            num_cpus=workers.num_cpus,
            max_restarts=0,  # this class replaces dead actors
            max_task_retries=0,
        )
        self._job_for_workers = versions(), ray.put(data), probe(job.setup.fetcher.dataset)
        self._steps_per_worker = -(-(self.capacity + 1) // workers.count) + 1
        self._numbers = itertools.count()
        # Keyed by Ray's reference to the result.
        self._pending: dict[Any, tuple[Worker, Step | None]] = {}
        self._unsent: list[Step] = []
        self._losses: list[str] = []
        self._failure: BaseException | None = None
        self._since_seconds, self._has_warned = time.monotonic(), False
        self._workers: list[Worker] = []
        self._end = weakref.finalize(self, end, partial(_kill_all, self._workers))
        for number in range(workers.count):
            self._workers.append(self._started_worker(number))

    @property
    def is_alive(self) -> bool:
        """Whether the workers were not ended, and the process still has the connection with which it started them."""
        ray = self._ray
        return (
            self._end.alive
            and ray.is_initialized()
            and ray.get_runtime_context().get_job_id() == self._session
        )

    def machines(self) -> list[str]:
        """Return the names of the machines on which workers have started."""
        return [worker.machine for worker in list(self._workers) if worker.machine]

    def start(self, plan: Plan, *, is_watched: bool) -> Step:
        """Queue a step for the least busy worker, and return the step as the handle for `receive`."""
        step = Step(next(self._numbers), plan, is_watched)
        self._unsent.append(step)
        self._advance()
        return step

    def num_ready(self, handles: Iterable[Step]) -> int:
        """Return how many of these steps, from the first one on, have arrived."""
        self._advance()
        return sum(1 for _ in itertools.takewhile(lambda step: step.made is not None, handles))

    def receive(self, handle: Step) -> SentStep:
        """Wait for the oldest step that was not received yet, and return it.

        Raises:
            ClusterError: Workers were replaced too often, or cannot make the step.
        """
        self._advance()
        since_seconds = time.monotonic()
        while (made := handle.made) is None:
            if self._failure is not None and handle.worker is None:
                self.close()  # the next loop starts new workers
                raise self._failure
            self._advance(_LOOK_SECONDS)
            self._check_start()
            if time.monotonic() - since_seconds > self._options.deadline_seconds:
                self._replace_stopped(handle.worker)
                since_seconds = time.monotonic()
        handle.made = None
        self._losses.clear()
        frames = self._job.frames[handle.plan.variant]
        return SentStep(
            made.report,
            made.metadata.data,
            lambda finished: [
                frame.images(as_memory(data), len(finished))
                for frame, data in zip(frames, made.images, strict=True)
            ],
            made.wall_seconds - (time.time() - time.perf_counter()),
        )

    def drop(self, handles: Iterable[Step]) -> None:
        """Discard steps; a step that a worker has started is still finished."""
        dropped = set(handles)
        self._unsent = [step for step in self._unsent if step not in dropped]
        for ref, (_, step) in list(self._pending.items()):
            if step in dropped:
                del self._pending[ref]
                with suppress(Exception):  # the actor may be dead, or the connection may be closed
                    self._ray.cancel(ref)

    def describe_remote_threads(self, seconds: float) -> str:
        """Return a text about what the workers' threads do; any thread may call it."""
        workers = list(self._workers)
        asked = {
            worker.number: worker.actor.describe_threads.options(concurrency_group="ask").remote()
            for worker in workers
            if worker.machine
        }
        refs = list(asked.values())
        done = self._ray.wait(refs, num_returns=len(refs), timeout=seconds)[0] if refs else []
        return "\n".join(
            self._account(worker, asked.get(worker.number), done) for worker in workers
        )

    def close(self) -> None:
        """End the workers."""
        self._end()

    def _advance(self, seconds: float = 0) -> None:
        """Receive results that have arrived, and send steps to workers that have room.

        Args:
            seconds: Longest time to wait for a result.
        """
        refs = list(self._pending)
        count = 1 if seconds else len(refs)
        done = self._ray.wait(refs, num_returns=count, timeout=seconds)[0] if refs else []
        for ref in done:
            if ref in self._pending:  # otherwise its worker was replaced meanwhile
                self._take_in(ref, *self._pending[ref])
        while self._unsent and self._failure is None:
            worker = self._least_busy()
            if worker is None:
                return
            self._send(self._unsent.pop(0), worker)

    def _take_in(self, ref: Any, worker: Worker, step: Step | None) -> None:
        """Store a result of Ray; an error that ends the loop is raised after all previous steps were received."""
        errors = self._ray.exceptions
        try:
            result = self._ray.get(ref, timeout=self._options.deadline_seconds)
        except errors.RayTaskError as error:
            if not isinstance(error.cause, LateError):
                self._failure = error.cause
            self._replace(worker, error.cause)
        except errors.RayError as error:
            self._failure = missing_code(error) or self._failure
            self._replace(worker, error)
        else:
            del self._pending[ref]
            if step is None:
                self._begin(worker, *result)
            else:
                step.made = result

    def _begin(self, worker: Worker, machine: str, node: str) -> None:
        """Allow a worker to get steps, unless the object store of its machine is too small."""
        try:
            require_store(node, self._store_bytes, machine)
        except ClusterError as error:
            self._failure = error
            return
        worker.machine = machine
        _log.info("worker %d of the loader is on %s", worker.number, machine)

    def _replace(self, worker: Worker, reason: object) -> None:
        """End a worker, queue its steps again, and start a replacement unless the loop has failed."""
        _kill(worker)
        for ref, (other, step) in list(self._pending.items()):
            if other is worker:
                del self._pending[ref]
                if step is not None:
                    step.worker = None
                    self._unsent.append(step)
        self._unsent.sort(key=lambda step: step.number)
        if self._failure is not None:
            return
        where = f"worker {worker.number}" + f" on {worker.machine}" * bool(worker.machine)
        cause = str(reason) if isinstance(reason, LateError) else first_line(reason)
        self._losses.append(f"{where}: {cause}")
        self._since_seconds = time.monotonic()  # there was a machine until now
        if len(self._losses) > _REPLACEMENTS * self._options.count:
            self._failure = ClusterError(
                f"workers of the loader were replaced {len(self._losses) - 1} times while no batch came; the latest one was "
                f"{self._losses[-1]}: see the logs of Ray on that machine, and give the workers more memory, or a longer "
                f"deadline_seconds than {self._options.deadline_seconds:g}"
            )
            return
        _log.warning("%s of the loader is replaced: %s", where, cause)
        self._workers[worker.number] = self._started_worker(worker.number)

    def _replace_stopped(self, worker: Worker | None) -> None:
        """Replace a worker that does not answer: a suspended process cannot notice that its deadline has passed."""
        if worker is None:
            return
        answer = worker.actor.describe_threads.options(concurrency_group="ask").remote()
        if not self._ray.wait([answer], timeout=_ANSWER_SECONDS)[0]:
            seconds = self._options.deadline_seconds
            self._replace(
                worker, LateError(f"it is beyond its deadline of {seconds:g} s and does not answer")
            )

    def _started_worker(self, number: int) -> Worker:
        worker = Worker(number, self._class.remote(self._options.deadline_seconds))
        self._pending[worker.actor.begin.remote(*self._job_for_workers)] = (worker, None)
        return worker

    def _least_busy(self) -> Worker | None:
        """Return the worker with the fewest steps; None if no worker has room."""
        # While workers are being lost, each gets one step, so that a step that ends its worker affects no other step.
        most = 1 if self._losses else self._steps_per_worker
        loads = self._loads()
        free = [
            worker for worker in self._workers if worker.machine and loads[worker.number] < most
        ]
        return min(free, key=lambda worker: loads[worker.number], default=None)

    def _loads(self) -> Counter[int]:
        """Return for the index of each worker how many steps it has."""
        pending = list(self._pending.values())
        return Counter(worker.number for worker, step in pending if step is not None)

    def _send(self, step: Step, worker: Worker) -> None:
        make = worker.actor.make.options(concurrency_group="make")
        step.worker = worker
        self._pending[make.remote(step.plan, step.is_watched)] = (worker, step)

    def _check_start(self) -> None:
        """Warn if no worker has started for a long time, and raise if no machine can ever run one."""
        seconds = time.monotonic() - self._since_seconds
        if seconds < _WARN_SECONDS or self.machines():
            return
        wanted, asked = self._options.resources, self._options.description
        free = shortage(wanted)
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "no worker of the loader has started for %.0f s: each needs %s, and the cluster has %s free",
                *(seconds, asked, free or "that"),
            )
        if seconds < _GIVE_UP_SECONDS:
            return
        try:
            require_machine("a worker of the loader", wanted, may_grow=False)
        except ClusterError as error:
            self._failure = error
        if self._options.where and not free:
            self._failure = ClusterError(
                f"no worker of the loader has started for {seconds / 60:.0f} minutes: each needs {asked}, which the cluster "
                "has free, but on no machine of that placement: correct the placement, or add such a machine"
            )

    def _account(self, worker: Worker, ref: Any, done: Sequence[Any]) -> str:
        if ref is None:
            return (
                f"Worker {worker.number} is starting, or waits until the cluster has "
                f"{self._options.description} for it"
            )
        steps = counted(self._loads()[worker.number], "step")
        head = f"In worker {worker.number} on {worker.machine}, which has {steps} to make:"
        if ref not in done:
            return f"{head}\n  it does not answer"
        try:
            return f"{head}\n{self._ray.get(ref, timeout=1)}"
        except self._ray.exceptions.RayError as error:
            return f"{head}\n  {first_line(error)}"


def _kill_all(workers: list[Worker]) -> None:
    for worker in workers:
        _kill(worker)
    workers.clear()


def _kill(worker: Worker) -> None:
    ray = require_ray()
    if ray.is_initialized():  # otherwise the actors ended with the connection
        with suppress(Exception):  # the actor or its machine may be dead already
            ray.kill(worker.actor, no_restart=True)
