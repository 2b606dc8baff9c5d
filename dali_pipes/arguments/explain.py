"""What a loader is, what it will do and why, in words for people."""

from collections.abc import Iterator, Sequence

import numpy as np

from dali_pipes.arguments.choose import Choice
from dali_pipes.arguments.options import Setup
from dali_pipes.arguments.process_rank import Ranks
from dali_pipes.monitoring.stats import on_ray
from dali_pipes.samples.targets import KINDS
from dali_pipes.stages.canvases import View
from dali_pipes.state import name_of, shown_sizes, steps_of
from dali_pipes.steps.buckets import BucketSteps
from dali_pipes.steps.multi_scale import MultiScale
from dali_pipes.steps.streams.explain import explain_stream
from dali_pipes.steps.streams.steps import AnySteps, StreamSteps
from dali_pipes.video.dali.nvdec import find_nvdec
from dali_pipes.video.dali.support import LIBAVCODEC, NVDEC
from dali_pipes.video.source import ClipSource
from readers.cores import ranks_of_machine, usable_cores
from readers.label_vector import described
from readers.plural import counted
from readers.video import VideoInfo
from readers.video.frame_folder import FRAMES_CODEC
from readers.video.info import peculiarity_lines


def explain(setup: Setup, steps: AnySteps, ranks: Ranks, machines: Sequence[str] = ()) -> str:
    """Return one line for each choice, stage and setting; `machines` are those of the workers that have started."""
    return "\n".join(_lines(setup, steps, ranks, machines))


def describe(setup: Setup, steps: AnySteps | None, epoch: int) -> str:
    """Return a loader's words for itself; its steps may have been replaced."""
    options, choice, order = setup.options, setup.choice, setup.fetcher.order
    batch_size, last_batch = options.batch_size, options.last_batch
    if steps is not None:
        batch_size, last_batch = steps.batch_size, steps.last_batch
    return (
        f"Loader({name_of(options.dataset)}, [{steps_of(setup.fetcher.variants)}], {batch_size=}, "
        f"shuffle={order.name!r}, {last_batch=}, epoch={epoch}, "
        f"{choice.decoder}+{choice.engine} on {choice.device})"
    )


def _lines(setup: Setup, steps: AnySteps, ranks: Ranks, machines: Sequence[str]) -> Iterator[str]:
    fetcher, views, clips = setup.fetcher, setup.views, setup.fetcher.clips
    yield from setup.choice.reasons
    if len(views) > 1:
        yield (
            f"views: {len(views)} of each sample, which is read and decoded once; labels and targets "
            f"are those of the first"
        )
    if clips is not None:
        chosen = ", then ".join(map(repr, views[0].recipe.temporal_operations))
        yield f"clips: {clips.num_frames} frames each{', chosen with ' * bool(chosen)}{chosen}"
        for name, columns in clips.cameras.items():
            yield f"camera {name}: frames {columns.start} to {columns.stop - 1} of each clip"
        yield from (f"videos: {name}: {text}" for name, text in peculiarity_lines(clips.peculiar()))
    if not fetcher.images.is_usual:
        yield f"images: {fetcher.images}"
    yield from _recipes(setup)
    if steps.group > 1:
        shape = [steps.batch_size, setup.num_classes]
        labels = f"float32 {shape}" if setup.num_classes else "as they are"
        yield (
            f"mixing: among {steps.group} neighbours in the order, the same on any number of ranks; "
            f"labels: {labels}"
        )
    if fetcher.label_shape != ():
        yield f"labels: {described(fetcher.label_shape)}, float32"
    kinds = [kind for kind in KINDS if kind in fetcher.targets.kinds]
    yield f"targets: {', '.join(kinds)}, where samples have them" if kinds else "targets: none"
    if fetcher.targets.maps:
        named = (f"{name} ({one!r})" for name, one in fetcher.targets.maps.maps)
        yield f"maps: {', '.join(named)}; the nearest pixel, NaN where nothing is known"
    yield from _sizes(setup, steps)
    if isinstance(steps, StreamSteps):
        yield from explain_stream(steps, fetcher.order.name)
    else:
        yield _order(steps, fetcher.order.name, "image" if clips is None else "clip")
    if (other := ranks.other()) is not None:
        yield f"rank and world size: as given, though this process is {other}"
    yield _decoding(setup)
    if setup.options.cache == "device":
        from dali_pipes.decode.cuda_jpeg import device_cache

        yield device_cache.describe_cache(setup.choice.device)
    yield _threads(setup, machines)
    if setup.helpers.reason:
        yield f"helper processes: {setup.helpers.count or 'none'}, {setup.helpers.reason}"


def _recipes(setup: Setup) -> Iterator[str]:
    """Say what happens to an image; of recipes that a function made for many sizes, those of the first are shown."""
    variants = setup.fetcher.variants
    schedule = variants.schedules[0]
    size = ""
    if variants.sizes is not None:
        others = len(variants.sizes) - 1
        size = f" for {shown_sizes(variants.sizes.sizes[:1])}"
        size += f", and likewise for {counted(others, 'other size')}" if others else ""
    for epoch in schedule.first_epochs:
        since = f" from epoch {epoch} on" if len(schedule) > 1 else ""
        if size or since:
            yield f"recipe{since}{size}:"
        for view in setup.variants[variants.at(epoch)]:
            yield from _stages(view)


def _sizes(setup: Setup, steps: AnySteps) -> Iterator[str]:
    """Say what chooses the size of a step."""
    sizes = setup.fetcher.variants.sizes
    if isinstance(sizes, MultiScale):
        yield (
            f"sizes: {shown_sizes(sizes.sizes)}; every {counted(sizes.every, 'sample')} another one is drawn"
        )
    if isinstance(steps, BucketSteps):
        of_each = [
            f"{height}x{width}: {counted(length, 'sample')}, {batch} a step"
            for (height, width), length, batch in zip(
                steps.order.buckets.sizes, steps.order.lengths, steps.batch_sizes, strict=True
            )
        ]
        yield f"buckets: {'; '.join(of_each)}"


def _order(steps: AnySteps, name: str, unit: str) -> str:
    batch = "" if isinstance(steps, BucketSteps) else f" of {counted(steps.global_batch, unit)}"
    return (
        f"order: {counted(steps.length, 'sample')}, shuffle: {name}, "
        f"{counted(steps.num_steps(), 'step')}{batch}, "
        f"rank {steps.rank} of {steps.world_size}, last batch: {steps.last_batch}"
        + (f", which leaves {steps.left_out} out" if steps.left_out else "")
    )


def _decoding(setup: Setup) -> str:
    """Say who decodes, and how exactly."""
    options, choice, clips = setup.options, setup.choice, setup.fetcher.clips
    warps = ", warps one by one" if options.exact or choice.engine != "fused" else ""
    if clips is not None:
        return _frames(clips, choice) + warps
    exactly = "decoded exactly"
    if options.fast:
        by_dali = choice.decoder == "dali"
        small = "decoded at a smaller size where they are shrunk a lot (fast)"
        exactly = 'decoded exactly, as DALI does under decode="fast", too' if by_dali else small
    return f"images {exactly}{warps}"


def _frames(clips: ClipSource, choice: Choice) -> str:
    """Say who decodes the frames of clips."""
    first = clips.info(int(clips.videos(np.zeros(1, np.int64))[0]))
    if isinstance(first, VideoInfo) and first.codec == FRAMES_CODEC:
        return "frames: files of their own, decoded as images on the CPU"
    if choice.decoder == "cpu":
        return "frames: decoded by FFmpeg on the CPU"
    codecs, where = LIBAVCODEC, "on the CPU"
    if choice.device.type == "cuda":
        codecs = NVDEC
        where = f"on NVDEC, at most {find_nvdec(choice.device.index).engines} videos at once"
    return f"frames: {', '.join(codecs)} decoded by DALI {where}; what it does not take, by FFmpeg on the CPU"


def _threads(setup: Setup, machines: Sequence[str]) -> str:
    count, where = setup.helpers.count, ""
    ahead = f"prefetch: {setup.options.prefetch}"
    if count > 1:
        where = f"{setup.num_threads} in each of {count} helper processes, "
        ahead += " in each"
    elif count:
        where = "all in one helper process, "
    if (pipeline := setup.options.user_pipeline) is not None:
        ahead = f"prefetch: {pipeline.depth}, the pipeline's own prefetch_queue_depth"
    if (workers := setup.options.workers) is not None:
        return (
            f"threads: {workers.num_threads} in each of {on_ray(workers.count, machines)}, {ahead}"
        )
    shared = ""
    if setup.options.num_threads is None and setup.threads_of_all < usable_cores():
        shared = f" of {counted(usable_cores(), 'core')}, which {ranks_of_machine()} ranks share"
    return f"threads: {setup.threads_of_all}{shared}, {where}{ahead}"


def _stages(view: View) -> list[str]:
    recipe, size = view.recipe, view.recipe.decode_size
    decode = ", ".join(map(repr, recipe.decode_operations)) or "whole images"
    kind = view.kind
    canvas = "of several sizes" if size is None else str([*size, kind.channels])
    after = recipe.image_operations[len(recipe.decode_operations) :]
    batch = ", ".join(map(repr, after)) or "nothing"
    dtype = str(view.dtype).removeprefix("torch.")
    single = recipe.num_single_leaves
    one_by_one = f", the first {single} image by image" if single else ""
    return [
        f"decode stage: {decode} -> {str(kind.dtype).removeprefix('torch.')} {canvas}",
        f"batch stage: {batch} -> {dtype} {[kind.channels, *recipe.fixed_size]}{one_by_one}",
    ]
