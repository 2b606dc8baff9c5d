"""Measure decoding alone, the upper bound for pipelines that decode full images, or clips with these libraries."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.baselines.dali import decode_batches
from bench.baselines.videos import load_torchcodec, seek_mode, torchcodec_frames
from bench.compare.clips import Clip
from bench.compare.task import Pipeline, Task
from bench.compare.threads import NUM_AHEAD, results_ahead, threaded_batches
from bench.compare.windows import WindowTask
from bench.timing import Turn, measure_in_turns, synchronise, take_turn
from dali_pipes import available_decoders
from dali_pipes.decode import opencv
from dali_pipes.video.codec import ClipDeadline, decode_run
from dali_pipes.video.decode import DECODE_SECONDS
from dali_pipes.video.packets import plan_runs
from readers import Sample, open_dataset, read_header
from readers.formats.lerobot.frame_batch import value_or_raise
from readers.storage.blob.mmap_pages import map_file

_CHUNK = 4  # images per task of a thread, because a task costs about 20 us
_TRIAL_SECONDS, _NUM_TRIALS = 0.3, 3


def start(task: Task) -> Pipeline:
    """Decode every image in full with the fastest available library, and drop it.

    Every decoder is tried for a moment, one after the other. Batches have their length but no pixels.
    """
    decoders = {"OpenCV on threads": _on_threads(task)}
    if not available_decoders()["dali"]:
        name = "DALI mixed" if task.device.type == "cuda" else "DALI on the CPU"
        decoders[name] = decode_batches(task)

    def take_trial(batches: Iterator[torch.Tensor], seconds: float) -> Turn:
        return take_turn(
            partial(next, batches),
            seconds=seconds,
            discard=NUM_AHEAD + 1,
            finish=partial(synchronise, task.device),
        )

    # DALI supports fewer formats; if it refuses, the other decoders remain.
    tried = measure_in_turns(
        {name: partial(take_trial, batches) for name, batches in decoders.items()},
        seconds=_TRIAL_SECONDS,
        rounds=_NUM_TRIALS,
        on_failure=lambda _name, _error: None,
    )
    fastest = max(tried, key=lambda name: tried[name].median)
    rates = ", ".join(f"{name} {one.median:.0f}" for name, one in tried.items())
    note = (
        f"whole images with {fastest} (images/s when tried: {rates}), no resizing; "
        "a decoder that cuts can be faster"
    )
    return Pipeline(decoders[fastest], note, NUM_AHEAD, NUM_AHEAD + 1)


def _on_threads(task: Task) -> Iterator[torch.Tensor]:
    """Decode with OpenCV, or with Pillow if OpenCV is not installed; yield batches without pixels."""
    num_chunks = -(-task.batch_size // _CHUNK)

    def decode_chunk(number: int) -> None:
        batch, chunk = divmod(number, num_chunks)
        rows = range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, task.batch_size))
        indices = [(batch * task.batch_size + row) % len(task.dataset) for row in rows]
        for sample in task.dataset.fetch(indices):
            if isinstance(sample, Sample) and sample.image is not None:
                header = read_header(sample.image)
                opencv.decode(sample.image, (header.height, header.width))

    for _ in threaded_batches(decode_chunk, num_chunks, task.num_threads):
        yield torch.empty(task.batch_size, 0)


def libavcodec(task: Task) -> Pipeline:
    """Start decoding only the packets that the frames need: without container, colour conversion or resizing."""
    note = (
        "the packets from each keyframe on, without those that no wanted frame needs; one thread per clip; "
        "frames stay as YUV in the decoder's memory"
    )
    return _decoding(task, decode_packets, note)


def torchcodec(task: Task) -> Pipeline:
    """Start decoding full frames to RGB without resizing.

    Raises:
        Unable: torchcodec cannot be loaded.
    """
    load_torchcodec()
    seek = seek_mode(task.clips)
    note = f"VideoDecoder.get_frames_at, one FFmpeg thread per clip, on threads; {seek} seeking"
    return _decoding(task, lambda clip: torchcodec_frames(clip, seek), note)


def _decoding(task: Task, decode: Callable[[Clip], object], note: str) -> Pipeline:
    batches = threaded_batches(
        lambda position: decode(task.clips[position]), task.batch_size, task.num_threads
    )
    # Batches with their length but without pixels.
    lengths = (torch.empty(len(clips), 0) for clips in batches)
    return Pipeline(lengths, note, NUM_AHEAD, NUM_AHEAD + 1)


def windows(task: WindowTask) -> Pipeline:
    """Start decoding the frames that each batch of windows needs, once per batch, and dropping them."""
    dataset: Any = open_dataset(task.root, **task.options)
    cameras = [dataset.camera(number) for number in range(len(dataset.cameras))]

    def clips(first: int) -> list[Clip]:
        batch = dataset.batch(task.plan[first : first + task.batch_size])
        needed: dict[tuple[int, int], list[NDArray[np.int64]]] = {}
        infos = {}
        for number, camera in enumerate(cameras):
            for place, shown in zip(batch.places, camera.shown(batch), strict=True):
                video = number, camera.video(place)
                infos[video] = value_or_raise(shown).info
                needed.setdefault(video, []).append(shown.frames)
        return [
            Clip(
                Path(dataset.root / dataset.videos.files.name(video)),
                infos[number, video],
                np.unique(np.concatenate(frames)),
                0,
            )
            for (number, video), frames in needed.items()
        ]

    def batches() -> Iterator[torch.Tensor]:
        starts = range(0, len(task.plan) - task.batch_size + 1, task.batch_size)
        to_decode, to_count = tee(map(clips, starts))
        items = chain.from_iterable(to_decode)
        ahead = NUM_AHEAD * task.batch_size
        results = results_ahead(decode_packets, items, task.num_threads, ahead)
        for batch in to_count:
            list(islice(results, len(batch)))
            yield torch.empty(task.batch_size, 0)

    note = "each frame that the windows of a batch need once per batch; frames stay as YUV in the decoder's memory"
    return Pipeline(batches(), note, NUM_AHEAD, NUM_AHEAD + 1)


def decode_packets(clip: Clip) -> int:
    """Decode the packets of a clip like our loader, and return how many frames it has.

    Raises:
        RuntimeError: Frames are missing.
    """
    wanted = clip.info.frame_packets[np.unique(clip.frames)].tolist()
    content, deadline = memoryview(map_file(clip.path)), ClipDeadline(DECODE_SECONDS)
    decoded = {
        packet
        for run in plan_runs(clip.info, wanted)
        for packet, _ in decode_run(content, clip.info, run, deadline)
    }
    if missing := {*wanted} - decoded:
        raise RuntimeError(f"{len(missing)} frames of {clip.path.name} are missing")
    return len(wanted)
