"""The threads of a loader, and the division of a step's rows among them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import torch

from dali_pipes.monitoring.counts import Stage
from dali_pipes.samples import targets
from dali_pipes.stages.canvas_memory import Canvases
from dali_pipes.stages.data import NO_TARGETS, Decoded, Fetched
from dali_pipes.stages.fetch import LARGEST_GROUP, Fetcher
from gpu_aug.compiled.clock import clock

T = TypeVar("T")

# Images of a part, which a thread takes at once. With fewer images, handing over the GIL takes longer than the work
# in between; measured in DECISIONS.md, "Images in a part of a batch".
PART_IMAGES = 64
# A part has at most the pixels of 64 photographs of 500x375: fewer of the larger images keep a thread busy, too.
_PART_PIXELS = 64 * 500 * 375

# Fewest steps ahead: one is fetched while another is decoded.
_FEWEST_STEPS = 2
# With larger steps, one ahead is enough: they take long, and the loop and the training hold one each.
_LARGE_BYTES = 96 << 20
# Largest memory of the images and files of the steps ahead with prefetch="auto": training machines have at least 2 GiB
# per core.
_AHEAD_BYTES = 1 << 30

Render = Callable[[Fetched, Canvases, int], Decoded]
"""A function that decodes some rows of a step, reads their targets, and renders their canvases.

Rows without a sample become black. Its arguments are the rows, their canvases, and the index in the step of the first row."""


class Workers:
    """Threads that render the canvases of a step, each thread some rows of it.

    Args:
        fetcher: The first stage, which fetches the samples.
        num_threads: Number of threads.

    Attributes:
        pool: The threads.
        recorder: Measures the threads' work and their waiting.
        is_video: Whether samples are clips.
        steps_ahead: Number of steps that keep all threads busy, estimated from the latest step.
    """

    def __init__(self, fetcher: Fetcher, num_threads: int) -> None:
        self.recorder, self.is_video = fetcher.recorder, fetcher.clips is not None
        self.pool = single_threaded_pool(num_threads)
        self._variants, self._times = fetcher.variants.views, fetcher.images_per_row
        self._group = fetcher.variants.group if self._times > 1 else LARGEST_GROUP
        self._num_threads = num_threads
        self._vectors = fetcher.targets.maps.vectors
        self.steps_ahead = _FEWEST_STEPS

    def parts(self, fetched: Fetched) -> list[tuple[int, int]]:
        """Divide the rows of a step into parts for one thread each; return start and stop (half open) of each part.

        The size of a part depends only on the images, so that threads work long without the GIL. More threads need more
        steps ahead, not smaller parts.
        """
        count = len(fetched)
        if not count:
            return []
        pixels = max(1, int(fetched.sizes.prod(axis=1).sum()) // count) * self._times
        most = min(PART_IMAGES // self._times, _PART_PIXELS // pixels)
        most = max(most // self._group, 1) * self._group
        num_parts = -(-count // most)
        size = -(-count // num_parts // self._group) * self._group
        return [(start, min(start + size, count)) for start in range(0, count, size)]

    def render(self, fetched: Fetched, render: Render, canvases: Canvases) -> list[Future[Decoded]]:
        """Start rendering the canvases of a step, and return a future for each part of it."""

        def work(start: int, stop: int) -> Decoded:
            part, canvases_of_part = fetched.rows(start, stop), canvases.from_row(start)
            return self.move_targets(self.decode(part, canvases_of_part, start, render))

        return [self.submit("decode", work, *part) for part in self.parts(fetched)]

    def plan_ahead(self, fetched: Fetched, image_bytes: int) -> None:
        """Set `steps_ahead` to the number of steps like this one that keep all threads busy.

        Args:
            fetched: The step.
            image_bytes: Bytes of the step's finished images.
        """
        num_bytes = image_bytes + int(fetched.spans[:, 1].sum())
        num_parts = len(self.parts(fetched))
        self.steps_ahead = steps_for_threads(self._num_threads, num_parts, num_bytes)

    def submit(self, stage: Stage, work: Callable[..., T], *args: Any) -> Future[T]:
        """Submit work that begins with a stage, and record the time until a thread starts it."""
        asked = clock()

        def begin() -> T:
            self.recorder.waited(stage, "a thread", clock() - asked)
            return work(*args)

        return self.pool.submit(begin)

    def decode(self, rows: Fetched, canvases: Canvases, start: int, render: Render) -> Decoded:
        """Render the canvases of rows, whose first one is row `start` of the step."""
        num_bytes = 0 if self.is_video else int(rows.spans[:, 1].sum())
        with self.recorder.measure(
            "decode", samples=len(rows), num_bytes=num_bytes, work=rows.work
        ):
            return render(rows, canvases, start)

    def move_targets(self, decoded: Decoded) -> Decoded:
        """Return decoded rows whose targets are moved like the images: cropped, flipped and warped by the first recipe."""
        fetched, found = decoded.fetched, decoded.targets
        if all(one is NO_TARGETS for one in found):
            return decoded
        with self.recorder.measure("targets", work=fetched.work):
            keys = [fetched.key(row) for row in range(len(fetched))]
            draws = fetched.mixed_draws()[0]
            recipe = self._variants[fetched.plan.variant].recipes[0]
            return replace(decoded, targets=targets.move(recipe, draws, found, keys, self._vectors))

    def move_all_targets(self, decoded: Decoded) -> Decoded:
        """Return a full step with moved targets (see `move_targets`); each thread moves the targets of one part."""
        if all(one is NO_TARGETS for one in decoded.targets):
            return decoded

        def move(start: int, stop: int) -> Decoded:
            part = decoded.fetched.rows(start, stop)
            return self.move_targets(Decoded(part, decoded.targets[start:stop]))

        parts = list(self.pool.map(move, *zip(*self.parts(decoded.fetched), strict=True)))
        return replace(decoded, targets=[found for part in parts for found in part.targets])

    def close(self) -> None:
        """Drop the tasks that have not started, wait for the others, and end the threads."""
        self.pool.shutdown(cancel_futures=True)


def steps_for_threads(num_threads: int, num_parts: int, num_bytes: int) -> int:
    """Return the number of steps ahead that keeps all threads busy.

    Args:
        num_threads: Number of threads.
        num_parts: Number of parts of a step.
        num_bytes: Memory of a step in bytes.
    """
    # Two parts per thread: the one that it works on, and one that is ready when it has finished.
    wanted = -(-2 * num_threads // max(1, num_parts))
    fewest = _FEWEST_STEPS if num_bytes <= _LARGE_BYTES else 1
    return max(fewest, min(wanted, _AHEAD_BYTES // max(1, num_bytes)))


def single_threaded_pool(num_threads: int) -> ThreadPoolExecutor:
    """Return a thread pool in which each torch operation uses one thread.

    Torch's thread count belongs to the thread that calls an operation, but setting it also changes the count for
    threads that start later. So all threads are started here, and then the caller's count is restored.
    """
    started = threading.Barrier(num_threads + 1)

    def begin() -> None:
        torch.get_num_threads()  # torch sets a thread's number on first use, which would undo the next line
        torch.set_num_threads(1)
        started.wait()  # a barrier, so that each of these tasks gets its own thread

    usual = torch.get_num_threads()
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="gpu-aug")
    try:
        for _ in range(num_threads):
            pool.submit(begin)
        started.wait()
    except BaseException:
        started.abort()  # otherwise the threads would wait forever, and Python would wait for them at exit
        raise
    finally:
        torch.set_num_threads(usual)
    return pool
