"""How big and how long the steps of a visit are, where their results go, and the clock."""

import json
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch

Size = tuple[int, int]
"""Height and width."""


@dataclass(frozen=True)
class Scale:
    """How big and how long.

    Attributes:
        device: Where everything runs.
        batch_size: Images in a batch where nothing else is said.
        side: Of augmented images.
        seconds: Of one measurement.
        pictures: For each size of photographs how many there are, and the batch sizes to decode them in.
        num_batches: Batches of the test of memory.
    """

    device: torch.device
    batch_size: int
    side: int
    seconds: float
    pictures: Mapping[Size, tuple[int, tuple[int, ...]]]
    num_batches: int

    @property
    def on_gpu(self) -> bool:
        """Whether this is the visit and no rehearsal."""
        return self.device.type == "cuda"


def scale_for(*, rehearse: bool) -> Scale:
    """The scale of a visit, or of a rehearsal on the CPU.

    Raises:
        RuntimeError: A visit without a GPU.
    """
    sizes: dict[Size, tuple[int, tuple[int, ...]]]
    if rehearse:
        sizes = {(375, 500): (4, (4,)), (720, 1280): (2, (2,))}
        return Scale(torch.device("cpu"), 8, 32, 0.02, sizes, 12)
    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device; without one there is only --rehearse")
    sizes = {(375, 500): (256, (64, 256)), (1080, 1920): (48, (64,)), (3000, 4000): (12, (16,))}
    return Scale(torch.device("cuda", 0), 256, 224, 0.6, sizes, 2000)


@dataclass
class Notes:
    """What a step has found so far; each note is written at once, so that a crash costs only what follows.

    Attributes:
        path: The JSON file.
        found: Its content.
        failures: What went wrong in single measurements.
    """

    path: Path
    found: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def put(self, **found: Any) -> None:
        """Keep results by name; ``headline`` is what the table of the visit shows."""
        self.found |= found
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.found, default=str), encoding="utf-8")
        part.replace(self.path)  # whole, whenever this process is killed

    @contextmanager
    def attempt(self, name: str) -> Iterator[dict[str, Any]]:
        """Fill in the dictionary of one measurement; an error is noted in it, and the step goes on."""
        row: dict[str, Any] = {}
        try:
            yield row
        except Exception as error:  # noqa: BLE001 - a library may raise anything; the result says so
            row["error"] = f"{type(error).__name__}: {str(error)[:400]}"
            self.failures.append(f"---- {name}\n{''.join(traceback.format_exception(error))}")
        self.put(**{name: row})


def finish(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def rate(call: Callable[[], Any], num: int, scale: Scale, *, warm_up: int = 2) -> dict[str, Any]:
    """Images per second of a call that takes ``num`` of them, in three slices of time."""
    for _ in range(warm_up):
        call()
    runs = []
    for _ in range(3):
        finish(scale.device)
        began, calls = time.perf_counter(), 0
        while calls < 2 or time.perf_counter() - began < scale.seconds / 3:
            call()
            calls += 1
        finish(scale.device)
        runs.append(round(num * calls / (time.perf_counter() - began), 1))
    return {"images_per_second": median(runs), "runs": runs}


def device_milliseconds(
    call: Callable[[int], Any], device: torch.device, *, calls: int, repeats: int = 5
) -> dict[str, float]:
    """Time calls that follow each other without a break: on the device, and what the host needs to ask.

    Args:
        call: Gets its number, so that it can take turns between inputs larger than the cache.
        device: Where it runs.
        calls: Calls of one measurement.
        repeats: Measurements; the median counts.

    Returns:
        "device" and "host", milliseconds per call.
    """
    for number in range(3):
        call(number)
    on_device, on_host = [], []
    for _ in range(repeats):
        finish(device)
        if device.type == "cuda":
            start, end = _event(), _event()
            start.record()
        began = time.perf_counter()
        for number in range(calls):
            call(number)
        on_host.append((time.perf_counter() - began) * 1000 / calls)
        if device.type == "cuda":
            end.record()
            end.synchronize()
            on_device.append(start.elapsed_time(end) / calls)
    return {"device": median(on_device or on_host), "host": median(on_host)}


def _event() -> Any:
    make: Any = torch.cuda.Event
    return make(enable_timing=True)
