"""Making one row of a batch once more, and looking at it after each operation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import count
from typing import Any

import numpy as np
from torch import Tensor

from dali_pipes.arguments.setup import Setup
from dali_pipes.arguments.values import require_epoch, require_not_negative
from dali_pipes.errors import BadSampleError, LoaderError
from dali_pipes.monitoring.recorder import Recorder
from dali_pipes.runs.bad_samples import BadRecord
from dali_pipes.runs.replay.place import plan_of
from dali_pipes.runs.replay.result import Replay, Stage, Step
from dali_pipes.runs.replay.watch import Watched, canvases, pictures, watched
from dali_pipes.stages.assemble import assemble
from dali_pipes.stages.canvases import View
from dali_pipes.stages.data import Finished, Images
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.production import Production
from dali_pipes.steps.schedule import Plan, Steps
from dali_pipes.steps.streams.fetch import StreamFetcher
from gpu_aug import Draws
from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.ops.mix import Mixing
from gpu_aug.ops.operation import Operation
from readers import Sample, read_header


def replay(setup: Setup, index: int, epoch: int, *, repeat: int = 0, view: int = 0) -> Replay:
    """Make one row once more; see `Loader.replay`.

    Args:
        setup: What the loader is made of; it is not changed.
        index: Place of the sample in the dataset.
        epoch: Number of the epoch.
        repeat: Which of the times that the epoch has the sample, from 0.
        view: Which of several views.

    Raises:
        LoaderError: An argument that is not allowed, a stream, or a decoder of `from_dali`.
        BadSampleError: The sample is bad.
    """
    _require(setup, index, epoch, repeat, view)
    plan = plan_of(setup, int(index), int(epoch), int(repeat))
    fetcher = replace(setup.fetcher, recorder=Recorder())  # the run's own do not know of it
    seen = [watched(one) for one in setup.variants[plan.variant]]
    variants = [*setup.variants]
    variants[plan.variant] = tuple(one for one, _ in seen)
    execution = replace(setup.options.execution, helper_process=False)
    options = replace(setup.options, execution=execution, workers=None)
    alone = replace(
        setup, options=options, fetcher=fetcher, variants=tuple(variants), num_threads=1
    )
    finished, images = _made(alone, plan)
    row = int(plan.rows[0])
    _require_sound(finished, row)
    chosen, engine = seen[view]
    canvas = canvases(engine, chosen, row)
    return Replay(
        key=finished.keys[row],
        index=int(index),
        epoch=int(epoch),
        repeat=int(repeat),
        position=int(plan.positions[row]),
        header=_header(fetcher, int(index), finished, row, engine),
        partners=[key for number, key in enumerate(finished.keys) if number != row and key],
        canvas=canvas[0] if len(canvas) == 1 else canvas,
        steps=tuple(_steps(setup, chosen, engine, row, finished.keys)),
        batch=assemble(finished, images, setup),
        view=int(view),
        recipe=chosen.recipe,
        way=f"{setup.choice.decoder}+{setup.choice.engine} on {setup.choice.device}",
    )


def _require(setup: Setup, index: Any, epoch: Any, repeat: Any, view: Any) -> None:
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
    require_not_negative(index=index, repeat=repeat, view=view)
    length, views = len(setup.options.dataset), len(setup.views)
    for name, value, most in (("index", index, length), ("view", view, views)):
        if value >= most:
            raise LoaderError(
                f"{name}={value} is not allowed; give an integer from 0 to {most - 1}"
            )


def _made(setup: Setup, plan: Plan) -> tuple[Finished, Images]:
    """Make the step of a plan."""
    num = len(plan.positions)
    steps = Steps(len(setup.fetcher.order), num, 0, 1, "partial")
    production = Production(setup, steps)
    source = production.open(num)
    try:
        source.start(plan)
        return source.take()
    finally:
        production.stop(source)


def _require_sound(finished: Finished, row: int) -> None:
    bad = [record for record in finished.records[row] if not record.kept]
    if bad:
        record: BadRecord = bad[0]
        raise BadSampleError(
            f"sample {record.index} ({record.key}) is bad ({record.stage}: {record.reason}), so it is in no batch; see "
            "on_bad_sample"
        )


def _header(
    fetcher: Fetcher, index: int, finished: Finished, row: int, seen: Watched
) -> dict[str, Any]:
    """What is known of a sample's file."""
    assert seen.draws is not None
    [sample] = fetcher.dataset.fetch(np.array([index]))
    size = seen.draws.sizes[row * fetcher.images_per_row].tolist()
    found: dict[str, Any] = {"height": size[0], "width": size[1]}
    data = sample.image if isinstance(sample, Sample) else None
    if data is None:
        return found
    if fetcher.clips is None and not fetcher.images.names:
        found = asdict(read_header(data))
    found["bytes"] = len(data)
    if len(frames := finished.frames[row]):
        found["frames"] = frames.tolist()
    return found


def _steps(
    setup: Setup, view: View, seen: Watched, row: int, keys: Sequence[str]
) -> Iterator[Step]:
    """Give every operation in turn."""
    recipe, draws = view.recipe, seen.draws
    assert draws is not None
    times = view.images_per_row
    words = _Words(draws, row * times, [key for key in keys for _ in range(times)])
    for timed, params in zip(recipe.temporal_operations, draws.temporal, strict=True):
        yield words.step(timed, "time", [params], None)
    for cut, params in zip(recipe.decode_operations, draws.decode_params, strict=True):
        yield words.step(cut, "decode", [params], None)
    start = 0
    for operation, image in pictures(setup, view, seen, row):
        own = draws.params[start : start + len(operation.leaves)]
        yield words.step(operation, "augment", own, image[0] if len(image) == 1 else image)
        start += len(own)


class _Words:
    """Says what was drawn for a row, operation by operation in their order."""

    def __init__(self, draws: Draws, row: int, keys: Sequence[str]) -> None:
        self._draws, self._row, self._keys, self._sizes = draws, row, keys, draws.sizes

    def step(
        self, operation: Operation, stage: Stage, params: Sequence[Params], image: Tensor | None
    ) -> Step:
        """Describe the next operation, of whose leaves these are the parameters."""
        from dali_pipes.preview.draw_descriptions import (
            leaf_words,  # its package imports the loader
        )

        leaves = operation.leaves or (operation,)  # those on the time of clips have none
        found: dict[str, Any] = {}
        told: list[str] = []
        for leaf, drawn in zip(leaves, params, strict=True):
            if self._applied(leaf, drawn):
                height, width = self._sizes[self._row].tolist()
                own, name = row_of(drawn, self._row), type(leaf).__name__
                words = leaf_words(leaf, own, self._draws, self._row, (height, width), self._keys)
                plain = {key: _plain(value[0]) for key, value in own.items() if key != "apply"}
                if leaf is operation:
                    found |= plain
                else:
                    found[_free(name, found)] = plain
                    short = name.removeprefix("Policy") if words else name
                    words = f"{short}: {words}" if words else short
                told.append(words)
            if stage != "time":
                self._sizes = leaf.result_size(drawn, self._sizes)
        applied = any(map(self._applied, leaves, params))
        name = type(operation).__name__
        return Step(name, stage, operation, applied, found, "; ".join(told), image)

    def _applied(self, leaf: Operation, params: Params) -> bool:
        if isinstance(leaf, Mixing):
            return bool(leaf.mixed(params, self._draws.partners)[self._row])
        return bool(params["apply"][self._row]) if "apply" in params else True


def _plain(value: Any) -> Any:
    """A number of Python, or the array that was drawn."""
    return value.item() if value.ndim == 0 else value


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """A name that is not taken: an operation may come several times among others."""
    numbers = count(2)
    free = name
    while free in taken:
        free = f"{name} {next(numbers)}"
    return free
