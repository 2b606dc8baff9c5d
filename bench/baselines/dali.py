"""Baselines of DALI alone, as in its own examples: DALI reads, shuffles, chooses clips and draws random numbers."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import torch

from bench.baselines.translations import check_dali_recipe, dali_steps
from bench.compare.clips import Clip
from bench.compare.task import Pipeline, Task, Unable
from bench.output.quiet import hushed
from gpu_aug import ColorJitter, RandomResizedCrop, Recipe, Resize

Decode = Literal["cpu", "mixed"]

_NUM_AHEAD = 3  # DALI's default prefetch_queue_depth of 2, plus the batch that its iterator holds
_SHUFFLED = 1024  # clips; DALI's default for reading images
_NUM_CLIPS_LOOKED_AT = 64


def start(task: Task, *, decode: Decode) -> Pipeline:
    """Start `fn.readers.file`, an image decoder, and DALI's own augmentations.

    Raises:
        Unable: DALI is not installed, the batches are for another device than it decodes on, or the recipe is not like
            the presets.
    """
    if decode == "mixed" and task.device.type != "cuda":
        raise Unable(f"decodes on a CUDA device, and the batches are for {task.device.type}")
    recipe = task.recipe
    first, *rest = recipe.operations
    crop = first if decode == "cpu" and isinstance(first, RandomResizedCrop) else None
    if crop is not None:  # DALI's decoder crops, so only the resize is left
        recipe = Recipe([Resize(recipe.fixed_size, antialias=crop.antialias), *rest])
        note = "fn.decoders.image_random_crop, then fn.resize, antialiased"
    else:
        resizing = "random_resized_crop" if isinstance(first, RandomResizedCrop) else "resize"
        place = "the GPU" if decode == "mixed" else "the CPU"
        note = f"whole images decoded on {place}, then fn.{resizing}, antialiased"
    if task.dtype != torch.float32:
        note += "; float32, .to(dtype) in the trainer, as DALI has no bfloat16"
    if any(isinstance(step, ColorJitter) for step in rest):
        note += "; all of the jitter as one matrix, fn.color_twist"

    def outputs() -> tuple[Any, Any]:
        encoded, labels = _files(task)
        return dali_steps(_decode(encoded, decode, crop), recipe, task.device), labels

    check_dali_recipe(recipe)
    batches = _batches(task, outputs, ["images", "labels"])
    images = (batch["images"].to(task.dtype) for batch in batches)
    return Pipeline(images, note, _NUM_AHEAD, _NUM_AHEAD + 1)


def decode_batches(task: Task) -> Iterator[torch.Tensor]:
    """Only decode full images, on the GPU if the batches are for a GPU; yield batches without pixels."""
    device = "mixed" if task.device.type == "cuda" else "cpu"
    pipeline = _build(task, lambda: (_decode(_files(task)[0], device),))
    while True:
        pipeline.run()
        yield torch.empty(task.batch_size, 0)


def start_videos(task: Task) -> Pipeline:
    """Start `fn.readers.video` on a GPU, `fn.experimental.readers.video` on the CPU, and DALI's augmentations.

    Raises:
        Unable: DALI is not installed, cannot read these videos here, or the recipe is not like the presets.
    """
    on_gpu, stride = task.device.type == "cuda", _stride(task)
    # The batch that was handed over last, by the names of the graph's outputs.
    last: dict[str, torch.Tensor] = {}

    def outputs() -> tuple[Any, Any, Any]:
        from nvidia.dali import fn

        read: Any = fn.readers.video if on_gpu else fn.experimental.readers.video
        clips, labels, numbers = read(
            device="gpu" if on_gpu else "cpu",
            filenames=[str(path) for path in task.files],
            labels=list(range(len(task.files))),
            sequence_length=task.num_frames,
            stride=stride,
            step=1,
            random_shuffle=True,
            initial_fill=_SHUFFLED,
            enable_frame_num=True if on_gpu else "scalar",
        )
        return dali_steps(clips, task.recipe, task.device, layout="FCHW"), labels, numbers

    def batches() -> Iterator[torch.Tensor]:
        check_dali_recipe(task.recipe)
        try:
            with hushed():  # DALI prints a line for every video that it cannot read
                found = _batches(task, outputs, ["clips", "labels", "frames"])
                last.update(next(found))
        except RuntimeError as error:
            codecs = {clip.info.codec for clip in task.clips.first(_NUM_CLIPS_LOOKED_AT)}
            advice = _reason(error) if on_gpu else "compare on a machine with a GPU"
            raise Unable(
                f"does not read {', '.join(sorted(codecs))} on {task.device.type}: {advice}"
            ) from error
        while True:
            yield last["clips"].to(task.dtype)
            last.update(next(found))

    def shown() -> list[Clip]:
        numbers = last["frames"].cpu().numpy().reshape(task.batch_size, -1)
        steps = np.arange(task.num_frames) * stride
        videos = last["labels"].cpu().flatten().tolist()
        clip = task.clips.clip
        return [clip(video, numbers[row, 0] + steps) for row, video in enumerate(videos)]

    name = "fn.readers.video" if on_gpu else "fn.experimental.readers.video"
    note = f"{name}, random clips of DALI's own choice, then fn.resize"
    return Pipeline(batches(), note, _NUM_AHEAD, _NUM_AHEAD + 1, shown)


def _build(task: Task, outputs: Callable[[], tuple[Any, ...]]) -> Any:
    """Return a built DALI pipeline with the task's batch size, threads and device, and with the graph of `outputs`.

    Raises:
        Unable: DALI is missing.
    """
    try:
        from nvidia.dali import Pipeline as DaliPipeline
    except ImportError as error:
        raise Unable("needs NVIDIA DALI: pip install 'gpu-aug[cuda12]'") from error
    device_id = (task.device.index or 0) if task.device.type == "cuda" else None
    pipeline = DaliPipeline(task.batch_size, task.num_threads, device_id, seed=task.seed)
    with pipeline:
        pipeline.set_outputs(*outputs())
    pipeline.build()
    return pipeline


def _batches(
    task: Task, outputs: Callable[[], tuple[Any, ...]], names: list[str]
) -> Iterator[dict[str, torch.Tensor]]:
    """Yield batches of DALI's PyTorch iterator, with the names of a graph's outputs."""
    pipeline = _build(task, outputs)
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    # Without a size the iterator never ends, so no epoch ends during a measurement.
    return (batch[0] for batch in DALIGenericIterator([pipeline], names))


def _files(task: Task) -> Any:
    """Return graph nodes that read encoded files, shuffled, and their labels."""
    from nvidia.dali import fn

    return fn.readers.file(
        files=[str(path) for path in task.files], labels=task.labels, random_shuffle=True
    )


def _decode(encoded: Any, device: str, crop: RandomResizedCrop | None = None) -> Any:
    """Return a graph node that decodes images, or random crops of them."""
    from nvidia.dali import fn, types

    if crop is None:
        return fn.decoders.image(encoded, device=device, output_type=types.RGB)
    return fn.decoders.image_random_crop(
        encoded, random_area=crop.scale, random_aspect_ratio=crop.ratio, output_type=types.RGB
    )


def _stride(task: Task) -> int:
    """Return the distance between frames, which must be equal for all clips.

    Raises:
        Unable: There are several distances, because a clip is longer than its video.
    """
    frames = task.clips.frames[:_NUM_CLIPS_LOOKED_AT]
    steps = np.unique(np.diff(frames, axis=1))
    if len(steps) > 1:
        raise Unable(
            f"reads frames at one stride only, and some videos are too short for {frames.shape[1]} frames at it "
            f"(or --fps was given): give a smaller --stride or --num-frames"
        )
    return int(steps[0]) if len(steps) else 1


def _reason(error: RuntimeError) -> str:
    """Return the sentence of DALI's report that describes the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    behind = lines.index("encountered:") + 1 if "encountered:" in lines[:-1] else 0
    return lines[behind][:200] if lines else "no reason given"
