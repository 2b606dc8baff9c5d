"""Choose how many helper processes a loader starts, and state the reason."""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dali_pipes.arguments.choose import Choice
from dali_pipes.arguments.options import HelperCount
from dali_pipes.errors import LoaderError
from dali_pipes.stages.canvas_memory import View
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.shared_memory import pickle_parts
from dali_pipes.steps.streams.fetch import StreamFetcher
from readers.cores import cores_of_rank

# Threads of one process share a GIL; the pipeline is designed to scale to 16 cores per process.
_CORES_PER_PROCESS = 16


@dataclass(frozen=True, slots=True)
class HelperChoice:
    """How many helper processes make the batches, and why.

    Attributes:
        count: Count of processes; 0 means threads of the training process.
        reason: Why "auto" chose this count, as `Loader.explain` shows it; "" if the user chose the count.
    """

    count: int
    reason: str


def choose_helpers(
    asked: HelperCount,
    num_threads: int,
    choice: Choice,
    fetcher: Fetcher,
    views: Sequence[Sequence[View]],
) -> HelperChoice:
    """Return how many helper processes to start, with the reason.

    Args:
        asked: The user's choice, as for Execution(helper_process=...).
        num_threads: Count of threads of all processes together.
        choice: The chosen decoder and device.
        fetcher: The fetcher; each process would get a pickled copy.
        views: For each recipe of the run, its views.

    Raises:
        LoaderError: Several processes are requested for a stream.
    """
    is_stream = isinstance(fetcher, StreamFetcher)
    # Threads beyond the number of cores wait for storage, without the GIL.
    cores = min(num_threads, cores_of_rank())
    suited = -(-cores // _CORES_PER_PROCESS)
    if asked == "auto":
        if suited == 1:
            return HelperChoice(0, f"up to {_CORES_PER_PROCESS} cores one process is enough")
        if obstacle := _obstacle(choice, fetcher, views):
            return HelperChoice(0, f"though there are {cores} cores, because {obstacle}")
        return HelperChoice(
            suited,
            f"for {cores} cores: threads on more than {_CORES_PER_PROCESS} wait for the interpreter of their process",
        )
    if isinstance(asked, bool | np.bool_):
        return HelperChoice((1 if is_stream else suited) if asked else 0, "")
    if is_stream and asked > 1:
        raise LoaderError(
            f"helper_process={asked} is not allowed for a stream, which one process reads from front to back; use "
            "helper_process=True, or make shards with gpu-aug pack"
        )
    return HelperChoice(int(asked), "")


def _obstacle(choice: Choice, fetcher: Fetcher, views: Sequence[Sequence[View]]) -> str:
    """Return the reason why "auto" starts no helper processes; "" if nothing prevents them."""
    begins_with_one_size = all(
        view.recipe.decode_size is not None for of_recipe in views for view in of_recipe
    )
    obstacles = (
        (choice.decoder != "cpu", f'decoder="{choice.decoder}" works in this process'),
        (isinstance(fetcher, StreamFetcher), "one process reads a stream from front to back"),
        # A slot of the ring holds all frames of a batch, and each process would need several slots.
        (
            fetcher.clips is not None,
            "FFmpeg decodes clips outside the interpreter, and their batches are large",
        ),
        (os.name != "posix" or not sys.executable, "this system has no helper processes"),
        (
            multiprocessing.current_process().daemon,
            "this process is a daemon of multiprocessing, which starts none",
        ),
        (
            choice.device.type == "cuda" and not begins_with_one_size,
            "the recipe begins without a crop or resize to one size",
        ),
    )
    for is_there, reason in obstacles:
        if is_there:
            return reason
    return _obstacle_to_sending(fetcher)


def _obstacle_to_sending(fetcher: Fetcher) -> str:
    """Return the reason why the dataset or the recipe cannot be sent to a process; "" if both can be."""
    try:
        data = bytes(pickle_parts(fetcher)[0])
    except Exception as error:  # noqa: BLE001 - each class is pickled in ways of its own
        return f"dataset or recipe cannot be pickled ({type(error).__name__}: {error})"
    # Classes and functions of the user's script have this module name; a helper process does not import the script.
    if b"__main__" in data or b"__mp_main__" in data:
        return "dataset or recipe use a class or function of the script itself"
    return ""
