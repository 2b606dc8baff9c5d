"""A DALI pipeline that decodes excerpts of videos."""

from collections.abc import Sequence
from typing import Any

from dali_pipes.decode.dali.driver import Driver, Inputs, PipelineOptions, new_pipeline
from dali_pipes.video.dali.excerpt import Excerpt


class ClipFeed(Driver):
    """A DALI pipeline that decodes excerpts of videos; see `inputs_of`.

    Its only output is the frames of each excerpt, uint8 [n, height, width, 3], not turned upright.

    Raises:
        MissingPackageError: DALI is not installed.
    """

    def __init__(self, options: PipelineOptions) -> None:
        super().__init__(_build(options), options.depth)
        self.backend = options.device


def inputs_of(excerpts: Sequence[Excerpt]) -> Inputs:
    """Return the inputs of the pipeline for a batch of at least one excerpt."""
    return {
        "encoded": [excerpt.data for excerpt in excerpts],
        "frames": [excerpt.frames for excerpt in excerpts],
    }


def _build(options: PipelineOptions) -> Any:
    pipeline = new_pipeline(options)
    from nvidia.dali import fn, types

    with pipeline:
        # no_copy is safe: the driver keeps the bytes alive.
        encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1, no_copy=True)
        frames = fn.external_source(name="frames", dtype=types.INT32, ndim=1)
        # Without pad_mode, DALI returns a black frame instead of an error for a frame number that does not exist.
        decoded = fn.decoders.video(
            encoded, frames=frames, device=options.device, pad_mode="none", build_index=True
        )
        pipeline.set_outputs(decoded)
    pipeline.build()
    return pipeline
