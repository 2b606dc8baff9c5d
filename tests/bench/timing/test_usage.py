"""How busy a GPU was, by a driver that answers, that does not, and that is not there."""

import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.timing import usage as watching
from bench.timing.usage import Busy


class NVMLError(Exception):
    pass


def driver(**changes: Any) -> SimpleNamespace:
    """NVIDIA's module: one GPU, whose JPEG engine the driver knows nothing of."""

    def unknown(_: object) -> None:
        raise NVMLError("Not Supported")

    given = {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda name: name,
        "nvmlDeviceGetDecoderUtilization": lambda _: [40, 1000],
        "nvmlDeviceGetJpgUtilization": unknown,
        "nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=70),
    }
    return SimpleNamespace(**{**given, **changes})


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(uuid="1-2"))


def look() -> Busy:
    with Busy(torch.device("cuda")) as busy:
        time.sleep(0.2)
    return busy


def test_engines_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the driver tells is averaged; what it does not tell has its reason."""
    monkeypatch.setitem(sys.modules, "pynvml", driver())

    busy = look()

    assert (busy.found["percent of NVDEC"], busy.found["percent of the GPU"]) == (40, 70)
    assert busy.found["percent of the JPEG engine"] == "not known: Not Supported"


@pytest.mark.parametrize(("count", "known"), [(1, True), (2, False)])
def test_a_part_of_a_gpu_is_the_only_one(
    count: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part has a UUID of another form; where there is one GPU, it is that one."""

    def refuse(_: str) -> None:
        raise NVMLError("Not Found")

    found = driver(
        nvmlDeviceGetHandleByUUID=refuse,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: index,
    )
    monkeypatch.setitem(sys.modules, "pynvml", found)

    assert (look().found["percent of the GPU"] == 70) == known


def test_a_missing_package_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed is measured all the same."""
    monkeypatch.setitem(sys.modules, "pynvml", None)

    assert "pip install nvidia-ml-py" in look().found["percent of the GPU"]


def test_what_was_before_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Percents that average over the time before the block are left out; an engine that fails costs its own."""
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.01)
    now, looked_enough = 0.0, threading.Event()
    monkeypatch.setattr(watching.time, "perf_counter", lambda: now)

    def since() -> tuple[int, float]:
        nonlocal now
        now += 0.05
        if now > 0.5:
            looked_enough.set()
        return (90 if now < 0.15 else 10), 0.2

    def broken() -> tuple[int, float]:
        raise NVMLError("as planned")

    monkeypatch.setattr(watching, "_readers", lambda _: {"NVDEC": since, "the JPEG engine": broken})
    with Busy(torch.device("cuda")) as busy:
        assert looked_enough.wait(60)

    assert busy.found["percent of NVDEC"] == 10
    assert busy.found["percent of NVDEC at most"] == 10
    assert busy.found["percent of the JPEG engine"] == "not known: as planned"


def test_cores_count_as_busy_where_they_are_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 ticks 50 were idle, of 100 another time 50."""
    ticks = iter([(100, 40), (300, 90), (300, 90), (400, 140)])
    monkeypatch.setattr(watching, "_ticks", lambda: next(ticks))
    looks = []
    for _ in range(2):
        with Busy(torch.device("cpu")) as busy:
            pass
        looks.append(busy)

    assert [look.found["percent of the cores"] for look in looks] == [75, 50]
