"""The targets for speed, and the values reached."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from bench.gpu.loaders import ALONE, LOST, OURS
from bench.gpu.rows import Row

Found = Mapping[str, Mapping[str, Row]]
"""Rows by step and by name, those with a value alone."""

Runs = Sequence[float]
"""What was reached in each round; empty where it is not known."""

FUSED, KORNIA, DALI = OURS[0], OURS[2], "dali-gpu"


@dataclass(frozen=True)
class Aim:
    """A number to be reached.

    Attributes:
        name: What it is about.
        bound: How the value has to stand to the number.
        number: The number.
        unit: Follows numbers.
        find: Looks for what was reached.
    """

    name: str
    bound: str
    number: float
    unit: str
    find: Callable[[Found], Runs]

    def verdict(self, runs: Runs, device: str) -> str:
        """Met, missed or not known, on a device of that name; "" for a CPU."""
        if not runs:
            return "not known"
        word = "missed"
        if self._holds(median(runs)):
            word = "met" if all(map(self._holds, runs)) else "met, but not in every run"
        return f"**{word}**" if device else f"no verdict on this device ({word})"

    def _holds(self, value: float) -> bool:
        return value >= self.number if self.bound == "at least" else value < self.number


def _ratio(found: Found, *, ours: str, theirs: str) -> Runs:
    """Ratios of the rates of two loaders alone, round by round."""
    rows = found.get("compare", {})
    if f"{ours}, {ALONE}" not in rows or f"{theirs}, {ALONE}" not in rows:
        return ()
    runs = (rows[f"{name}, {ALONE}"].facts["runs"] for name in (ours, theirs))
    return [one / other for one, other in zip(*runs, strict=False) if other]


def _runs(found: Found, step: str, name: str) -> Runs:
    row = found.get(step, {}).get(name)
    runs: Runs = row.facts["runs"] if row else ()
    return runs


def _times(ours: Runs, theirs: Runs) -> Runs:
    """Ratios of rates, run by run."""
    return [one / other for one, other in zip(ours, theirs, strict=False) if other]


def _decoded_times_dali(found: Found) -> Runs:
    """Whole photographs with the host's part, of the number of threads that is fastest, times DALI's rate."""
    start = "500x375, whole: host and device, "
    rows = [row for name, row in found.get("cuda-jpeg", {}).items() if name.startswith(start)]
    best = max(rows, key=lambda row: row.value or 0, default=None)
    return _times(best.facts["runs"] if best else (), _runs(found, "cuda-jpeg", "500x375, whole: DALI"))  # fmt: skip


def _loaded_times_dali(found: Found) -> Runs:
    ours, theirs = (
        _runs(found, "cuda-loaders", f"{name}, crops of 224, batches of 256")
        for name in ("cuda", "dali")
    )
    return _times(ours, theirs)


def _lost(found: Found, *, step: str) -> Runs:
    row = found.get(step, {}).get(f"{FUSED}, {LOST}")
    return row.facts["runs"] if row else ()


def _share_of_a_copy(found: Found, *, recipe: str) -> Runs:
    """Percent of the rate of a copy that the kernels alone reach."""
    row = found.get("kernel", {}).get(f"fused, {recipe}, bfloat16, channels last")
    share = row.facts.get("share of a copy, kernels alone") if row else None
    return () if share is None else [100 * share]


AIMS = (
    Aim("DALI with the fused engine, times DALI's own GPU pipeline", "at least", 1, "", partial(_ratio, ours=FUSED, theirs=DALI)),
    Aim("The fused engine, times Kornia behind the same decoder", "at least", 1, "", partial(_ratio, ours=FUSED, theirs=KORNIA)),
    Aim("ResNet-50 in bfloat16, lost to waiting", "below", 1, " %", partial(_lost, step="compare")),
    Aim("The same where every loss is read, lost to waiting", "below", 1, " %", partial(_lost, step="asking")),
    Aim("Fused kernels, batch stage, of a copy", "at least", 60, " %", partial(_share_of_a_copy, recipe="batch stage")),
    Aim("Our JPEG decoder, 500x375 whole, device alone", "at least", 100_000, " images/s", partial(_runs, step="cuda-jpeg", name="500x375, whole: device alone")),
    Aim("The same, host and device, times DALI's decoding", "at least", 5, "", _decoded_times_dali),
    Aim('Loaders with it, times those with DALI: "auto" takes it from there on', "at least", 2, "", _loaded_times_dali),
)  # fmt: skip
"""In the order of the table."""
