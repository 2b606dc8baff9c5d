"""The last stage: canvases are augmented, by the threads that rendered them, or on the GPU."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from dali_pipes.pipeline.engines import Engines
from dali_pipes.pipeline.stages import Decoded, Fetched, Finished, Images, Pending, join
from dali_pipes.pipeline.threads import Render, Workers


class Augmenter:
    """Goes on from fetched samples with a function that renders them: on the CPU in chunks, on a GPU with the step.

    Args:
        engines: What augments.
        workers: The threads that render.
        memory: Returns where the finished images of a step go; None takes new memory.

    Attributes:
        engines: As given.
        workers: As given.
    """

    def __init__(
        self,
        engines: Engines,
        workers: Workers,
        memory: Callable[[Fetched], Images] | None = None,
    ) -> None:
        self.engines, self.workers = engines, workers
        self._memory = memory or (lambda fetched: engines.empty(len(fetched)))

    def spawn(self, fetched: Fetched, render: Render) -> Pending:
        """Start rendering the canvases of a step, and on the CPU augmenting them."""
        if self.engines.device.type == "cpu":
            return self._spawn_on_cpu(fetched, render, self._memory(fetched))
        engines, canvases = self.engines, self.engines.canvases(len(fetched))

        def finish(parts: Sequence[Decoded]) -> tuple[Finished, Images]:
            finished = join(fetched, parts).finished()
            return finished, engines.augment(finished, engines.upload(canvases))

        return Pending(finish, self.workers.render(fetched, render, canvases))

    def _spawn_on_cpu(self, fetched: Fetched, render: Render, images: Images) -> Pending:
        def finish(parts: Sequence[Decoded]) -> tuple[Finished, Images]:
            return join(fetched, parts).finished(), images

        if not self.engines.one_by_one:
            return Pending(finish, [self._augment_together(fetched, render, images)])
        submit, chunks = self.workers.pool.submit, self.workers.chunks(len(fetched))
        parts = [submit(self._augment_chunk, fetched, render, images, *one) for one in chunks]
        return Pending(finish, parts)

    def _augment_chunk(
        self, fetched: Fetched, render: Render, images: Images, start: int, stop: int
    ) -> Decoded:
        """Render and augment the rows start to stop (half open), while their canvases are in the cache."""
        canvases, timings = self.engines.canvases(stop - start), self.workers.timings
        with timings.measure("decode"):
            decoded = render(fetched.rows(start, stop), canvases, start)
        with timings.measure("augment"):
            rows, times = decoded.fetched, canvases.times
            out = tuple(view[start * times : stop * times] for view in images)
            self.engines.run(rows.mixed_draws(), rows.kept(), canvases.views, out)
            return self.workers.move_targets(decoded)

    def _augment_together(
        self, fetched: Fetched, render: Render, images: Images
    ) -> Future[Decoded]:
        """Augment a whole step once it is rendered, for a function of the user takes it together."""
        canvases = self.engines.canvases(len(fetched))
        parts = self.workers.render(fetched, render, canvases)

        def augment() -> Decoded:
            decoded = join(fetched, [part.result() for part in parts])
            with self.workers.timings.measure("augment"):
                rows = decoded.fetched
                self.engines.run(rows.mixed_draws(), rows.kept(), canvases.views, images)
            return decoded

        # Tasks begin in their order: when this one does, the others are done or have a thread.
        return self.workers.pool.submit(augment)
