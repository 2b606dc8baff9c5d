"""Every step of a visit runs on the CPU, and finds what is right to be right."""

import importlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bench.gpu.rows import Rows
from bench.gpu.scale import Scale
from bench.gpu.steps import STEPS
from bench.timing.usage import Busy

pytestmark = [
    pytest.mark.needs_dali,
    pytest.mark.filterwarnings("ignore:The image decoding and encoding capabilities:DeprecationWarning"),
]  # fmt: skip

# The tests have tests of their own: test_cuda_tests.py.
_HERE = [name for name, step in STEPS.items() if not step.function.startswith("cuda_tests")]
_MEASURE = {"loaders", "loaders-dali", "dali-own", "engine"}  # the others verify
_QUICK = {"cuda-jpeg", "loaders", "dali-own", "loaders-dali", "under-load", "damage", "engine"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in _QUICK else pytest.mark.long) for name in _HERE]
)
def test_a_step_ends_well(name: str, data: Path, scale: Scale, rows: Rows) -> None:
    """Nothing fails; what verifies has compared something, and what measures has a value with its runs."""
    module, _, function = STEPS[name].function.partition(".")

    getattr(importlib.import_module(f"bench.gpu.{module}"), function)(scale, data, rows)

    assert rows.faults == []
    expected = "measured" if name in _MEASURE else "right"
    found = [row for row in rows if row.verdict == expected]
    assert found
    assert all(row.facts["runs"] for row in found if expected == "measured")
    assert all("control" in row.facts for row in found if "allowed" in row.facts)


@pytest.mark.needs_cuda
def test_the_driver_answers(jpeg: Callable[..., bytes]) -> None:
    """NVML is asked while a decoder works, and tells percents of each engine."""
    from torchvision.io import decode_jpeg

    encoded = [torch.frombuffer(bytearray(jpeg(300, 400, seed)), dtype=torch.uint8) for seed in range(64)]  # fmt: skip
    with Busy(torch.device("cuda", 0)) as found:
        until = time.perf_counter() + 1.5
        while time.perf_counter() < until:
            decode_jpeg(encoded, device=torch.device("cuda", 0))

    told = {name: found.found.get(f"percent of {name}") for name in ("the GPU", "the JPEG engine")}
    assert all(isinstance(percent, int) for percent in told.values()), found.found
