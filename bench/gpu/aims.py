"""The targets for speed, and the values reached."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from bench.gpu.batch import OURS as FUSED
from bench.gpu.loaders import ALONE, LOST, OURS
from bench.gpu.rows import Row

Found = Mapping[str, Mapping[str, Row]]
"""Rows by step and by name, those with a value alone."""

Runs = Sequence[float]
"""What was reached in each round; empty where it is not known."""


@dataclass(frozen=True)
class Aim:
    """A number to be reached.

    Attributes:
        name: What it is about.
        bound: How the value has to stand to the number.
        number: The number.
        unit: Follows numbers.
        find: Looks for what was reached.
        device: The GPU it is meant for, "" for any.
    """

    name: str
    bound: str
    number: float
    unit: str
    find: Callable[[Found], Runs]
    device: str = ""

    def verdict(self, runs: Runs, device: str) -> str:
        """Met, missed or not known, on a device of that name; "" for a CPU."""
        if not runs:
            return "not known"
        word = "missed"
        if self._holds(median(runs)):
            word = "met" if all(map(self._holds, runs)) else "met, but not in every run"
        if not device or self.device not in device:
            return f"no verdict on this device ({word})"
        return f"**{word}**"

    def _holds(self, value: float) -> bool:
        return value >= self.number if self.bound == "at least" else value < self.number


def paired(found: Found, step: str, ours: str, theirs: str) -> Runs:
    """Ratios of the rates of two rows, round by round."""
    rows = found.get(step, {})
    if ours not in rows or theirs not in rows:
        return ()
    return [
        one / other
        for one, other in zip(rows[ours].facts["runs"], rows[theirs].facts["runs"], strict=False)
        if other
    ]


def _best_loader(found: Found, *, ending: str = "") -> Runs:
    """The fastest of ours over DALI's own pipeline."""
    ratios = [
        runs
        for name in OURS
        if (runs := paired(found, "loaders", f"{name}{ending}, {ALONE}", f"dali-gpu, {ALONE}"))
    ]
    return max(ratios, key=median, default=())


def _least_lost(found: Found) -> Runs:
    rows = found.get("loaders", {})
    lost = [row.facts["runs"] for name, row in rows.items() if name.startswith(OURS) and name.endswith(LOST)]  # fmt: skip
    return min(lost, key=median, default=())


def _kernel(found: Found, *, recipe: str) -> Runs:
    """Percent of the rate of a copy."""
    row = found.get("kernel", {}).get(f"{recipe}, bfloat16, channels last")
    share = row.facts.get("share of a copy, kernels alone") if row else None
    return () if share is None else [100 * share]


def _nvdec(found: Found) -> Runs:
    """Percent of the time, with the video that is worst."""
    rows = found.get("video", {})
    busy = [row.facts.get("percent of NVDEC") for name, row in rows.items() if name.startswith("excerpts, ")]  # fmt: skip
    known = [percent for percent in busy if isinstance(percent, int)]
    return [min(known)] if known else ()


def _clips(found: Found) -> Runs:
    """Over DALI's own reader, with the video that is worst."""
    sources = [name.partition(", ")[2] for name in found.get("video", {}) if name.startswith("excerpts, ")]  # fmt: skip
    ratios = [
        runs
        for source in sources
        if (runs := paired(found, "video", f"excerpts, {source}", f"DALI's reader, {source}"))
    ]
    return min(ratios, key=median, default=())


_EAGER = partial(paired, step="batch", ours=FUSED, theirs="kornia")
_COMPILED = partial(paired, step="batch-compiled", ours=FUSED, theirs="kornia compiled")

AIMS = (
    Aim("Batch stage, times Kornia eager", "at least", 50, "", _EAGER, "H100"),
    Aim("Batch stage, times Kornia compiled", "at least", 15, "", _COMPILED, "H100"),
    Aim("Fused kernels, batch stage, of a copy", "at least", 60, " %", partial(_kernel, recipe="batch stage")),
    Aim("Fused kernels, flip and normalise, of a copy", "at least", 60, " %", partial(_kernel, recipe="flip, normalise")),
    Aim("Loader on ordinary JPEGs, times DALI's own GPU pipeline", "at least", 1, "", _best_loader),
    Aim("Loader on tiled JPEGs, times DALI's own GPU pipeline", "at least", 1.5, "", partial(_best_loader, ending=" (tiled)")),
    Aim("ResNet-50 training step in bfloat16, lost to waiting", "below", 2, " %", _least_lost),
    Aim("Video decoder NVDEC, busy, worst video", "at least", 90, " %", _nvdec),
    Aim("Clips, times DALI's own video reader, worst video", "at least", 1, "", _clips),
)  # fmt: skip
"""In the order of the table."""
