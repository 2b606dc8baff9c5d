"""Make the text of `Loader.explain`, and the repr of a loader."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from dali_pipes.arguments.choose import Choice
from dali_pipes.arguments.setup import Setup
from dali_pipes.monitoring.stats import on_ray
from dali_pipes.runs.weight_history import describe_history, history_of
from dali_pipes.samples.targets import KINDS
from dali_pipes.stages.canvas_memory import View
from dali_pipes.state import describe_dataset, shown_sizes, steps_of
from dali_pipes.steps.schedule import BucketSteps
from dali_pipes.steps.streams.steps import AnySteps, StreamSteps
from dali_pipes.steps.variants import MultiScale
from dali_pipes.video.source import ClipSource, robots_of
from gpu_aug.views import CameraRecipes
from readers.cores import ranks_of_machine, usable_cores
from readers.labels.label_vector import described
from readers.plural import counted
from readers.video import VideoError
from readers.video.frame_folder import FRAMES_CODEC
from readers.video.info import peculiarity_lines


def describe(setup: Setup, steps: AnySteps | None, epoch: int) -> str:
    """Return the repr of a loader.

    Args:
        setup: The configuration of the loader.
        steps: The steps of an epoch on this rank; None before the loader's first use.
        epoch: The current epoch.
    """
    options, choice, order = setup.options, setup.choice, setup.fetcher.order
    batch_size, last_batch = options.batch_size, options.last_batch
    if steps is not None:
        batch_size, last_batch = steps.batch_size, steps.last_batch
    return (
        f"Loader({describe_dataset(options.dataset)}, [{steps_of(setup.fetcher.variants)}], {batch_size=}, "
        f"shuffle={order.name!r}, {last_batch=}, epoch={epoch}, "
        f"{choice.decoder}+{choice.engine} on {choice.device})"
    )


def explain(setup: Setup, steps: AnySteps, machines: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of `Loader.explain`: one for each choice, stage and setting.

    Args:
        setup: The configuration of the loader.
        steps: The steps of an epoch on this rank.
        machines: The names of the machines on which Ray workers have started.
    """
    yield from setup.choice.reasons
    yield from _samples(setup)
    yield from _recipes(setup)
    yield from _values(setup, steps)
    yield from _order(setup, steps)
    yield _decoding(setup)
    if setup.options.execution.cache == "device":
        from dali_pipes.decode.cuda_jpeg import device_cache  # a slow import

        yield device_cache.describe_cache(setup.choice.device)
    yield _threads(setup, machines)
    if setup.helpers.reason:
        yield f"helper processes: {setup.helpers.count or 'none'}, {setup.helpers.reason}"


def _samples(setup: Setup) -> Iterator[str]:
    """Yield lines about views, clips, and images that are not RGB of 8 bits."""
    views, clips, images = setup.views, setup.fetcher.clips, setup.fetcher.images
    first = setup.fetcher.variants.views[0]
    if isinstance(first, CameraRecipes):
        yield f"camera groups, each with draws of its own: {'; '.join(first.titles)}"
    elif len(views) > 1:
        yield (
            f"views: {len(views)} of each sample, which is read and decoded once; labels and targets "
            f"are those of the first"
        )
    if clips is not None:
        chosen = ", then ".join(map(repr, views[0].recipe.temporal_operations))
        yield f"clips: {clips.num_frames} frames each{', chosen with ' * bool(chosen)}{chosen}"
        for name, columns in clips.cameras.items():
            without = [
                str(one.root) for one in robots_of(setup.options.dataset) if name not in one.cameras
            ]
            black = f", black for {' and '.join(without)}" * bool(without)
            yield f"camera {name}: frames {columns.start} to {columns.stop - 1} of each clip{black}"
        yield from (f"videos: {name}: {text}" for name, text in peculiarity_lines(clips.peculiar()))
    if not images.is_usual:
        yield f"images: {images}"


def _recipes(setup: Setup) -> Iterator[str]:
    """Yield lines about the stages of each recipe; if a function makes one recipe per size, only of the first size."""
    variants = setup.fetcher.variants
    schedule = variants.schedules[0]
    sizes = ""
    if variants.sizes is not None:
        sizes = f" for {shown_sizes(variants.sizes.sizes)}, here the first size"
    for epoch in schedule.first_epochs:
        since = f" from epoch {epoch} on" if len(schedule) > 1 else ""
        if sizes or since:
            yield f"recipe{since}{sizes}:"
        for view in setup.variants[variants.at(epoch)]:
            yield from _stages(view)


def _stages(view: View) -> Iterator[str]:
    recipe, kind = view.recipe, view.kind
    first = recipe.decode_operations
    decode = ", ".join(map(repr, first)) or "whole images"
    size = recipe.decode_size
    canvas = "of several sizes" if size is None else str([*size, kind.channels])
    yield f"decode stage: {decode} -> {str(kind.dtype).removeprefix('torch.')} {canvas}"
    batch = ", ".join(map(repr, recipe.image_operations[len(first) :])) or "nothing"
    shape = [kind.channels, *recipe.fixed_size]
    yield f"batch stage: {batch} -> {str(view.dtype).removeprefix('torch.')} {shape}"


def _values(setup: Setup, steps: AnySteps) -> Iterator[str]:
    """Yield lines about labels, targets and maps."""
    fetcher = setup.fetcher
    if steps.variants.group > 1:
        shape = [steps.batch_size, setup.num_classes]
        labels = f"float32 {shape}" if setup.num_classes else "as they are"
        yield (
            f"mixing: among {steps.variants.group} neighbours in the order, the same on any number of ranks; "
            f"labels: {labels}"
        )
    if fetcher.label_shape != ():
        yield f"labels: {described(fetcher.label_shape)}, float32"
    kinds = [kind for kind in KINDS if kind in fetcher.targets.kinds]
    yield f"targets: {', '.join(kinds)}, where samples have them" if kinds else "targets: none"
    for kind, params in fetcher.variants.first.target_params.items():
        if params.flip_pairs:
            yield f"mirrored {kind}: the labels {params.flip_pairs} are exchanged"
    if fetcher.targets.maps:
        named = (f"{name} ({one!r})" for name, one in fetcher.targets.maps.maps)
        yield f"maps: {', '.join(named)}; the nearest pixel, NaN where nothing is known"


def _order(setup: Setup, steps: AnySteps) -> Iterator[str]:
    """Yield lines about the image size of each step, and about the order of the samples."""
    fetcher = setup.fetcher
    sizes, unit = fetcher.variants.sizes, "image" if fetcher.clips is None else "clip"
    if isinstance(sizes, MultiScale):
        yield (
            f"sizes: {shown_sizes(sizes.sizes)}; every {counted(sizes.every, 'sample')} another one is drawn"
        )
    if isinstance(steps, StreamSteps):
        yield from steps.explain(fetcher.order.name)
        return
    batch = ""
    if not isinstance(steps, BucketSteps):
        batch = f" of {counted(steps.global_batch, unit)}"
    else:
        of_each = (
            f"{height}x{width}: {counted(length, 'sample')}, {size} a step"
            for (height, width), length, size in zip(
                steps.order.buckets.sizes, steps.order.lengths, steps.batch_sizes, strict=True
            )
        )
        yield f"buckets: {'; '.join(of_each)}"
    yield (
        f"order: {counted(steps.length, 'sample')}, shuffle: {fetcher.order.name}, "
        f"{counted(steps.num_steps(), 'step')}{batch}, "
        f"rank {steps.rank} of {steps.world_size}, last batch: {steps.last_batch}"
        + (f", which leaves {steps.left_out} out" if steps.left_out else "")
    )
    if len(history_of(setup)) > 1:
        yield f"weights: {describe_history(setup)}"


def _decoding(setup: Setup) -> str:
    """Return a text about the decoder, and how far its pixels may differ from other decoders."""
    execution, choice, clips = setup.options.execution, setup.choice, setup.fetcher.clips
    decoded = "images decoded exactly"
    if clips is not None:
        decoded = f"frames: {_frames(choice, clips)}"
    elif execution.is_fast and choice.decoder == "cpu":
        decoded = "images decoded at a smaller size where they are shrunk a lot (fast)"
    one_by_one = execution.exact or choice.engine != "fused"
    return decoded + (", warps one by one" if one_by_one else "")


def _frames(choice: Choice, clips: ClipSource) -> str:
    """Return a text about the decoder of the frames of clips."""
    with suppress(VideoError):  # if the first video cannot be read, it is not a folder of frames
        if clips.parts(0)[0].info.codec == FRAMES_CODEC:
            return "files of their own, decoded as images on the CPU"
    if choice.decoder == "cpu":
        return "decoded by FFmpeg on the CPU"
    return f"decoded by DALI on {choice.device}; what it does not take, by FFmpeg on the CPU"


def _threads(setup: Setup, machines: Sequence[str]) -> str:
    """Return a text about the threads and processes that make the batches, and how many batches they make ahead."""
    options, count = setup.options, setup.threads_of_all
    threads = f"threads: {count}"
    if options.num_threads is None and options.workers is None and count < usable_cores():
        threads += f" of {counted(usable_cores(), 'core')}, which {ranks_of_machine()} ranks share"
    if options.workers is not None:
        threads += f" in {on_ray(options.workers.count, machines)}"
    if setup.helpers.count:
        threads += f" in {counted(setup.helpers.count, 'helper process')}"
    pipeline = options.user_pipeline
    if pipeline is not None:
        return f"{threads}, prefetch: {pipeline.depth}, the pipeline's own prefetch_queue_depth"
    return f"{threads}, prefetch: {options.execution.prefetch}"
