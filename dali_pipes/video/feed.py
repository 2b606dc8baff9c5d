"""Driving DALI's decoder of videos by pushing excerpts into it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dali_pipes.decode.dali.feed import INSTALL_DALI
from dali_pipes.errors import MissingPackageError
from dali_pipes.video.dali_support import Backend, Refusals
from dali_pipes.video.excerpt import Excerpt


@dataclass(frozen=True, slots=True)
class ClipFeedOptions:
    """How to build the pipeline.

    Attributes:
        batch_size: The most excerpts that are pushed at once.
        backend: Where DALI decodes.
        device_id: The GPU for "mixed", None for "cpu".
        num_threads: DALI's own threads.
        depth: How many pushes DALI works on at once.
    """

    batch_size: int
    backend: Backend
    device_id: int | None
    num_threads: int
    depth: int


class ClipFeed:
    """A DALI pipeline that decodes the excerpts that are pushed into it, in order.

    Attributes:
        refusals: What it is no use to push.
        refusal: What DALI said when it last refused something.

    Raises:
        MissingPackageError: If DALI is not installed.
    """

    def __init__(self, options: ClipFeedOptions) -> None:
        self.options = options
        self._pipeline = _build(options, options.depth)
        self._single: Any = None
        self.refusals = Refusals()
        self._is_fresh = True
        self._under_way: deque[Sequence[Excerpt]] = deque()
        self.refusal = ""

    def __len__(self) -> int:
        return len(self._under_way)

    def push(self, excerpts: Sequence[Excerpt]) -> None:
        """Start decoding, one excerpt at least; never more than `depth` pushes at a time."""
        # The first schedule_run starts `depth` runs at once; all of them decode the same.
        times = self.options.depth if self._is_fresh else 1
        for _ in range(times):
            _feed(self._pipeline, excerpts)
        self._pipeline.schedule_run()
        self._is_fresh = False
        for _ in range(times - 1):
            self._outputs(self._pipeline, None)
        self._under_way.append(excerpts)

    def take(self, cuda_stream: Any = None) -> list[Any] | None:
        """Wait for the oldest push.

        Args:
            cuda_stream: The stream that will read the result; None waits on the host.

        Returns:
            For each excerpt its frames, a tensor of DALI's, uint8 [n, height, width, 3], as they are stored;
            None when DALI refused one of them. The pipeline goes on with the next push either way.
        """
        outputs = self._outputs(self._pipeline, cuda_stream)
        self._under_way.popleft()  # DALI has read it
        return outputs

    def take_single(self, excerpt: Excerpt, cuda_stream: Any = None) -> Any | None:
        """Decode one excerpt beside those that are under way, as `take` does; None when DALI refuses it."""
        if self._single is None:
            self._single = _build(self.options, depth=1)
        _feed(self._single, [excerpt])
        self._single.schedule_run()
        outputs = self._outputs(self._single, cuda_stream)
        return None if outputs is None else outputs[0]

    def drain(self) -> None:
        """Wait for what is under way and drop it: DALI reads its bytes until then."""
        while self._under_way:
            self.take()

    def _outputs(self, pipeline: Any, cuda_stream: Any) -> list[Any] | None:
        try:
            [frames] = pipeline.share_outputs(cuda_stream=cuda_stream)
            return [frames[number] for number in range(len(frames))]
        except Exception as error:  # noqa: BLE001 - DALI has many; the CPU judges each sample
            self.refusal = str(error)
            return None
        finally:
            # With DALI's default executor the outputs stay valid for as long as they are referenced.
            pipeline.release_outputs()


def _feed(pipeline: Any, excerpts: Sequence[Excerpt]) -> None:
    pipeline.feed_input("encoded", [excerpt.data for excerpt in excerpts])
    pipeline.feed_input("frames", [excerpt.frames for excerpt in excerpts])


def _build(options: ClipFeedOptions, depth: int) -> Any:
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
        # no_copy: the excerpts that are under way keep the bytes alive.
        encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1, no_copy=True)
        frames = fn.external_source(name="frames", dtype=types.INT32, ndim=1)
        # Without pad_mode a frame that is not there would be a black one and no error.
        decoded = fn.decoders.video(
            encoded, frames=frames, device=options.backend, pad_mode="none", build_index=True
        )
        pipeline.set_outputs(decoded)
    pipeline.build()
    return pipeline
