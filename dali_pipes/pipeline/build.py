"""Building the pipeline of a CPU, which a loader and its helper process have in common."""

from collections.abc import Callable, Sequence
from functools import partial

from dali_pipes.decode.cpu import render_encoded
from dali_pipes.pipeline.fetch import Fetcher
from dali_pipes.pipeline.pipeline import CpuDecoder, Pipeline
from dali_pipes.pipeline.stages import Fetched, Pending
from dali_pipes.pipeline.threads import Render, Workers
from dali_pipes.video.render import ClipRenderer
from dali_pipes.warm import compile_ahead
from gpu_aug import Recipe


def cpu_pipeline(
    fetcher: Fetcher,
    workers: Workers,
    spawn: Callable[[Fetched, Render], Pending],
    prefetch: int,
    *,
    fast: bool,
    fused: Sequence[Recipe],
) -> Pipeline:
    """Build a pipeline whose steps our threads decode.

    Args:
        fetcher: The first stage.
        workers: The threads.
        spawn: Starts rendering a step, and what comes after that.
        prefetch: As for Loader.
        fast: Whether JPEGs may be decoded at a smaller size.
        fused: The recipes that the fused engine carries out on the CPU.
    """
    compile_ahead(fused)

    def render_of(fetched: Fetched) -> Render:
        if fetcher.clips is not None:
            return ClipRenderer(fetcher, fetched)
        return partial(render_encoded, fetcher, fast=fast)

    return Pipeline(fetcher, CpuDecoder(spawn, render_of, prefetch), workers)
