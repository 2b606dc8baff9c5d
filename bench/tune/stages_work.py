"""The work of every stage on its own, on samples that lie in memory."""

from collections.abc import Sequence
from typing import Any

import torch

from bench.tune.stages_held import Parts
from bench.tune.stages_turns import Work
from dali_pipes import targets
from dali_pipes.assemble import assemble
from dali_pipes.decode import opencv
from dali_pipes.errors import DecodeError
from dali_pipes.pipeline.canvases import ViewCanvases
from dali_pipes.pipeline.stages import NOTHING, Decoded, Fetched
from gpu_aug.errors import TargetsError
from gpu_aug.resampling.crop_and_resize import resample

_MOST_DECODED_PIXELS = 64_000_000


def header_work(parts: Parts) -> Work:
    """Look at headers, labels and further fields of a batch."""
    batches = _sound_samples(parts)

    def work(number: int) -> int:
        batch = batches[number % len(batches)]
        for sample in batch:
            parts.fetcher._check(sample)
        return len(batch)

    return work


def draw_work(parts: Parts) -> Work:
    """Draw the parameters of a batch."""
    batches = parts.batches

    def work(number: int) -> int:
        batch = batches[number % len(batches)]
        parts.fetcher.resized(batch, batch.sizes)
        return len(batch)

    return work


def decode_work(parts: Parts, size: int) -> Work:
    """Render the canvases of chunks of so many rows: decode the crops that were drawn, and resize them."""
    chunks = list(parts.chunks(size))

    def work(number: int) -> int:
        rows = chunks[number % len(chunks)]
        parts.render_of(rows)(rows, parts.engines.canvases(len(rows)), 0)
        return len(rows)

    return work


def resize_work(parts: Parts) -> Work | None:
    """Cut the crops out of images that are decoded, and resize them; None where no image can be decoded for it."""
    rows: list[tuple[torch.Tensor, Fetched]] = []
    pixels = 0
    for one in parts.chunks(1):
        data, (height, width) = one.data[0], one.sizes[0].tolist()
        pixels += height * width
        if rows and pixels > _MOST_DECODED_PIXELS:
            break
        try:
            rows.append((torch.from_numpy(opencv.decode(data or b"", (height, width))), one))
        except DecodeError:
            continue
    if not rows:
        return None

    def work(number: int) -> int:
        image, one = rows[number % len(rows)]
        outs = parts.engines.canvases(1).of(0, one.draws, 0)
        for drawn, out in zip(one.draws, outs, strict=True):
            resample(image, drawn.crops, 0, out)
        return 1

    return work


def target_work(parts: Parts) -> Work | None:
    """Read the targets of a batch and move them; None where no sample has any."""
    fetcher, batches = parts.fetcher, parts.batches
    if not any(fetcher.wants_targets(one, row) for one in batches for row in range(len(one))):
        return None

    def found_of(batch: Fetched, row: int) -> Any:
        try:
            return fetcher.read_targets(batch, row)
        except TargetsError:
            return NOTHING

    def work(number: int) -> int:
        batch = batches[number % len(batches)]
        found = [found_of(batch, row) for row in range(len(batch))]
        keys = [batch.key(row) for row in range(len(batch))]
        recipe = fetcher.variants.views[batch.plan.variant].recipes[0]
        draws, vectors = batch.mixed_draws()[0], fetcher.targets.maps.vectors
        targets.move(recipe, draws, found, keys, vectors)
        return len(batch)

    return work


def augment_work(parts: Parts, size: int) -> Work:
    """Run the engines on canvases that are rendered: on the CPU in chunks, on a GPU whole batches that lie there."""
    engines = parts.engines
    on_gpu = engines.device.type == "cuda"
    whole = on_gpu or not engines.one_by_one
    chunks = list(parts.batches if whole else parts.chunks(max(size // 4 * 4, 4)))
    rendered = [_rendered(parts, rows) for rows in chunks]

    def work(number: int) -> int:
        at = number % len(chunks)
        rows = chunks[at]
        engines.run(rows.mixed_draws(), rows.kept(), rendered[at], engines.empty(len(rows)))
        _finish(engines.device)
        return len(rows)

    return work


def transfer_work(parts: Parts) -> Work | None:
    """Copy the canvases of a batch to the GPU; None where there is none."""
    engines = parts.engines
    if engines.device.type != "cuda":
        return None
    canvases = engines.canvases(len(parts.batches[0]))

    def work(_: int) -> int:
        engines.upload(canvases)
        _finish(engines.device)
        return len(parts.batches[0])

    return work


def hand_over_work(parts: Parts) -> Work:
    """Make batches of finished images, which is what the thread of the training loop does."""
    batches = parts.batches
    done = [
        (Decoded(batch, [NOTHING] * len(batch)).finished(), parts.engines.empty(len(batch)))
        for batch in batches
    ]

    def work(number: int) -> int:
        finished, images = done[number % len(done)]
        return len(assemble(finished, images, parts.setup))

    return work


def _finish(device: torch.device) -> None:
    """Wait for a GPU without taking a core meanwhile, as `torch.cuda.synchronize` does; return at once on a CPU."""
    if device.type == "cuda":
        done: Any = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        done.record(torch.cuda.current_stream(device))
        done.synchronize()


def _rendered(parts: Parts, rows: Fetched) -> Sequence[ViewCanvases]:
    canvases = parts.engines.canvases(len(rows))
    parts.render_of(rows)(rows, canvases, 0)
    if parts.engines.device.type == "cpu":
        return canvases.views
    return parts.engines.upload(canvases)


def _sound_samples(parts: Parts) -> list[list[Any]]:
    found = [[one for one in batch.samples if one is not None] for batch in parts.batches]
    return [batch for batch in found if batch]
