"""The steps of a loop from actors of a Ray cluster."""

import pickle
import time
from collections import deque
from collections.abc import Sequence

from dali_pipes.integrations.ray.maker import as_images
from dali_pipes.integrations.ray.worker_pool import Crew
from dali_pipes.integrations.ray.worker_slot import Task
from dali_pipes.monitoring.observer import shifted
from dali_pipes.stages.augment import Engines
from dali_pipes.stages.cuda_streams import Ahead
from dali_pipes.stages.data import Finished, Images
from dali_pipes.stages.shared_batch import Receiver, take_over
from dali_pipes.stages.shared_memory import Frame
from dali_pipes.steps.schedule import Plan
from gpu_aug.compiled.clock import clock


class RayBatchSource:
    """Takes steps that a crew made out of Ray's object store; see BatchSource.

    Args:
        crew: Serves other sources as well.
        frames: See Job.
        variants: The engines of each of the run's recipes. They have the memory of the batches; on a GPU they augment
            what the crew rendered. Their recorder gets what the crew did.
    """

    reusable = None  # the crew is kept in any case

    def __init__(
        self, crew: Crew, frames: Sequence[Sequence[Frame]], variants: Sequence[Engines]
    ) -> None:
        self.capacity = crew.capacity
        self._crew, self._frames, self._variants = crew, frames, variants
        self._recorder = variants[0].recorder
        self._tasks: deque[Task] = deque()
        self._receiver = Receiver(
            self._receive, lambda: crew.has_arrived(self._tasks), variants[0].device
        )

    def start(self, plan: Plan) -> None:
        """Start on a step; returns at once."""
        self._tasks.append(self._crew.submit(plan, watched=bool(self._recorder.observers)))

    def ready(self) -> int:
        """How many steps, from the oldest on, are here."""
        return self._receiver.ready()

    def account(self, seconds: float) -> str:
        """What the actors say of their threads; see Crew.account."""
        return self._crew.account(seconds)

    def take(self) -> tuple[Finished, Images]:
        """Wait for the oldest step."""
        return self._receiver.take()

    def close(self) -> None:
        """Drop what is under way."""
        self._receiver.close()
        self._crew.drop(self._tasks)
        self._tasks.clear()

    def _receive(self) -> tuple[Finished, Ahead]:
        began = time.perf_counter()
        made = self._crew.take(self._tasks[0])
        self._tasks.popleft()
        reply = made.reply
        clock.leave_out(min(reply.compiling, time.perf_counter() - began))
        self._recorder.absorb(reply.counts, reply.thread_seconds)
        # Clocks of two machines have only the one on the wall in common.
        ahead = made.wall_seconds - (time.time() - time.perf_counter())
        self._recorder.tell(shifted(reply.spans, ahead + reply.left_out - clock.left_out))
        if reply.error is not None:
            raise reply.error
        finished: Finished = pickle.loads(made.note.data)
        variant = finished.plan.variant
        shared = [
            as_images(data, frame)
            for data, frame in zip(made.images, self._frames[variant], strict=True)
        ]
        return take_over(self._variants[variant], finished, shared, self._receiver.side)
