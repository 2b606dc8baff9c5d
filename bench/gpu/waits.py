"""Step: does the training loop's thread wait for the device? Shown by a trace, and by a delayed device."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import torch

from bench.gpu.our_loader import Decoder, decoders, endless, loader_for
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, finish
from dali_pipes.pipeline.streams import SideStream

MARK = "the training loop"
"""What the loop's own stretch of a trace is called."""

_COUNT = 10  # batches of a trace
_WAITS = re.compile(
    r"(cuda|cu)(Stream|Device|Event|Ctx|Thread)Synchronize|cudaMemcpy(2D|3D|ToSymbol|FromSymbol)?|cuMemcpy(\w*[a-z])?(DtoH|HtoD|DtoD)"
)
_SUFFIXES = re.compile(r"(_v\d+|_ptsz|_ptds)+$")
_HELD_CYCLES = 2_000_000_000  # about a second
_TRIES = 3
_WHOLE = ("cudaDevice", "cuCtx")  # of the calls that wait, those for all streams


def waits(scale: Scale, data: Path, rows: Rows) -> None:
    """Both witnesses, for each decoder."""
    for decoder in decoders(scale):
        with loader_for(scale, data, decoder) as loader:
            batches = endless(loader)
            for batch in islice(batches, 8):
                batch.images.mean(dtype=torch.float32)
            with rows.check(f"{decoder}: calls that wait") as row:
                mine, others = find_waits(traced(batches, scale.device, asks=False))
                control, _ = find_waits(traced(batches, scale.device, asks=True))
                row.facts |= {"calls": dict(mine), "calls of other threads": dict(others)}
                # On the CPU nothing can wait: a rehearsal has no control.
                row.judge(mine.total(), 0, control.total() if scale.on_gpu else 1)
            with rows.check(f"{decoder}: other threads that wait for the whole device") as row:
                # What DALI exports by DLPack is freed so, and a captured graph is lost by it.
                row.unit = "calls"
                _, control = find_waits(traced(batches, scale.device, asks=False, beside=finish))
                row.judge(_whole(others), 0, _whole(control) if scale.on_gpu else 1)
            with rows.check(f"{decoder}: until images are there in a loop that waits") as row:
                row.unit = "ms"
                row.judge(*until_there(scale, data, decoder))
            if scale.on_gpu:
                with rows.check(f"{decoder}: batches while the device is held up") as row:
                    row.facts["seconds"] = seconds = held_up(batches, scale.device)
                    row.value, row.unit = len(seconds), f"of {_TRIES}"
                    assert seconds, "no batch came before the device was free again"


def find_waits(events: Sequence[dict[str, Any]]) -> tuple[Counter[str], Counter[str]]:
    """Calls that wait for the device within the stretch called MARK: on its thread, and on others.

    Args:
        events: The "traceEvents" of torch's profiler, as Chrome reads them.

    Raises:
        ValueError: No stretch has that name.
    """
    marks = [e for e in events if e.get("name") == MARK and e.get("cat") == "user_annotation"]
    if not marks:
        raise ValueError(f"the trace has no stretch called {MARK!r}: record it around the loop")
    [mark] = marks
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
    *,
    asks: bool,
    beside: Callable[[torch.device], None] | None = None,
) -> list[dict[str, Any]]:
    """The events of all threads while batches are taken.

    Args:
        batches: Without an end.
        device: Where they are.
        asks: Whether the loop asks for a number with each batch, and so waits.
        beside: Another thread does this with each batch.
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as trace:
        with record_function(MARK):
            for batch in islice(batches, _COUNT):
                mean = batch.images.mean(dtype=torch.float32)
                if asks:
                    mean.item()
                if beside is not None:
                    thread = Thread(target=beside, args=[device])
                    thread.start()
                    thread.join()
        finish(device)  # beside the loop
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        trace.export_chrome_trace(str(path))
        events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events


def until_there(scale: Scale, data: Path, decoder: Decoder) -> tuple[float, float, float]:
    """Milliseconds from the hand-over to finished images, where the loop has waited for its own work: Kornia's launches take several.

    Returns:
        The longest of a few, what is allowed, and what it is if the side stream begins its work at the hand-over.
    """
    if not scale.on_gpu:
        return 0, 0, 1
    with loader_for(scale, data, decoder, engine="kornia") as loader:
        batches = endless(loader)
        for _ in islice(batches, 8):
            finish(scale.device)
        found = []
        for _ in range(_TRIES):
            torch.cuda._sleep(_HELD_CYCLES // 4)  # type: ignore[no-untyped-call]
            _wait(scale.device)
            next(batches)
            found.append(_wait(scale.device))
    side = SideStream(scale.device)
    late = side.run(lambda: [_busy(scale.device)])
    late.take()
    return max(found), 1, _wait(scale.device)


def _busy(device: torch.device) -> torch.Tensor:
    """Some milliseconds of work."""
    torch.cuda._sleep(_HELD_CYCLES // 100)  # type: ignore[no-untyped-call]
    return torch.zeros(1, device=device)


def _wait(device: torch.device) -> float:
    """Wait for the current stream alone; returns the milliseconds."""
    began = time.perf_counter()
    torch.cuda.current_stream(device).synchronize()
    return round(1000 * (time.perf_counter() - began), 3)


def _whole(found: Counter[str]) -> int:
    return sum(count for name, count in found.items() if name.startswith(_WHOLE))


def held_up(batches: Iterator[Any], device: torch.device) -> list[float]:
    """Times of batches delivered while the loop's stream was busy."""
    seconds = []
    for _ in range(_TRIES):
        finish(device)
        time.sleep(0.1)  # so that batches are ready
        held: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        torch.cuda._sleep(_HELD_CYCLES)  # type: ignore[no-untyped-call]
        held.record()
        began = time.perf_counter()
        next(batches).images.mean(dtype=torch.float32)
        if not held.query():
            seconds.append(round(time.perf_counter() - began, 3))
    finish(device)
    return seconds
