"""A DALI pipeline that decodes excerpts of videos."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dali_pipes.decode.dali.driver import Driver, Inputs, Outputs
from dali_pipes.decode.dali.feed import INSTALL_DALI
from dali_pipes.errors import MissingPackageError
from dali_pipes.video.dali.excerpt import Excerpt
from dali_pipes.video.dali.support import Backend


@dataclass(frozen=True, slots=True)
class ClipFeedOptions:
    """The options of the pipeline.

    Attributes:
        batch_size: Largest number of excerpts in one push.
        backend: Device on which DALI decodes.
        device_id: The GPU for "mixed", None for "cpu".
        num_threads: Number of DALI's threads.
        depth: Number of pushes that DALI works on at once.
    """

    batch_size: int
    backend: Backend
    device_id: int | None
    num_threads: int
    depth: int


class ClipFeed:
    """A DALI pipeline that decodes the excerpts that are pushed into it, in order.

    Raises:
        MissingPackageError: If DALI is not installed.
    """

    def __init__(self, options: ClipFeedOptions) -> None:
        self.options = options
        self._driver = Driver(_build(options), options.depth)

    def __len__(self) -> int:
        return len(self._driver)

    @property
    def refusal(self) -> str:
        """DALI's message for the last refused excerpt."""
        return self._driver.refusal

    def push(self, excerpts: Sequence[Excerpt]) -> None:
        """Start decoding at least one excerpt; at most `depth` pushes may be under way."""
        self._driver.warm_up(_inputs(excerpts[:1]))
        self._driver.push(_inputs(excerpts))

    def take(self, cuda_stream: Any = None) -> list[Any] | None:
        """Wait for the oldest push.

        Args:
            cuda_stream: The stream that will read the result; None waits on the host.

        Returns:
            The frames of each excerpt, a tensor of DALI's, uint8 [n, height, width, 3], not turned upright; None if DALI
            refused one of the excerpts. The pipeline continues with the next push either way.
        """
        return _frames(self._driver.take(cuda_stream))

    def take_single(self, excerpt: Excerpt, cuda_stream: Any = None) -> Any | None:
        """Decode one excerpt before those that were pushed; see `take`. None if DALI refuses it."""
        self._driver.warm_up(_inputs([excerpt]))
        frames = _frames(self._driver.run_now(_inputs([excerpt]), cuda_stream))
        return None if frames is None else frames[0]

    def drain(self) -> None:
        """Wait for pending pushes and discard them."""
        self._driver.drain()


def _inputs(excerpts: Sequence[Excerpt]) -> Inputs:
    return {
        "encoded": [excerpt.data for excerpt in excerpts],
        "frames": [excerpt.frames for excerpt in excerpts],
    }


def _frames(outputs: Outputs) -> list[Any] | None:
    return None if outputs is None else [outputs[0][number] for number in range(len(outputs[0]))]


def _build(options: ClipFeedOptions) -> Any:
    try:
        from nvidia.dali import Pipeline, fn, types
    except ImportError as error:
        raise MissingPackageError(INSTALL_DALI) from error

    pipeline = Pipeline(
        batch_size=options.batch_size,
        num_threads=options.num_threads,
        device_id=options.device_id,
        prefetch_queue_depth=options.depth,
    )
    with pipeline:
        # no_copy: the driver keeps the bytes alive.
        encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1, no_copy=True)
        frames = fn.external_source(name="frames", dtype=types.INT32, ndim=1)
        # Without pad_mode DALI returns a black frame for a number that does not exist, and no error.
        decoded = fn.decoders.video(
            encoded, frames=frames, device=options.backend, pad_mode="none", build_index=True
        )
        pipeline.set_outputs(decoded)
    pipeline.build()
    return pipeline
