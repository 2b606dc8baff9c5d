"""How busy a GPU was, by a driver that answers, that does not, and that is not there."""

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.compare.usage import Busy, mean_of


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
    assert mean_of([busy, busy])["percent of NVDEC"] == 40


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
