"""Make one row of a batch again, with the picture after each operation."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dali_pipes.arguments.setup import Setup
from dali_pipes.arguments.values import require_epoch, require_integers
from dali_pipes.errors import BadSampleError, LoaderError
from dali_pipes.monitoring.recorder import Recorder
from dali_pipes.runs.replay_result import Replay, ReplayedOperation, Stage
from dali_pipes.stages.assemble import assemble
from dali_pipes.stages.canvas_memory import View
from dali_pipes.stages.data import Finished
from dali_pipes.stages.data import Images as FinishedImages
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.production import Production
from dali_pipes.steps.schedule import Plan, Steps, complete_groups, positions_of
from dali_pipes.steps.streams.fetch import StreamFetcher
from dali_pipes.steps.variants import MultiScale
from gpu_aug import Draws, Engine, Recipe, compile_engine
from gpu_aug.engines.engine import Images
from gpu_aug.ops.operation import Operation
from readers import Sample, read_header
from readers.order.bucket_order import BucketOrder
from readers.plural import counted

if TYPE_CHECKING:
    from dali_pipes.preview.draw_descriptions import DrawnLeaf


@dataclass
class Seen:
    """The recorded input of an engine: the decoded images of a step, and the draws for them."""

    images: Images
    draws: Draws


@dataclass
class RecordingEngine:
    """An engine that records its inputs; see Engine."""

    engine: Engine
    name: str
    seen: Seen | None = None

    def run(self, images: Images, draws: Draws, out: Tensor) -> None:
        """Record the inputs, and run the batch stage."""
        copies = images.clone() if isinstance(images, Tensor) else [one.clone() for one in images]
        self.seen = Seen(copies, draws)
        self.engine.run(images, draws, out)


def replay(setup: Setup, index: int, epoch: int, *, repeat: int = 0, view: int = 0) -> Replay:
    """Make one row again; see `Loader.replay`.

    Args:
        setup: The configuration of the loader; it is not changed.
        index: Index of the sample in the dataset.
        epoch: The epoch, counted from 0.
        repeat: Index of the occurrence of the sample within the epoch, from 0.
        view: Index of the view, from 0.

    Raises:
        LoaderError: An argument is not allowed; or the data is a stream; or the decoder is one of `from_dali`.
        BadSampleError: The sample is bad.
    """
    _require_allowed(setup, index, epoch, repeat, view)
    plan = _plan_row(setup, int(index), int(epoch), int(repeat))
    alone, engines = _recording_setup(setup, plan.variant)
    finished, images = make_step(alone, plan)
    row = int(plan.rows[0])
    require_good(finished)
    chosen, seen = alone.variants[plan.variant][view], engines[view].seen
    assert seen is not None
    canvas = _canvases(seen, chosen, row)
    return Replay(
        key=finished.keys[row],
        index=int(index),
        epoch=int(epoch),
        repeat=int(repeat),
        position=int(plan.positions[row]),
        header=_header(alone.fetcher, int(index), finished, row, finished.draws[view]),
        partners=[key for number, key in enumerate(finished.keys) if number != row and key],
        canvas=canvas[0] if len(canvas) == 1 else canvas,
        steps=tuple(_replayed_operations(setup, chosen, seen, row, finished.keys)),
        batch=assemble(finished, images, setup),
        view=int(view),
        recipe=chosen.recipe,
        way=f"{setup.choice.decoder}+{setup.choice.engine} on {setup.choice.device}",
    )


def require_good(finished: Finished) -> None:
    """Raise BadSampleError for the first bad sample among a step's own rows, even if it has a substitute."""
    for row in finished.plan.rows.tolist():
        for record in finished.records[row]:
            if not record.kept:
                raise BadSampleError(
                    f"sample {record.index} ({record.key}) is bad ({record.stage}: {record.reason}), so it is in no batch; "
                    "see on_bad_sample"
                )


def _require_allowed(setup: Setup, index: Any, epoch: Any, repeat: Any, view: Any) -> None:
    if isinstance(setup.fetcher, StreamFetcher):
        raise LoaderError(
            "replay needs samples that can be read at random, and this is a stream; open the data without "
            'format="stream", or make shards with gpu-aug pack'
        )
    if setup.options.user_pipeline is not None:
        raise LoaderError(
            "replay is not possible with a pipeline of from_dali, which serves its loop alone; make a loader with "
            'decoder="cpu" or "dali"'
        )
    require_epoch(epoch)
    require_integers(0, len(setup.options.dataset) - 1, index=index)
    require_integers(0, len(setup.views) - 1, view=view)
    require_integers(0, repeat=repeat)


def _plan_row(setup: Setup, index: int, epoch: int, repeat: int) -> Plan:
    """Return a step of one row, with the neighbours that may be mixed with it.

    Raises:
        LoaderError: The epoch has fewer occurrences of the sample.
    """
    order, variants = setup.fetcher.order, setup.fetcher.variants
    [positions] = positions_of(order, epoch, [index], repeat + 1)
    if not positions:
        raise LoaderError(
            f"sample {index} does not come in epoch {epoch}, of which other samples are drawn by their weights; choose "
            "another epoch"
        )
    if len(positions) <= repeat:
        raise LoaderError(
            f"repeat={repeat} is not allowed: epoch {epoch} has sample {index} {counted(len(positions), 'time')}; give a "
            f"number from 0 to {len(positions) - 1}"
        )
    position = positions[repeat]
    start, stop, size, bucket = 0, len(order), 0, 0
    if isinstance(order, BucketOrder):
        buckets = range(len(order.lengths))
        size = bucket = next(one for one in buckets if position < order.stretch(one)[1])
        start, stop = order.stretch(bucket)
    elif isinstance(variants.sizes, MultiScale):
        size = variants.sizes.at(setup.fetcher.seed, epoch, position)
    variant = variants.at(epoch, size)
    own = np.array([position - start], np.int64)
    group, rows = complete_groups(own, variants.views[variant].group, stop - start)
    return Plan(epoch, 0, start + group, rows, np.array([True]), 0, variant=variant, bucket=bucket)


def _recording_setup(setup: Setup, variant: int) -> tuple[Setup, list[RecordingEngine]]:
    """Return a configuration without helpers, whose engines record their inputs, and these engines."""
    engines = [RecordingEngine(view.engine, view.engine.name) for view in setup.variants[variant]]
    views = zip(setup.variants[variant], engines, strict=True)
    variants = [*setup.variants]
    variants[variant] = tuple(replace(view, engine=engine) for view, engine in views)
    execution = replace(setup.options.execution, helper_process=False)
    alone = replace(
        setup,
        options=replace(setup.options, execution=execution, workers=None),
        # A recorder of its own: the statistics of the run do not count this.
        fetcher=replace(setup.fetcher, recorder=Recorder()),
        variants=tuple(variants),
        num_threads=1,
    )
    return alone, engines


def make_step(setup: Setup, plan: Plan) -> tuple[Finished, FinishedImages]:
    """Make a single step in this process, as a loop of the loader does."""
    num = len(plan.positions)
    fetcher = setup.fetcher
    steps = Steps(len(fetcher.order), num, 0, 1, "partial", fetcher.variants)
    production = Production(setup, steps)
    source = production.open(num)
    try:
        source.start(plan)
        return source.take()
    finally:
        production.stop(source)


def _header(
    fetcher: Fetcher, index: int, finished: Finished, row: int, draws: Draws
) -> dict[str, Any]:
    """Return the properties of a sample's file for `Replay.header`."""
    [sample] = fetcher.dataset.fetch(np.array([index]))
    height, width = draws.sizes[row].tolist()
    header: dict[str, Any] = {"height": height, "width": width}
    data = sample.image if isinstance(sample, Sample) else None
    if data is None:
        return header
    if fetcher.clips is None and not fetcher.images.names:
        header = asdict(read_header(data))
    header["bytes"] = len(data)
    if len(frames := finished.frames[row, : fetcher.num_frames]):
        header["frames"] = frames.tolist()
    return header


def _canvases(seen: Seen, view: View, row: int) -> Tensor:
    """Return the decoded images of a row, [images of a sample, C, height, width], on the CPU."""
    times = view.images_per_row
    images = [seen.images[number] for number in range(row * times, (row + 1) * times)]
    return torch.stack(images).cpu().permute(0, 3, 1, 2)


def _replayed_operations(
    setup: Setup, view: View, seen: Seen, row: int, keys: Sequence[str]
) -> Iterator[ReplayedOperation]:
    """Yield the operations of the recipe in order, each with its draw and its picture."""
    # Imported here: its package imports the loader, which imports this module.
    from dali_pipes.preview.draw_descriptions import describe_leaves

    recipe, draws, times = view.recipe, seen.draws, view.images_per_row
    keys = [key for key in keys for _ in range(times)]
    leaves = iter(describe_leaves(recipe, draws, row * times, keys))
    num_decode = len(recipe.decode_operations)
    stages: list[tuple[Operation, Stage]] = [
        *((operation, "time") for operation in recipe.temporal_operations),
        *((operation, "decode") for operation in recipe.decode_operations),
        *((operation, "augment") for operation in recipe.image_operations[num_decode:]),
    ]
    stop = 0
    for number, (operation, stage) in enumerate(stages, 1 - len(recipe.temporal_operations)):
        own, image = list(islice(leaves, max(1, len(operation.leaves)))), None
        if stage == "augment":
            stop += len(own)
            until = replace(seen, draws=replace(draws, params=draws.params[:stop]))
            image = _run_until(setup, view, until, row, number)
            image = image[0] if len(image) == 1 else image
        yield _describe(operation, stage, own, image)


def _describe(
    operation: Operation, stage: Stage, leaves: "Sequence[DrawnLeaf]", image: Tensor | None
) -> ReplayedOperation:
    """Return an operation as it was applied: its draw, its description and its picture."""
    from dali_pipes.preview.draw_descriptions import leaf_name

    params: dict[str, Any] = {}
    texts: list[str] = []
    for leaf, own, is_applied, words in leaves:
        if not is_applied:
            continue
        values = {name: _plain(value[0]) for name, value in own.items() if name != "apply"}
        if leaf is operation:
            params = values
            texts.append(words)
        else:
            name = type(leaf).__name__
            # One operation object may occur several times in a recipe.
            params[f"{name} {len(params) + 1}" if name in params else name] = values
            texts.append(": ".join(filter(None, [leaf_name(leaf), words])))
    is_applied = any(leaf.is_applied for leaf in leaves)
    name = type(operation).__name__
    return ReplayedOperation(name, stage, operation, is_applied, params, "; ".join(texts), image)


def _plain(value: Any) -> Any:
    """Return a drawn value as a Python number if it is a single number, else as an array."""
    return value.item() if value.ndim == 0 else value


def _run_until(setup: Setup, view: View, seen: Seen, row: int, stop: int) -> Tensor:
    """Return the images of a row after the first operations of its recipe, as if the recipe ended there.

    Returns:
        float32 [images of a sample, C, height, width] on the CPU.
    """
    full = view.recipe
    recipe = Recipe(full.image_operations[:stop], **full.target_params)
    engine = compile_engine(
        setup.choice.engine,
        recipe,
        device=view.device,
        exact=setup.options.execution.exact,
        kind=view.kind,
    )
    draws, channels, device = seen.draws, view.kind.channels, view.device
    start, end = row * view.images_per_row, (row + 1) * view.images_per_row
    if recipe.size is not None:  # all rows at once, because they may be mixed
        out = torch.empty(len(draws), channels, *recipe.size, device=device)
        engine.run(seen.images, draws, out)
        return out[start:end].cpu()
    images = []
    for number in range(start, end):
        own = draws.rows(number, number + 1)
        out = torch.empty(1, channels, *recipe.result_sizes(own)[0].tolist(), device=device)
        image = seen.images[number]
        engine.run(image[None] if recipe.decode_size is not None else [image], own, out)
        images.append(out[0])
    return torch.stack(images).cpu()
