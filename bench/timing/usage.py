"""Measure how busy a GPU, its decoders and the cores of the machine are."""

import os
import re
import resource
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import torch

_LOOK_SECONDS = 0.05
_SAMPLE_SECONDS = 1 / 6
"""Time over which drivers average the utilisation of a GPU; according to NVML's reference up to a second on some."""

_seconds_of_calls = 0.0  # total CPU time of the calls of `cpu_seconds`


class Busy:
    """Samples the utilisation of a GPU and the cores during a ``with`` block.

    The driver averages over the recent past, about a sixth of a second. So values from the first sixth of a second of
    the block are only used if the block is shorter than that.

    Args:
        device: The GPU; for a CPU only the cores are sampled.

    Attributes:
        found: Percentages of the time that NVDEC, the JPEG engine and the rest of the GPU worked: the average and, as
            "at most", the maximum; or why they are unknown. On Linux also the percentage of all cores of the machine
            that were busy with any work.
    """

    def __init__(self, device: "torch.device") -> None:
        self.found: dict[str, Any] = {}
        self._device = device
        self._done = threading.Event()
        self._ticks = (0, 0)
        self._looks: dict[str, list[tuple[int, bool]]] = {}
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._ticks = _ticks()
        if self._device.type == "cuda":
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._device.type == "cuda":
            self._thread.join()
        total, idle = (now - then for now, then in zip(_ticks(), self._ticks, strict=True))
        if total:
            self.found["percent of the cores"] = round(100 * (1 - idle / total))
        for name, looks in self._looks.items():
            settled = [percent for percent, is_settled in looks if is_settled]
            percents = settled or [looks[-1][0]]
            self.found[f"percent of {name}"] = round(mean(percents))
            self.found[f"percent of {name} at most"] = max(percents)

    def _look(self) -> None:
        try:
            readers = _readers(self._device)
        except Exception as error:  # noqa: BLE001 - the speed is worth having without this
            self.found["percent of the GPU"] = f"not known: {type(error).__name__}: {error}"
            return
        began = time.perf_counter()
        while not self._done.wait(_LOOK_SECONDS):
            for name, read in list(readers.items()):
                try:
                    percent, seconds = read()
                except Exception as error:  # noqa: BLE001 - NVML's, of which each engine has its own
                    self.found[f"percent of {name}"] = f"not known: {error}"
                    del readers[name]
                else:
                    is_settled = time.perf_counter() - began >= seconds
                    self._looks.setdefault(name, []).append((percent, is_settled))


def cpu_seconds() -> float:
    """Return the CPU time so far of this process and all its descendants, including ended ones.

    Times of running children have the resolution of a clock tick, usually 10 ms. The time of this function itself is
    excluded: it reads all processes to find the children, which takes milliseconds if there are hundreds.
    """
    global _seconds_of_calls
    own, began = time.process_time() - _seconds_of_calls, time.thread_time()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = sum(_ticks_of_children().values())
    total = own + ended.ru_utime + ended.ru_stime + ticks / os.sysconf("SC_CLK_TCK")
    _seconds_of_calls += time.thread_time() - began
    return total


def peak_bytes() -> int:
    """Return the sum of the largest resident sizes so far of this process and its running descendants, in bytes.

    Pages that processes share count once per process. It is 0 without /proc.
    """
    total = 0
    for pid in (os.getpid(), *_ticks_of_children()):
        with suppress(OSError):  # the process has ended meanwhile
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
            total += 1024 * sum(map(int, re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)))
    return total


def _ticks_of_children() -> dict[int, int]:
    """Return the clock ticks of CPU time of all running descendants by process number."""
    times: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):  # empty without /proc
        with suppress(OSError):  # the process has ended meanwhile
            # The name in parentheses may contain spaces. proc(5): field 4 is ppid, 14 to 17 utime, stime, cutime, cstime.
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            times[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    ticks: dict[int, int] = {}
    parents = {os.getpid()}
    while parents:
        parents = {pid for pid, (parent, _) in times.items() if parent in parents}
        ticks |= {pid: times[pid][1] for pid in parents}
    return ticks


def _ticks() -> tuple[int, int]:
    """Return the clock ticks of all cores since the machine started, in total and idle; (0, 0) if unknown."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0, 0
    counts = [int(word) for word in stat.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    return sum(counts), counts[3] + counts[4]


def _readers(device: "torch.device") -> dict[str, Callable[[], tuple[int, float]]]:
    """Return a function for each engine that reads the percentage of time at work, and the averaging time in seconds."""
    try:
        import pynvml
    except ImportError as error:
        raise ImportError("pip install nvidia-ml-py") from error
    import torch

    pynvml.nvmlInit()
    try:
        uuid = torch.cuda.get_device_properties(device).uuid
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except pynvml.NVMLError:
        if (
            pynvml.nvmlDeviceGetCount() != 1
        ):  # otherwise it is a partition of a GPU, whose UUID has another form
            raise
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    def engine(read: Callable[[Any], tuple[int, int]]) -> tuple[int, float]:
        percent, micros = read(handle)
        return percent, micros / 1e6

    return {
        "NVDEC": lambda: engine(pynvml.nvmlDeviceGetDecoderUtilization),
        "the JPEG engine": lambda: engine(pynvml.nvmlDeviceGetJpgUtilization),
        "the GPU": lambda: (pynvml.nvmlDeviceGetUtilizationRates(handle).gpu, _SAMPLE_SECONDS),
    }
