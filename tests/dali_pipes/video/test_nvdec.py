"""NVDEC that is there, that is not, and how many engines it has."""

import ctypes
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dali_pipes import LoaderError, doctor
from dali_pipes.choose import Choice, choose_for_clips
from dali_pipes.video.dali import nvdec
from dali_pipes.video.dali.nvdec import Nvdec, find_nvdec

CHOICE = Choice(torch.device("cuda", 0), "dali", "fused", ("device", "decoder dali", "engine"))


def answer(status: int, is_supported: int, engines: int) -> Any:
    """A library whose driver says so."""

    def ask(caps: Any) -> int:
        asked = caps._obj
        assert (asked.codec, asked.chroma, ctypes.sizeof(asked)) == (4, 1, 88)
        asked.is_supported, asked.engines = is_supported, engines
        return status

    return lambda _: SimpleNamespace(cuvidGetDecoderCaps=ask)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Nvdec]:
    """What is found where a library is loaded so, on a GPU that is not there."""
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch, "empty", lambda *_, **__: None)

    def look(load: Any) -> Nvdec:
        monkeypatch.setattr(ctypes, "CDLL", load)
        return find_nvdec.__wrapped__(0)

    return look


@pytest.mark.parametrize(
    ("said", "engines", "problem"),
    [
        ((0, 1, 5), 5, ""),
        ((0, 1, 0), 7, ""),
        ((201, 1, 5), 7, ""),
        ((0, 0, 0), 0, "got none on GPU 0"),
    ],
    ids=["stated", "an old driver", "an error", "none"],
)
def test_the_driver_is_asked(
    found: Callable[[Any], Nvdec], said: tuple[int, int, int], engines: int, problem: str
) -> None:
    """The engines are as many as the driver states, at most 7 where it does not, and none is a problem."""
    nvdec_ = found(answer(*said))

    assert (nvdec_.engines, bool(nvdec_.problem)) == (engines, bool(problem))
    assert problem in nvdec_.problem


def test_a_library_that_is_missing_is_named(
    found: Callable[[Any], Nvdec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence has the library's name, the loader's own words, and both ways out."""
    monkeypatch.setattr(nvdec, "LIBRARY", "libnvcuvid-planted.so.1")

    problem = found(ctypes.CDLL).problem

    assert "libnvcuvid-planted.so.1: cannot open shared object file" in problem
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video" in problem
    assert 'decoder="cpu"' in problem


def test_without_it_auto_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clips are decoded on the CPU and the reason is kept; DALI by name is refused; a CPU needs none."""
    monkeypatch.setattr("dali_pipes.choose.find_nvdec", lambda _: Nvdec(0, "none as planned"))

    assert choose_for_clips(CHOICE, "auto").reasons[1] == "decoder cpu: none as planned"
    with pytest.raises(LoaderError, match="none as planned"):
        choose_for_clips(CHOICE, "dali")
    on_cpu = Choice(torch.device("cpu"), "dali", "fused", CHOICE.reasons)
    assert choose_for_clips(on_cpu, "dali") is on_cpu


@pytest.mark.parametrize("problem", ["", "none as planned"])
def test_doctor_tells(monkeypatch: pytest.MonkeyPatch, problem: str) -> None:
    """On a GPU the doctor says how many videos are decoded at once, or what to do."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(nvdec, "find_nvdec", lambda _: Nvdec(2, problem))

    [finding] = doctor._videos_on_gpu()

    assert (finding.advice, "at most 2 videos at once" in finding.found) == (problem, not problem)
