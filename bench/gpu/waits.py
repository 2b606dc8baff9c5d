"""Step: does the training loop's thread wait for the device? Shown by a trace of the driver's calls."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import torch

from bench.gpu.contenders import decoders, endless, loader_for
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale
from bench.timing import synchronise

MARK = "the training loop"
"""Name of the loop's own stretch of a trace."""

_COUNT = 10  # batches of a trace
_WAITS = re.compile(
    r"(cuda|cu)(Stream|Device|Event|Ctx|Thread)Synchronize|cudaMemcpy(2D|3D|ToSymbol|FromSymbol)?|cuMemcpy(\w*[a-z])?(DtoH|HtoD|DtoD)"
)
_SUFFIXES = re.compile(r"(_v\d+|_ptsz|_ptds)+$")
_FOR_ALL_STREAMS = (
    "cudaDevice",
    "cuCtx",
)  # begins the names of those calls that wait for all streams


def waits(scale: Scale, data: Path, rows: Rows) -> None:
    """Look for calls that wait, for each decoder."""
    for decoder in decoders(scale):
        with loader_for(scale, data, decoder) as loader:
            batches = endless(loader)
            for batch in islice(batches, 8):
                batch.images.mean(dtype=torch.float32)
            with rows.check(f"{decoder}: calls that wait") as row:
                mine, others = find_waits(traced(batches, scale.device))
                control, _ = find_waits(traced(batches, scale.device, work=torch.Tensor.item))
                row.facts |= {"calls": dict(mine), "calls of other threads": dict(others)}
                # On the CPU nothing can wait: a rehearsal has no control.
                row.judge(mine.total(), 0, control.total() if scale.on_gpu else 1)
            with rows.check(f"{decoder}: other threads that wait for the whole device") as row:
                # What DALI exports by DLPack is freed so, and a captured graph is lost by it.
                row.unit = "calls"
                _, control = find_waits(traced(batches, scale.device, work=_synchronise_beside))
                row.judge(_for_all(others), 0, _for_all(control) if scale.on_gpu else 1)


def find_waits(events: Sequence[dict[str, Any]]) -> tuple[Counter[str], Counter[str]]:
    """Count the calls that wait for the device within the stretch called MARK: on its thread, and on others.

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
    work: Callable[[torch.Tensor], object] = lambda _: None,
) -> list[dict[str, Any]]:
    """Return the events of all threads while batches are taken.

    Args:
        batches: Without an end.
        device: Where they are.
        work: What the loop does with the mean of each batch, a tensor on the device.
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as trace:
        with record_function(MARK):
            for batch in islice(batches, _COUNT):
                work(batch.images.mean(dtype=torch.float32))
        synchronise(device)  # outside the loop's stretch
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        trace.export_chrome_trace(str(path))
        events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events


def _synchronise_beside(mean: torch.Tensor) -> None:
    """Wait for the whole device on another thread."""
    thread = Thread(target=synchronise, args=[mean.device])
    thread.start()
    thread.join()


def _for_all(found: Counter[str]) -> int:
    return sum(count for name, count in found.items() if name.startswith(_FOR_ALL_STREAMS))
