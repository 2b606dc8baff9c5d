"""Driving a DALI pipeline by pushing batches into it."""

from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dali_pipes import image
from dali_pipes.errors import MissingPackageError
from dali_pipes.work import Work

INSTALL_DALI = (
    "NVIDIA DALI is not installed; install it with \"pip install 'gpu-aug[cuda12]'\" "
    'or choose decoder="cpu"'
)


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """How to build the pipeline.

    Attributes:
        batch_size: The largest batch.
        device: Where DALI decodes.
        canvases: Whether it hands back finished canvases, all of one size, or the cut-out windows,
            each of its own size.
        canvas: Height and width of a canvas.
        antialias: Whether shrinking to the canvas is low-pass filtered.
        device_id: The GPU for "mixed", None for "cpu".
        num_threads: DALI's own threads.
        depth: How many batches DALI works on at once.
    """

    batch_size: int
    device: Literal["cpu", "mixed"]
    canvases: bool
    canvas: tuple[int, int]
    antialias: bool
    device_id: int | None
    num_threads: int
    depth: int


class Feed:
    """A DALI pipeline that decodes the batches that are pushed into it, in order.

    DALI draws nothing and reads nothing here: bytes and windows come from outside.

    Raises:
        MissingPackageError: If DALI is not installed.
    """

    def __init__(self, options: FeedOptions) -> None:
        self.options = options
        self._pipeline = _Pushed(options, options.depth)
        self._repair: _Pushed | None = None
        self._under_way: deque[tuple[Work, set[int]]] = deque()

    def __len__(self) -> int:
        return len(self._under_way)

    def push(self, work: Work, hidden: set[int]) -> None:
        """Start decoding a batch. Hidden rows, and rows without data, are given a placeholder."""
        self._pipeline.push(work, hidden)
        self._under_way.append((work, hidden))

    def take(self, cuda_stream: Any = None) -> tuple[Work, set[int], Any | None]:
        """Wait for the oldest batch.

        Args:
            cuda_stream: The stream that will read the result; None waits on the host.

        Returns:
            The work, its hidden rows, and DALI's output (a TensorList of uint8 images; one image for
            an empty batch), or None when DALI refused the batch. The pipeline goes on with the next
            one either way.
        """
        work, hidden = self._under_way.popleft()
        return work, hidden, self._pipeline.take(cuda_stream)

    def drain(self) -> None:
        """Wait for the batches under way and drop them: DALI reads their bytes until then."""
        while self._under_way:
            self.take()

    @property
    def refusal(self) -> str:
        """What DALI said when it last refused a batch twice."""
        return self._repair.refusal if self._repair else ""

    def again(self, work: Work, hidden: set[int], cuda_stream: Any = None) -> Any | None:
        """Decode a refused batch once more with more rows hidden; None if DALI refuses it again.

        It runs through a second pipeline, so that the batches under way keep their places.
        """
        if self._repair is None:
            self._repair = _Pushed(self.options, 1)
        self._repair.push(work, hidden)
        return self._repair.take(cuda_stream)


class _Pushed:
    """One built pipeline; after its warm-up one push is one run."""

    def __init__(self, options: FeedOptions, depth: int) -> None:
        self._pipeline = _build(options, depth)
        self.refusal = ""  # why take() last returned None
        self._windowed = _ALL_WINDOWS if options.canvases else ("start", "shape")
        # The first schedule_run starts `depth` runs at once, so it is spent on placeholders.
        for _ in range(depth):
            self._feed([image.placeholder()], _PLACEHOLDER_ROW)
        self._pipeline.schedule_run()
        for _ in range(depth):
            self.take(None)

    def push(self, work: Work, hidden: set[int]) -> None:
        windows = work.draws.windows
        rects = {name: getattr(windows, name) for name in self._windowed}
        covered = [row for row, data in enumerate(work.data) if data is None or row in hidden]
        if covered:
            for name, value in rects.items():
                rects[name] = value.copy()
                rects[name][covered] = _PLACEHOLDER_WINDOW[name]
        encoded = [
            image.placeholder() if data is None or row in hidden else np.frombuffer(data, np.uint8)
            for row, data in enumerate(work.data)
        ]
        if encoded:
            self._feed(encoded, rects)
        else:  # DALI never recovers from an empty batch
            self._feed([image.placeholder()], _PLACEHOLDER_ROW)
        self._pipeline.schedule_run()

    def take(self, cuda_stream: Any) -> Any | None:
        try:
            return self._pipeline.share_outputs(cuda_stream=cuda_stream)[0]
        except RuntimeError as error:  # DALI has no narrower class
            self.refusal = str(error)
            return None
        finally:
            # With DALI's default executor the outputs stay valid for as long as they are referenced.
            self._pipeline.release_outputs()

    def _feed(self, encoded: list[Any], rects: dict[str, Any]) -> None:
        self._pipeline.feed_input("encoded", encoded)
        for name in self._windowed:
            self._pipeline.feed_input(name, rects[name])


_ALL_WINDOWS = ("start", "shape", "resize", "paste")
_PLACEHOLDER_WINDOW = {"start": 0, "shape": 1, "resize": 1, "paste": 0}
_PLACEHOLDER_ROW = {
    name: np.full((1, 2), value, np.int32) for name, value in _PLACEHOLDER_WINDOW.items()
}


def _build(options: FeedOptions, depth: int) -> Any:
    try:
        from nvidia.dali import Pipeline, fn, types
    except ImportError as error:
        raise MissingPackageError(INSTALL_DALI) from error

    pipeline = Pipeline(
        batch_size=options.batch_size,
        num_threads=options.num_threads,
        device_id=options.device_id,
        prefetch_queue_depth=depth,
    )
    with pipeline:
        # no_copy: the work keeps the bytes alive until its batch is done.
        encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1, no_copy=True)
        pairs = {
            name: fn.external_source(name=name, dtype=types.INT32, ndim=1) for name in _ALL_WINDOWS
        }
        images = image.decode_and_cut(
            encoded, pairs["start"], pairs["shape"], device=options.device
        )
        if options.canvases:
            images = image.resize_and_paste(
                images,
                pairs["resize"],
                pairs["paste"],
                canvas=options.canvas,
                antialias=options.antialias,
            )
        pipeline.set_outputs(images)
    pipeline.build()
    return pipeline
