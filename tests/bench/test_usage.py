"""How busy a GPU, its decoders and the cores are: what the driver says, and when it counts."""

import ctypes
import itertools
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from bench.compare.nvml import Meter, NvmlError

from bench.compare import usage as watching
from bench.compare.usage import Busy

GPU = torch.device("cuda", 0)


class Driver:
    """NVML of a machine with one GPU, whose JPEG engine it does not know."""

    nvmlInit_v2 = staticmethod(lambda: 0)  # noqa: N815 - NVML's names
    nvmlDeviceGetJpgUtilization = staticmethod(lambda *_: 3)  # noqa: N815

    def __init__(self, *uuids: str) -> None:
        self._uuids = uuids

    def nvmlDeviceGetHandleByUUID(self, name: Any, _handle: Any) -> int:  # noqa: N802
        """Know those there are."""
        return 0 if name.value.decode() in self._uuids else 6

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        """Count them, one at least."""
        count._obj.value = max(1, len(self._uuids))
        return 0

    nvmlDeviceGetHandleByIndex_v2 = staticmethod(lambda *_: 0)  # noqa: N815

    def nvmlDeviceGetDecoderUtilization(self, _handle: Any, percent: Any, micros: Any) -> int:  # noqa: N802
        """Say 42 percent of the last fifth of a second."""
        percent._obj.value, micros._obj.value = 42, 200_000
        return 0

    def nvmlDeviceGetUtilizationRates(self, _handle: Any, rates: Any) -> int:  # noqa: N802
        """Say 97 percent."""
        rates._obj.gpu = 97
        return 0


def test_the_driver_is_asked_for_each_engine() -> None:
    """What it knows comes as percent and seconds; what it does not know is an error of that engine alone."""
    readers = Meter("abc", Driver("GPU-abc")).readers()

    assert readers["NVDEC"]() == (42, 0.2)
    assert readers["the GPU"]() == (97, 1 / 6)
    with pytest.raises(NvmlError, match="nvmlDeviceGetJpgUtilization: NVML error 3"):
        readers["the JPEG engine"]()


def test_the_only_gpu_is_taken_under_another_name() -> None:
    """A name that NVML does not know is no matter with one GPU, and is refused with two."""
    assert Meter("abc", Driver("MIG-1")).readers()["NVDEC"]() == (42, 0.2)
    with pytest.raises(NvmlError, match="none of the 2 GPUs"):
        Meter("abc", Driver("GPU-1", "GPU-2"))


def test_what_was_before_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Percents that average over the time before the block are left out; an engine that fails costs its own."""
    monkeypatch.setattr(watching, "_uuid", lambda _: "abc")
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
        raise NvmlError("as planned")

    meter = SimpleNamespace(readers=lambda: {"NVDEC": since, "the JPEG engine": broken})
    with Busy(GPU, lambda _: meter) as busy:
        assert looked_enough.wait(60)

    assert busy.found["percent of NVDEC"] == 10
    assert busy.found["percent of NVDEC at most"] == 10
    assert busy.found["percent of the JPEG engine"] == "not known: as planned"


def test_a_short_block_takes_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the block is shorter than the driver's average, its last word counts; without a driver it is said."""
    monkeypatch.setattr(watching, "_uuid", lambda _: "abc")
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.01)
    numbers = itertools.count()
    meter = SimpleNamespace(readers=lambda: {"NVDEC": lambda: (next(numbers), 60.0)})
    with Busy(GPU, lambda _: meter) as busy:
        time.sleep(0.1)
    with Busy(GPU, lambda _: ctypes.CDLL("libnothing-of-that-name.so")) as blind:
        time.sleep(0.05)

    assert busy.found["percent of NVDEC"] == next(numbers) - 1
    assert blind.found["percent of the GPU"].startswith("not known: OSError")


def test_cores_count_as_busy_where_they_are_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 ticks 50 were idle; averages over blocks leave out what is not known."""
    ticks = iter([(100, 40), (300, 90), (300, 90), (400, 140)])
    monkeypatch.setattr(watching, "_ticks", lambda: next(ticks))
    looks = []
    for _ in range(2):
        with Busy(torch.device("cpu")) as busy:
            pass
        looks.append(busy)
    looks[0].found["percent of NVDEC"] = "not known: as planned"

    assert [look.found["percent of the cores"] for look in looks] == [75, 50]
    assert watching.mean_of(looks) == {"percent of the cores": 62}


@pytest.mark.needs_cuda
def test_the_driver_answers(jpeg: Callable[..., bytes]) -> None:
    """NVML is asked while a decoder works, and tells percents of each engine."""
    from torchvision.io import decode_jpeg

    encoded = [torch.frombuffer(bytearray(jpeg(300, 400, seed)), dtype=torch.uint8) for seed in range(64)]  # fmt: skip
    with Busy(GPU) as found:
        until = time.perf_counter() + 1.5
        while time.perf_counter() < until:
            decode_jpeg(encoded, device=GPU)

    told = {name: found.found.get(f"percent of {name}") for name in ("the GPU", "the JPEG engine")}
    assert all(isinstance(percent, int) for percent in told.values()), found.found
