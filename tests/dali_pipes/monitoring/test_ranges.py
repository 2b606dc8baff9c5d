"""Ranges around the stages, for who profiles: torch.profiler of all threads, and NVTX by a stand-in."""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from dali_pipes import Loader
from dali_pipes.monitoring import ranges
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from tests.support.loaders import loader_maker
from tests.support.small import make_small

RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])
NUM_STEPS = 3


@pytest.fixture
def loader(jpeg: Callable[..., bytes]) -> Loader:
    """It has made its first epoch, so that nothing is compiled."""
    loader = loader_maker(RECIPE)(make_small(jpeg, 4 * NUM_STEPS))
    list(loader)
    return loader


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("GPU_AUG_NVTX", "NVTX_INJECTION64_PATH"):
        monkeypatch.delenv(name, raising=False)
    ranges.nvtx_is_wanted.cache_clear()
    yield
    ranges.nvtx_is_wanted.cache_clear()


def recorded(loader: Loader, **options: Any) -> tuple[Counter[str], set[int]]:
    """How often each range of ours is in torch's profile of an epoch, and in how many threads."""
    config = torch._C._profiler._ExperimentalConfig(**options)
    with profile(activities=[ProfilerActivity.CPU], experimental_config=config) as profiled:
        list(loader)
    ours = [event for event in profiled.events() or () if event.name.startswith("gpu_aug ")]
    return Counter(event.name for event in ours), {event.thread for event in ours}


def test_torch_profiles_all_threads(loader: Loader) -> None:
    """A range for each call of a stage in every thread, and for each wait of the training loop."""
    names, threads = recorded(loader, profile_all_threads=True)
    stages = loader.stats().stages
    assert names == {
        "gpu_aug wait": NUM_STEPS,
        **{f"gpu_aug {name}": stage.calls for name, stage in stages.items() if stage.calls},
    }
    assert len(threads) == 2


def test_torch_profiles_its_own_thread(loader: Loader) -> None:
    """Without that torch records only the thread that profiles."""
    names, threads = recorded(loader)
    assert (names, len(threads)) == ({"gpu_aug wait": NUM_STEPS, "gpu_aug hand_over": NUM_STEPS}, 1)


def test_nobody_profiles(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    """No range is made."""
    monkeypatch.setattr(ranges.Range, "__init__", lambda *_args, **_kwargs: pytest.fail("a range"))
    list(loader)
    assert ranges.open_range("read") is None


class FakeNvtx:
    """Stands in for torch.cuda.nvtx: keeps the open ranges of each thread."""

    def __init__(self) -> None:
        self.open: defaultdict[int, list[str]] = defaultdict(list)
        self.closed: list[tuple[int, str]] = []

    def range_push(self, name: str) -> None:
        """Open one."""
        self.open[threading.get_ident()].append(name)

    def range_pop(self) -> None:
        """Close the latest of this thread."""
        self.closed.append((threading.get_ident(), self.open[threading.get_ident()].pop()))


@pytest.mark.parametrize(
    "environment",
    [{"GPU_AUG_NVTX": "1"}, {"NVTX_INJECTION64_PATH": "/opt/nsight/libToolsInjection64.so"}],
)
def test_nvtx(loader: Loader, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    """Every thread closes what it opened, under nsys or when asked for."""
    nvtx = FakeNvtx()
    monkeypatch.setattr(ranges, "_nvtx", nvtx)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ranges.nvtx_is_wanted.cache_clear()
    list(loader)
    assert not any(nvtx.open.values())
    names = Counter(name for _, name in nvtx.closed)
    assert names["gpu_aug decode"] == loader.stats().stages["decode"].calls
    assert (names["gpu_aug wait"], len({thread for thread, _ in nvtx.closed})) == (NUM_STEPS, 2)


def test_nvtx_is_not_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked for it is told, once."""

    def refuse(*_: object) -> None:
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")

    monkeypatch.setattr(ranges, "_nvtx", SimpleNamespace(range_push=refuse, range_pop=refuse))
    monkeypatch.setenv("GPU_AUG_NVTX", "1")
    with pytest.warns(UserWarning, match=r"this torch has none \(NVTX functions not installed"):
        assert ranges.open_range("read") is None
    assert ranges.open_range("read") is None


def test_a_wrong_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told, and means nothing."""
    monkeypatch.setenv("GPU_AUG_NVTX", "yes")
    with pytest.warns(UserWarning, match="GPU_AUG_NVTX='yes' is not known"):
        assert not ranges.nvtx_is_wanted()
