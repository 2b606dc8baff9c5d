"""Build the DALI pipelines of a loader."""

from typing import Literal

from dali_pipes.arguments.setup import Setup
from dali_pipes.decode.dali.driver import PipelineOptions
from dali_pipes.decode.dali.feed import Feed, FeedOptions
from dali_pipes.errors import LoaderError
from dali_pipes.video.dali.feed import ClipFeed
from dali_pipes.video.dali.nvdec import find_nvdec


def make_feed(setup: Setup, largest: int) -> Feed | ClipFeed:
    """Return the DALI pipeline for steps of at most `largest` images or clips.

    Raises:
        MissingPackageError: DALI is not installed.
        LoaderError: DALI cannot decode the images of these recipes in one pipeline, or cannot decode on this machine.
    """
    on_gpu = setup.choice.device.type == "cuda"
    device: Literal["mixed", "cpu"] = "mixed" if on_gpu else "cpu"
    device_id = setup.choice.device.index if on_gpu else None
    depth = setup.options.execution.fewest_ahead
    if setup.fetcher.clips is not None:
        # DALI runs one decoder in each of its threads.
        engines = setup.num_threads if device_id is None else find_nvdec(device_id).engines
        num_threads = min(setup.num_threads, engines)
        return ClipFeed(
            PipelineOptions(
                batch_size=largest,
                device=device,
                device_id=device_id,
                num_threads=num_threads,
                depth=depth,
            )
        )
    return Feed(
        FeedOptions(
            batch_size=largest,
            antialias=_antialias_of(setup, on_gpu=on_gpu),
            device=device,
            canvases=on_gpu,
            device_id=device_id,
            num_threads=setup.num_threads,
            depth=depth,
            hw_decoder_load=setup.options.execution.hw_decoder_load,
        )
    )


def _antialias_of(setup: Setup, *, on_gpu: bool) -> tuple[bool, ...]:
    """Return for each view whether images are low-pass filtered when they shrink (antialiasing).

    Raises:
        LoaderError: DALI resizes on the GPU, and the run's recipes differ in antialiasing: a pipeline has one setting.
    """
    found = [tuple(view.recipe.antialias for view in views) for views in setup.variants]
    if on_gpu and len(set(found)) > 1:
        raise LoaderError(
            'decoder="dali" on a GPU needs recipes that all shrink with antialias, or all without; give them one '
            'antialias=, or use decoder="cpu"'
        )
    return found[0]
