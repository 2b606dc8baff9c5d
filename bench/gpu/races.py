"""Steps that check that losses do not depend on waits for the device, on streams, or on captured graphs.

Another step uses a trace of driver calls to check whether the training loop's thread waits for the device.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.gpu.contenders import Decoder, decoders, endless, loader_for
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, photographs, temporary_files
from bench.timing import synchronise
from gpu_aug import Recipe

MARK = "the training loop"
"""Name of the loop's own range in a trace."""

_COUNT = 10  # batches of a trace
_WAITS = re.compile(
    r"(cuda|cu)(Stream|Device|Event|Ctx|Thread)Synchronize|cudaMemcpy(2D|3D|ToSymbol|FromSymbol)?|cuMemcpy(\w*[a-z])?(DtoH|HtoD|DtoD)"
)
_SUFFIXES = re.compile(r"(_v\d+|_ptsz|_ptds)+$")


def races(scale: Scale, data: Path, rows: Rows) -> None:
    """For each decoder, check that losses without synchronising equal those of a loop that synchronises.

    That loop synchronises after each batch.
    """
    count = 500 if scale.on_gpu else 6
    with temporary_files(photographs(data, (96, 128), 64)) as folder:
        for decoder in decoders(scale):
            with rows.check(decoder, batches=count) as row:
                _judge(row, partial(losses, scale, folder, decoder), count)


def streams(scale: Scale, data: Path, rows: Rows) -> None:
    """Check the batches of each decoder in a loop on a separate CUDA stream, and in one that captures CUDA graphs meanwhile."""
    count = 100 if scale.on_gpu else 4
    stream: Any = torch.cuda.Stream(scale.device) if scale.on_gpu else None  # type: ignore[no-untyped-call]
    with temporary_files(photographs(data, (96, 128), 64)) as folder:
        for decoder in decoders(scale):
            with rows.check(f"{decoder}: on a stream of the loop's own", batches=count) as row:
                _judge(row, partial(losses, scale, folder, decoder), count, stream)
            for mode in ("thread_local", "global"):
                name = f"{decoder}: a graph captured while batches are made, {mode}"
                with rows.check(name) as row:
                    differing, control = captured(scale, folder, decoder, mode)
                    row.judge(differing, 0, control, unit="answers that differ")


def _judge(row: Row, run: Callable[..., list[float]], count: int, stream: Any = None) -> None:
    """Fill in a row: in how many steps two loops that do not synchronise differ in the loss.

    If a stream is given, the loops run on it. As a control, the losses of the first loop are compared with those of
    another seed.
    """
    expected = run(waits=True, count=count)
    other = run(waits=True, count=count // 20 + 2, seed=1)
    with torch.cuda.stream(stream):  # no effect if the stream is None
        hasty = [run(waits=False, count=count) for _ in "ab"]
    apart = [_differing(found, expected) for found in hasty]
    row.facts["first at step"] = [steps[0] for steps in apart if steps]
    control = len(_differing(other, expected))
    row.judge(sum(map(len, apart)), 0, control, unit="losses that differ")


def losses(
    scale: Scale, folder: Path, decoder: Decoder, *, waits: bool, count: int, seed: int = 0
) -> list[float]:
    """Return the losses of training a small model in a loop that constantly frees and allocates memory."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(3 * 49, 64, dtype=torch.float64, generator=generator) / 10
    weights = weights.to(scale.device)
    found = []
    recipe, batch_size = Recipe.imagenet_train_jitter(size=64), min(scale.batch_size, 32)
    with loader_for(
        scale, folder, decoder, recipe=recipe, batch_size=batch_size, seed=seed
    ) as loader:
        for batch in islice(endless(loader), count):
            if waits:
                synchronise(scale.device)
            pooled = torch.nn.functional.adaptive_avg_pool2d(batch.images.double(), 7).flatten(1)
            answers = pooled @ weights
            found.append(answers.square().mean())
            weights = weights - 0.01 * (pooled.T @ answers) / answers.numel()
            shape = batch.images.shape
            del batch, pooled, answers
            # This shows whether a kernel of the loader still writes to memory that was reused.
            litter = [torch.full(shape, torch.nan, device=scale.device) for _ in range(4)]
            del litter
    return torch.stack(found).tolist()


def captured(scale: Scale, folder: Path, decoder: Decoder, mode: str) -> tuple[int, int]:
    """Capture a small model several times during a loop, and replay it on each batch.

    In torch's "global" mode, CUDA refuses allocations of all other threads during a capture, including DALI's; in
    "thread_local" mode it does not.

    Returns:
        How many results differ from those of the model without a graph, and, as a control, how many differ from those
        of the model on the previous batch.
    """
    differing = control = 0
    with loader_for(scale, folder, decoder, batch_size=16) as loader:
        batches = endless(loader)
        images = torch.zeros_like(next(batches).images)
        last = _answer(images)
        synchronise(scale.device)
        for _ in range(5):
            replay, answer = capture(lambda: _answer(images), scale, mode)
            for batch in islice(batches, 4):
                images.copy_(batch.images)
                replay()
                differing += not torch.equal(answer(), expected := _answer(batch.images))
                control += not torch.equal(last, expected)
                last = expected
    return differing, control


def capture(
    work: Callable[[], torch.Tensor], scale: Scale, mode: str
) -> tuple[Callable[[], None], Callable[[], torch.Tensor]]:
    """Capture a graph; return a function that replays it, and one that returns its result.

    Without a GPU, the first function does nothing, and the second does the work.
    """
    if not scale.on_gpu:
        return lambda: None, work
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        result = work()
    return graph.replay, lambda: result


def _answer(images: torch.Tensor) -> torch.Tensor:
    return images.double().square().mean((0, 2, 3))


def _differing(found: list[float], expected: list[float]) -> list[int]:
    """Return the indices of the steps whose losses differ, among the steps that both lists have."""
    pairs = zip(found, expected, strict=False)
    return [step for step, (one, other) in enumerate(pairs) if one != other]


def waits(scale: Scale, data: Path, rows: Rows) -> None:
    """For each decoder, check that the thread of the training loop makes no call that waits for the device."""
    for decoder in decoders(scale):
        with loader_for(scale, data, decoder) as loader:
            batches = endless(loader)
            for batch in islice(batches, 8):
                batch.images.mean(dtype=torch.float32)
            with rows.check(f"{decoder}: calls that wait") as row:
                mine, others = find_waits(traced(batches, scale.device))
                control, _ = find_waits(traced(batches, scale.device, work=torch.Tensor.item))
                row.facts |= {"calls": dict(mine), "calls of other threads": dict(others)}
                # On the CPU no call can block, so a rehearsal has no control.
                row.judge(mine.total(), 0, control.total() if scale.on_gpu else 1)


def find_waits(events: Sequence[dict[str, Any]]) -> tuple[Counter[str], Counter[str]]:
    """Count the calls inside the range MARK that wait for the device: on its thread, and on other threads.

    Args:
        events: The "traceEvents" of torch's profiler, in Chrome's format.

    Raises:
        ValueError: No range or several ranges have that name.
    """
    [mark] = (e for e in events if e.get("name") == MARK and e.get("cat") == "user_annotation")
    found: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for event in events:
        if event.get("cat") not in ("cuda_runtime", "cuda_driver"):
            continue
        name = _SUFFIXES.sub("", event["name"])
        if 0 <= event["ts"] - mark["ts"] <= mark["dur"] and _WAITS.fullmatch(name):
            found[str(event["tid"]) != str(mark["tid"])][name] += 1
    return found


def traced(
    batches: Iterator[Any],
    device: torch.device,
    work: Callable[[torch.Tensor], object] = lambda _: None,
) -> list[dict[str, Any]]:
    """Return the trace events of all threads while batches are taken.

    Args:
        batches: Endless batches.
        device: Device of the batches.
        work: Called by the loop with the mean of each batch, a tensor on the device.
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    on_gpu = [ProfilerActivity.CUDA] if device.type == "cuda" else []
    with profile(activities=[ProfilerActivity.CPU, *on_gpu]) as trace:
        with record_function(MARK):
            for batch in islice(batches, _COUNT):
                work(batch.images.mean(dtype=torch.float32))
        synchronise(device)  # outside the loop's range
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        trace.export_chrome_trace(str(path))
        events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events
