"""Whether the thread of a training loop waits for the device: torch's own alarm, a trace, and a device held up."""

import json
import re
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

MARK = "the training loop"
"""What the loop's own stretch of a trace is called."""

_COUNT = 10  # batches of a trace
_WAITS = re.compile(
    r"(cuda|cu)(Stream|Device|Event|Ctx|Thread)Synchronize|cudaMemcpy(2D|3D|ToSymbol|FromSymbol)?|cuMemcpy(\w*[a-z])?(DtoH|HtoD|DtoD)"
)
_MAY_WAIT = re.compile(r"(cuda|cu)(Free|Malloc|Mem(Alloc|Free|Host)|Host)\w*")
_SUFFIXES = re.compile(r"(_v\d+|_ptsz|_ptds)+$")
_HELD_CYCLES = 2_000_000_000  # about a second
_TRIES = 3


@dataclass
class Waits:
    """What a trace holds.

    Attributes:
        loop: Calls on the loop's thread that wait for the device, by name.
        others: The same on each other thread, by its number.
        perhaps: Calls on the loop's thread that can make the driver wait: allocations and their release.
        launches: Calls on the loop's thread that launch kernels: proof that its calls are seen at all.
    """

    loop: Counter[str] = field(default_factory=Counter)
    others: dict[str, Counter[str]] = field(default_factory=dict)
    perhaps: Counter[str] = field(default_factory=Counter)
    launches: int = 0


def find_waits(events: Sequence[dict[str, Any]]) -> Waits:
    """Tell apart what a trace says of the thread whose stretch is called MARK.

    Args:
        events: The "traceEvents" of torch's profiler, as Chrome reads them.

    Raises:
        ValueError: No stretch has that name.
    """
    marks = [e for e in events if e.get("name") == MARK and e.get("cat") == "user_annotation"]
    if not marks:
        raise ValueError(f"the trace has no stretch called {MARK!r}: record it around the loop")
    [own] = {str(mark["tid"]) for mark in marks}
    begin = min(mark["ts"] for mark in marks)
    end = max(mark["ts"] + mark["dur"] for mark in marks)
    pageable = {
        _correlation(event)
        for event in events
        if event.get("cat") == "gpu_memcpy" and "DtoH" in event["name"] and "Pageable" in event["name"]
    }  # fmt: skip
    found = Waits()
    for event in events:
        if event.get("cat") not in ("cuda_runtime", "cuda_driver"):
            continue
        if not begin <= event["ts"] <= end:
            continue
        name, thread = _SUFFIXES.sub("", event["name"]), str(event["tid"])
        if name.startswith(("cudaMemcpy", "cuMemcpy")) and _correlation(event) in pageable:
            name = f"{name} to pageable memory"
        waits = _WAITS.fullmatch(name) or name.endswith(" to pageable memory")
        if waits and thread == own:
            found.loop[name] += 1
        elif waits:
            found.others.setdefault(thread, Counter())[name] += 1
        elif thread == own:
            found.launches += "Launch" in name
            found.perhaps[name] += bool(_MAY_WAIT.fullmatch(name))
    found.perhaps = +found.perhaps
    return found


def _correlation(event: dict[str, Any]) -> Any:
    return event.get("args", {}).get("correlation", object())


def look(batches: Iterator[Any], device: torch.device, row: dict[str, Any]) -> None:
    """Take batches and fill in a row.

    Raises:
        AssertionError: The loop's thread waits for the device, or the negative control is not noticed.
    """
    for batch in islice(batches, 8):
        batch.images.mean(dtype=torch.float32)
    faults = [_alarm(batches, device, row)]
    found = _trace(batches, device, asks=False)
    row["waits of the loop per batch"] = _per_batch(found.loop)
    row["allocations of the loop per batch"] = _per_batch(found.perhaps)
    row["waits of other threads per batch"] = {
        thread: _per_batch(calls) for thread, calls in found.others.items()
    }
    if found.loop:
        faults.append(f"waits on the loop's thread, per batch: {_per_batch(found.loop)}")
    if device.type == "cuda":
        control = _trace(batches, device, asks=True)
        row["control"] = {"waits": _per_batch(control.loop), "launches": control.launches}
        if control.loop.total() < _COUNT:
            faults.append(
                f"control: of {_COUNT} calls of item() {control.loop.total()} show on the loop's "
                f"thread, with {control.launches} launches: this trace is no witness"
            )
        row["ahead of a device that is held up"] = ahead = _ahead(batches, device)
        if not ahead["batches"]:
            faults.append(f"no batch came while the device was held up: {ahead}")
    said = [fault for fault in faults if fault]
    assert not said, "; ".join(said)


def _alarm(batches: Iterator[Any], device: torch.device, row: dict[str, Any]) -> str:
    """Let torch warn where it waits itself; returns what it said on this thread."""
    own, said = threading.get_ident(), Counter[tuple[bool, str]]()

    def note(message: Warning | str, *_: Any) -> None:
        if "synchronizing" in str(message):
            said[threading.get_ident() == own, str(message)[:200]] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note  # type: ignore[assignment]  # called by the thread that warns
        if device.type == "cuda":
            torch.cuda.set_sync_debug_mode("warn")
        try:
            for batch in islice(batches, _COUNT):
                batch.images.mean(dtype=torch.float32)
        finally:
            if device.type == "cuda":
                torch.cuda.set_sync_debug_mode("default")
    row["torch's alarm"] = {
        f"{'the loop' if mine else 'another thread'}: {text}": number
        for (mine, text), number in said.items()
    }
    mine = sum(number for (is_own, _), number in said.items() if is_own)
    return f"torch's alarm went off {mine} times in {_COUNT} batches" if mine else ""


def _trace(batches: Iterator[Any], device: torch.device, *, asks: bool) -> Waits:
    """Trace all threads; a loop that asks for a number waits with each batch."""
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
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # beside the loop
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        trace.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return find_waits(events)


def _per_batch(calls: Counter[str]) -> dict[str, float]:
    return {name: number / _COUNT for name, number in calls.most_common()}


def _ahead(batches: Iterator[Any], device: torch.device) -> dict[str, Any]:
    """Take batches while the loop's stream is busy with something long."""
    count, waited = 0, []
    for _ in range(_TRIES):
        torch.cuda.synchronize(device)
        time.sleep(0.1)  # so that batches are ready
        held: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        torch.cuda._sleep(_HELD_CYCLES)  # type: ignore[no-untyped-call]
        held.record()
        began = time.perf_counter()
        batch = next(batches)
        batch.images.mean(dtype=torch.float32)
        waited.append(round(time.perf_counter() - began, 3))
        count += not held.query()
    torch.cuda.synchronize(device)
    return {"batches": count, "of": _TRIES, "seconds": waited}
