"""What ran on a GPU and when, out of a trace of torch's profiler: who did the work, and how much of the time."""

import json
import tempfile
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch

Part = Literal["decode", "resize", "augment", "step", "copies"]
"""Whose work it is: JPEG decoders; DALI's other kernels; our Triton kernels; the rest of torch; copies and fills."""

Interval = tuple[float, float]
"""Start and end in seconds."""

_DECODERS = ("jpeg", "nvimgcodec", "culj", "huffman", "idct")  # nvJPEG's and nvImageCodec's
_OURS = ("run_pass", "sum_gray")
_COPIES = ("gpu_memcpy", "gpu_memset")
_SKIPPED = (0.2, 0.05)  # of a trace, at its beginning and at its end: pipelines fill and drain
_NUM_NAMED = 25


@dataclass(frozen=True, slots=True)
class Work:
    """One kernel, copy or fill.

    Attributes:
        name: As the profiler says.
        category: The profiler's: "kernel", "gpu_memcpy" or "gpu_memset".
        stream: Its number.
        interval: When it ran.
    """

    name: str
    category: str
    stream: int
    interval: Interval


def recorded(run: Callable[[], Any], device: torch.device) -> list[Work]:
    """Everything that a GPU did while a function ran; on a CPU nothing."""
    from torch.profiler import ProfilerActivity, profile

    kind = ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU
    with profile(activities=[kind]) as trace:
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    with tempfile.TemporaryDirectory(prefix="gpu-aug-") as folder:
        path = Path(folder) / "trace.json"
        trace.export_chrome_trace(str(path))
        return read_trace(json.loads(path.read_text(encoding="utf-8", errors="replace")))


def read_trace(content: dict[str, Any]) -> list[Work]:
    """Take the GPU's work out of a trace in Chrome's format, whose times are microseconds."""
    found = []
    for event in content["traceEvents"]:
        if event.get("cat") in ("kernel", *_COPIES):
            start = float(event["ts"]) / 1e6
            interval = (start, start + float(event["dur"]) / 1e6)
            stream = int(event.get("args", {}).get("stream", -1))
            found.append(Work(event["name"], event["cat"], stream, interval))
    return found


def classified(works: Sequence[Work]) -> list[tuple[Part, Work]]:
    """Say whose work each is: by its name, and where that tells nothing by its stream's other work.

    On a stream on which decoders or DALI work, everything is theirs; on that of our kernels, ours.
    """
    own = [_by_name(work) for work in works]
    by_stream: dict[int, Counter[Part]] = defaultdict(Counter)
    for part, work in zip(own, works, strict=True):
        if part in ("decode", "resize", "augment"):
            by_stream[work.stream][part] += 1
    found: list[tuple[Part, Work]] = []
    for part, work in zip(own, works, strict=True):
        neighbours = by_stream[work.stream].most_common(1)
        found.append((part or (neighbours[0][0] if neighbours else "step"), work))
    return found


def _by_name(work: Work) -> Part | None:
    name = work.name.lower()
    if work.category in _COPIES:
        return "copies"
    if any(word in name for word in _OURS):
        return "augment"
    if any(word in name for word in _DECODERS):
        return "decode"
    return "resize" if "dali" in name else None


def shares(works: Sequence[Work]) -> dict[str, Any]:
    """Which part of the time who was at work, of the middle of a trace.

    Returns:
        "seconds" looked at; "share" by part, with "idle" when none was at work: since parts may
        work at once, they can add up to more than 1; "decode beside augment or step": the part of the time
        in which decoding (with DALI's resizing) overlapped with the rest; "busiest": milliseconds
        by kernel, and whose it was taken for.
    """
    found = classified(works)
    if not found:
        return {"seconds": 0.0, "share": {}, "busiest": {}}
    begin = min(work.interval[0] for _, work in found)
    end = max(work.interval[1] for _, work in found)
    span = end - begin
    window = (begin + _SKIPPED[0] * span, end - _SKIPPED[1] * span)
    by_part: dict[Part, list[Interval]] = defaultdict(list)
    for part, work in found:
        by_part[part].append(work.interval)
    unions = {part: clipped(union(intervals), window) for part, intervals in by_part.items()}
    whole = window[1] - window[0]
    share = {part: round(total(intervals) / whole, 4) for part, intervals in unions.items()}
    everything = union(interval for intervals in unions.values() for interval in intervals)
    first = union([*unions.get("decode", []), *unions.get("resize", [])])
    second = union([*unions.get("augment", []), *unions.get("step", [])])
    return {
        "seconds": round(whole, 4),
        "share": {**share, "idle": round(1 - total(everything) / whole, 4)},
        "decode beside augment or step": round(total(common(first, second)) / whole, 4),
        "busiest": _busiest(found),
    }


def _busiest(found: Sequence[tuple[Part, Work]]) -> dict[str, Any]:
    """Milliseconds by name, and whose they were taken for: so that a wrong guess can be seen."""
    seconds: dict[str, float] = defaultdict(float)
    for part, work in found:
        seconds[f"{part}: {work.name[:80]}"] += work.interval[1] - work.interval[0]
    ranked = sorted(seconds.items(), key=lambda item: item[1], reverse=True)
    return {name: round(1000 * spent, 3) for name, spent in ranked[:_NUM_NAMED]}


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same moments as intervals that do not touch each other, in their order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def common(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """The moments that are in both; each is a union already."""
    edges = sorted({edge for interval in (*one, *other) for edge in interval})
    return [
        (start, end)
        for start, end in pairwise(edges)
        if _covers(one, start) and _covers(other, start)
    ]


def _covers(intervals: Sequence[Interval], moment: float) -> bool:
    place = bisect_right(intervals, (moment, float("inf"))) - 1
    return place >= 0 and moment < intervals[place][1]


def clipped(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
    """The part of intervals inside a window."""
    low, high = window
    return [(max(a, low), min(b, high)) for a, b in intervals if a < high and b > low]


def total(intervals: Iterable[Interval]) -> float:
    """Seconds of intervals that do not overlap."""
    return sum(end - start for start, end in intervals)
