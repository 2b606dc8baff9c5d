"""The augment stage: turn canvases into the images of a batch, on the CPU in the threads that decoded, or on the GPU.

A canvas is the memory that the decode stage writes for an image: the decoded, cropped and resized pixels.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.monitoring.recorder import Recorder
from dali_pipes.monitoring.work import Rows
from dali_pipes.stages.canvas_memory import Canvases, View, ViewCanvases, make_canvases
from dali_pipes.stages.cuda_streams import Ahead, SideStream
from dali_pipes.stages.data import Decoded, Fetched, Finished, Images, Pending, join
from dali_pipes.stages.threads import Render, Workers
from gpu_aug import BatchFunction, Draws, Recipe
from gpu_aug.engines.engine import takes_batches


class Engines:
    """Runs the augmentations of all views, each by the engine that its recipe uses.

    Args:
        views: The views of every sample.
        recorder: Measures augmenting and copying.

    Attributes:
        views: The views of every sample.
        columns: For each view, the frames of a clip, or the images of a sample, that it shows.
        recorder: Measures augmenting and copying.
        device: Device of the engines.
        can_split: Whether a step may be augmented in parts; False if a user's function takes the full batch.
    """

    def __init__(self, views: Sequence[View], recorder: Recorder) -> None:
        self.views, self.recorder = views, recorder
        self.columns = tuple(view.columns for view in views)
        self.device = views[0].device
        self.can_split = not any(takes_batches(view.recipe) for view in views)
        self._are_canvases = all(_is_canvas(view) for view in views)

    def empty(self, count: int) -> Images:
        """Allocate the images of `count` samples."""
        return tuple(view.empty(count) for view in self.views)

    def canvases(self, count: int) -> Canvases:
        """Allocate the canvases of `count` samples on the host, pinned if they are copied to a GPU."""
        # Most steps leave no row to our threads, and pinned memory costs a call of CUDA even for none.
        return make_canvases(self.views, count, pinned=count > 0 and self.device.type == "cuda")

    def canvases_in(self, images: Images) -> Canvases | None:
        """Return canvases in the memory of finished images, if these do not differ from their canvases; else None."""
        if not self._are_canvases:
            return None
        memory = tuple(one.permute(0, 2, 3, 1) for one in images)
        return Canvases(memory, self.columns, pinned=False, kind=self.views[0].kind)

    def upload(self, canvases: Canvases) -> list[ViewCanvases]:
        """Copy rendered canvases to the engines' device."""
        # Safe without waiting: torch's allocator reuses pinned memory only after this copy is done.
        with self.recorder.measure("transfer", num_bytes=_num_bytes(canvases.views)):
            return [
                [canvas.to(self.device, non_blocking=True) for canvas in view]
                if isinstance(view, list)
                else view.to(self.device, non_blocking=True)
                for view in canvases.views
            ]

    def augment(self, finished: Finished, canvases: Sequence[ViewCanvases]) -> Images:
        """Return the finished images of a step, from canvases of all rows on the engines' device."""
        images = self.empty(len(finished))
        work = Rows(finished.plan, ())
        self.run(finished.draws, finished.has_sample, canvases, images, work)
        return images

    def run(
        self,
        draws: Sequence[Draws],
        has_sample: NDArray[np.bool_],
        canvases: Sequence[ViewCanvases],
        images: Images,
        work: Rows,
    ) -> None:
        """Augment the canvases of some rows in every view, and write the results to `images`.

        Args:
            draws: The draws of each view.
            has_sample: bool [n], False for rows without a sample, whose images stay black.
            canvases: For each view, the canvases of these rows.
            images: For each view, the memory for the images of these rows; written.
            work: The samples, for reports about this work.
        """
        count, num_bytes = len(has_sample), sum(view.nbytes for view in images)
        with self.recorder.measure("augment", samples=count, num_bytes=num_bytes, work=work):
            for view, drawn, rendered, out in zip(self.views, draws, canvases, images, strict=True):
                if takes_batches(view.recipe):
                    drawn = _skip_empty_rows(view.recipe, drawn, has_sample)
                if view.images_per_row > 1:
                    drawn = drawn.repeat(view.images_per_row)
                view.engine.run(rendered, drawn, out)


class Augmenter:
    """Renders and augments steps: on the CPU in parts, one thread per part; on a GPU the full step at once.

    Args:
        variants: The engines of each recipe of the run.
        workers: The threads that render.
        memory: Returns the memory for the finished images of a step; None allocates new memory.

    Attributes:
        device: Device of the engines.
        side: The CUDA stream on which a GPU augments.
        workers: The threads that render.
    """

    def __init__(
        self,
        variants: Sequence[Engines],
        workers: Workers,
        memory: Callable[[Fetched], Images] | None = None,
    ) -> None:
        self._variants, self.workers = tuple(variants), workers
        self.device = self._variants[0].device
        self.side = SideStream(self.device)
        self._own = threading.local()
        self._memory = memory or (lambda fetched: self.engines_of(fetched).empty(len(fetched)))

    def engines_of(self, fetched: Fetched) -> Engines:
        """Return the engines of a step's recipe."""
        return self._variants[fetched.plan.variant]

    def spawn(self, fetched: Fetched, render: Render) -> Pending:
        """Start rendering the canvases of a step and, on the CPU, augmenting them; return the step in progress."""
        engines = self.engines_of(fetched)
        if self.device.type == "cpu":
            images = self._memory(fetched)
            self.workers.plan_ahead(fetched, sum(view.nbytes for view in images))
            return self._spawn_on_cpu(engines, fetched, render, images)
        canvases = engines.canvases(len(fetched))
        self.workers.plan_ahead(fetched, _num_bytes(canvases.views))

        def launch(parts: Sequence[Decoded]) -> tuple[Finished, Ahead]:
            finished = join(fetched, parts).finished()
            ahead = self.side.run(lambda: engines.augment(finished, engines.upload(canvases)))
            return finished, ahead

        parts = self.workers.render(fetched, render, canvases)
        return Pending(launch, parts, on_gpu=True)

    def launch(self, decoded: Decoded, canvases: Callable[[], Sequence[ViewCanvases]]) -> Pending:
        """Return a step in progress whose canvases a decoder has made; it is augmented on the side stream.

        Args:
            decoded: The step, with targets as read.
            canvases: Returns the canvases of all rows on the engines' device; it is called on the side stream.
        """
        finished = self.workers.move_all_targets(decoded).finished()
        engines = self.engines_of(decoded.fetched)
        ahead = self.side.run(lambda: engines.augment(finished, canvases()))
        return Pending(lambda _: (finished, ahead))

    def _spawn_on_cpu(
        self, engines: Engines, fetched: Fetched, render: Render, images: Images
    ) -> Pending:
        finish = partial(finish_in_memory, fetched, images)
        if not engines.can_split:
            return Pending(finish, [self._augment_together(engines, fetched, render, images)])
        augment = partial(self._augment_part, engines, fetched, render, images)
        parts = self.workers.parts(fetched)
        return Pending(finish, [self.workers.submit("decode", augment, *part) for part in parts])

    def _augment_part(
        self,
        engines: Engines,
        fetched: Fetched,
        render: Render,
        images: Images,
        start: int,
        stop: int,
    ) -> Decoded:
        """Render rows `start` to `stop` (half open), and augment them while their canvases are in the CPU's cache."""
        out = tuple(
            view[start * len(columns) : stop * len(columns)]
            for view, columns in zip(images, engines.columns, strict=True)
        )
        # Not for images: copying them takes little time, and few of their recipes have no batch stage.
        direct = engines.canvases_in(out) if self.workers.is_video else None
        canvases = direct or self._own_canvases(engines, stop - start)
        decoded = self.workers.decode(fetched.rows(start, stop), canvases, start, render)
        rows = decoded.fetched
        if direct is None:
            engines.run(rows.mixed_draws(), rows.has_sample, canvases.views, out, rows.work)
        return self.workers.move_targets(decoded)

    def _own_canvases(self, engines: Engines, count: int) -> Canvases:
        """Return canvases that this thread reuses for each part; new memory would cost page faults, 20 us per image."""
        own: dict[Engines, Canvases] = self._own.__dict__.setdefault("canvases", {})
        canvases = own.get(engines)
        if canvases is None or canvases.num_rows < count:
            canvases = own[engines] = engines.canvases(count)
        return canvases.first_rows(count)

    def _augment_together(
        self, engines: Engines, fetched: Fetched, render: Render, images: Images
    ) -> Future[Decoded]:
        """Render a step in parts, then augment all rows in one call, because a user's function takes the full batch."""
        canvases = engines.canvases(len(fetched))
        parts = self.workers.render(fetched, render, canvases)

        def augment() -> Decoded:
            decoded = join(fetched, [part.result() for part in parts])
            rows = decoded.fetched
            engines.run(rows.mixed_draws(), rows.has_sample, canvases.views, images, rows.work)
            return decoded

        # No deadlock: tasks start in submission order, so the other tasks are done or have a thread when this one starts.
        return self.workers.submit("augment", augment)


def finish_in_memory(
    fetched: Fetched, images: Images, parts: Sequence[Decoded]
) -> tuple[Finished, Ahead]:
    """Return the finished step, whose images the threads have written to `images` in CPU memory."""
    return join(fetched, parts).finished(), Ahead(images, None)


def _num_bytes(views: Sequence[ViewCanvases]) -> int:
    """Return the size of canvases in bytes."""
    return sum(
        sum(canvas.nbytes for canvas in view) if isinstance(view, list) else view.nbytes
        for view in views
    )


def _is_canvas(view: View) -> bool:
    """Return whether the finished images of a view have the bytes of its canvases, in the same order."""
    is_plain = not view.recipe.batch_leaves and view.recipe.decode_size is not None
    is_packed = view.memory_format == torch.channels_last
    return is_plain and is_packed and view.dtype == view.kind.dtype == torch.uint8


def _skip_empty_rows(recipe: Recipe, draws: Draws, has_sample: NDArray[np.bool_]) -> Draws:
    """Return draws by which functions on a batch do not get the black images of rows without a sample."""
    if has_sample.all():
        return draws
    params = tuple(
        drawn | {"apply": drawn["apply"] & has_sample} if isinstance(leaf, BatchFunction) else drawn
        for leaf, drawn in zip(recipe.batch_leaves, draws.params, strict=True)
    )
    return replace(draws, params=params)
