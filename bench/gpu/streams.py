"""Step: a loop on a stream of its own, and a graph captured while batches are on their way, change nothing."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.gpu.async_check import losses
from bench.gpu.our_loader import Decoder, decoders, endless, loader_for
from bench.gpu.photographs import photographs, write_files
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, finish


def streams(scale: Scale, data: Path, rows: Rows) -> None:
    """Each decoder under both."""
    count = 100 if scale.on_gpu else 4
    with TemporaryDirectory() as root:
        folder = write_files(Path(root) / "small", photographs(data, (96, 128), 64))
        for decoder in decoders(scale):
            with rows.check(f"{decoder}: on a stream of the loop's own", batches=count) as row:
                row.unit = "losses that differ"
                expected = losses(scale, folder, decoder, waits=True, count=count)
                other = losses(scale, folder, decoder, waits=True, count=count, seed=1)
                with on_own_stream(scale):
                    found = losses(scale, folder, decoder, waits=False, count=count)
                row.judge(_differing(found, expected), 0, _differing(other, expected))
            for mode in ("thread_local", "global"):
                name = f"{decoder}: a graph captured while batches are made, {mode}"
                with rows.check(name) as row:
                    row.unit = "answers that differ"
                    row.judge(*captured(scale, folder, decoder, mode))


def on_own_stream(scale: Scale) -> AbstractContextManager[Any]:
    """Make another stream than the default the current one."""
    if not scale.on_gpu:
        return nullcontext()
    made: Any = torch.cuda.Stream(scale.device)  # type: ignore[no-untyped-call]
    return torch.cuda.stream(made)


def captured(
    scale: Scale, folder: Path, decoder: Decoder, mode: str, turns: int = 5
) -> tuple[int, int, int]:
    """Capture a small model several times in a loop, and replay it on each batch.

    In torch's "global" mode CUDA refuses memory to all other threads meanwhile, DALI's among them; in "thread_local" it does not.

    Returns:
        How many answers differ from the same model without a graph, how many may, and how many do for other batches.
    """
    differing = control = 0
    with loader_for(scale, folder, decoder, batch_size=16) as loader:
        batches = endless(loader)
        images = torch.zeros_like(next(batches).images)
        last = _answer(images)
        finish(scale.device)
        for _ in range(turns):
            replay, answer = capture(lambda: _answer(images), scale, mode)
            for batch in islice(batches, 4):
                images.copy_(batch.images)
                replay()
                differing += not torch.equal(answer(), expected := _answer(batch.images))
                control += not torch.equal(last, expected)
                last = expected
    return differing, 0, control


def capture(work: Callable[[], torch.Tensor], scale: Scale, mode: str) -> tuple[Callable[[], None], Callable[[], torch.Tensor]]:  # fmt: skip
    """A graph of some work: what replays it, and what gives its result; without a GPU the work is done by the second."""
    if not scale.on_gpu:
        return lambda: None, work
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        result = work()
    return graph.replay, lambda: result


def _answer(images: torch.Tensor) -> torch.Tensor:
    return images.double().square().mean((0, 2, 3))


def _differing(found: list[float], expected: list[float]) -> int:
    return sum(one != other for one, other in zip(found, expected, strict=True))
