"""Step: does the training loop's thread wait for the device? Shown by a trace, and by a delayed device."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.gpu.our_loader import decoders, endless, loader_for
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, finish

MARK = "the training loop"
"""What the loop's own stretch of a trace is called."""

_COUNT = 10  # batches of a trace
_WAITS = re.compile(
    r"(cuda|cu)(Stream|Device|Event|Ctx|Thread)Synchronize|cudaMemcpy(2D|3D|ToSymbol|FromSymbol)?|cuMemcpy(\w*[a-z])?(DtoH|HtoD|DtoD)"
)
_SUFFIXES = re.compile(r"(_v\d+|_ptsz|_ptds)+$")
_HELD_CYCLES = 2_000_000_000  # about a second
_TRIES = 3


def waits(scale: Scale, data: Path, rows: Rows) -> None:
    """Both witnesses, for each decoder."""
    for decoder in decoders():
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


def traced(batches: Iterator[Any], device: torch.device, *, asks: bool) -> list[dict[str, Any]]:
    """The events of all threads while batches are taken; a loop that asks for a number waits with each batch."""
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
        finish(device)  # beside the loop
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        trace.export_chrome_trace(str(path))
        events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events


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
