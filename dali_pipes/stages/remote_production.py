"""The part of a loader's pipeline that runs outside the training process, and what comes back of a step."""

import pickle
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from dali_pipes.arguments.options import make_views
from dali_pipes.decode.threaded import CpuDecoder
from dali_pipes.jpeg.seek_point_stores import open_seek_points
from dali_pipes.machine.compile_ahead import compile_ahead
from dali_pipes.stages.augment import Augmenter, Engines
from dali_pipes.stages.canvases import Canvases
from dali_pipes.stages.cuda_streams import Ahead
from dali_pipes.stages.data import Decoded, Fetched, Finished, Images, Pending, join
from dali_pipes.stages.job import Job
from dali_pipes.stages.pipeline import Pipeline
from dali_pipes.stages.threads import Render, Workers

_CPU = torch.device("cpu")


def build(job: Job, memory: Callable[[Fetched], Images]) -> Pipeline:
    """Build the pipeline of a job.

    Args:
        job: What to make.
        memory: Returns where the images of a step go: finished ones, or canvases where a GPU goes on with them.
    """
    setup, fetcher = job.setup, job.setup.fetcher
    times = fetcher.images_per_row
    workers = Workers(fetcher, setup.num_threads)

    def render_alone(fetched: Fetched, render: Render) -> Pending:
        images = memory(fetched)

        def finish(parts: Sequence[Decoded]) -> tuple[Finished, Ahead]:
            return join(fetched, parts).finished(), Ahead(images, None)

        canvases = Canvases(images, times, pinned=False, kind=fetcher.images.kind)
        return Pending(finish, workers.render(fetched, render, canvases))

    spawn = render_alone
    if not job.canvases:
        variants = make_views(setup.options, fetcher, setup.choice.engine, _CPU)
        engines = [Engines(views, fetcher.recorder) for views in variants]
        spawn = Augmenter(engines, workers, memory).spawn
    fused = setup.choice.engine == "fused" and not job.canvases
    compile_ahead(fetcher.variants.recipes if fused else ())
    store, fast = open_seek_points(fetcher.dataset), setup.options.fast
    decoder = CpuDecoder(fetcher, spawn, job.steps_ahead, workers, fast=fast, store=store)
    return Pipeline(fetcher, decoder, workers)


def needed_by_trainer(finished: Finished, job: Job) -> Finished:
    """Return a step with those draws alone that the training process needs: for a GPU, or for the labels of mixing."""
    variants = job.setup.fetcher.variants
    num_draws = len(variants.views[0]) if job.canvases else int(variants.mixing is not None)
    return replace(finished, draws=finished.draws[:num_draws])


def portable(
    error: BaseException, where: str, dumps: Callable[[BaseException], bytes] = pickle.dumps
) -> BaseException:
    """Return an error that can be pickled: the same where that works, with where it was raised as a note."""
    trace = "".join(traceback.format_exception(error))
    try:
        copy: BaseException = pickle.loads(dumps(error))
    except Exception:  # noqa: BLE001 - the errors of others are pickled in ways of their own
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    copy.add_note(f"raised {where}:\n{trace.rstrip()}")
    return copy
