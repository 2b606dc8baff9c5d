"""SPDL's own example of loading images for training: decoded, resized and batched by threads of the trainer's process."""

from itertools import cycle
from typing import Any

import spdl.io
from spdl.pipeline import PipelineBuilder

from bench.baselines.peers.spdl.pipeline import require_ffmpeg
from bench.compare.task import Pipeline, Task


def start(task: Task) -> Pipeline:
    """Start the pipeline of examples/multi_thread_preprocessing.py; its sink holds a batch for every thread."""
    require_ffmpeg(task.files[0])
    height, width = task.recipe.fixed_size
    # The example's filter, but stretched to the size, as by the example's DataLoader; SPDL 0.8 pads by default.
    filters = spdl.io.get_video_filter_desc(scale_width=width, scale_height=height, scale_mode=None)

    def load(path: Any) -> Any:
        return spdl.io.decode_packets(spdl.io.demux_image(str(path)), filter_desc=filters)

    def convert(frames: list[Any]) -> Any:
        return spdl.io.to_torch(spdl.io.convert_frames(frames)).permute(0, 3, 1, 2)

    pipeline = (
        PipelineBuilder()
        .add_source(cycle(task.files))
        .pipe(load, concurrency=task.num_threads)
        .aggregate(task.batch_size)
        .pipe(convert)
        .add_sink(task.num_threads)
        .build(num_threads=task.num_threads)
    )
    pipeline.start()
    return Pipeline(iter(pipeline), "", task.num_threads + 1, 2 * task.num_threads + 1)
