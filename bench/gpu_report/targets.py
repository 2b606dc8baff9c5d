"""Is it fast? What was aimed at, and what was reached."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bench.gpu_report.fast import BESIDE
from bench.gpu_report.markdown import is_number, number, table
from bench.gpu_report.read import Device
from bench.gpu_report.rows import Measured, measured, paired_ratio

Bound = Literal["at least", "above", "under"]
_HOLDS: Mapping[Bound, Callable[[float, float], bool]] = {
    "at least": lambda value, target: value >= target,
    "above": lambda value, target: value > target,
    "under": lambda value, target: value < target,
}


@dataclass(frozen=True)
class Reached:
    """What a target is judged by.

    Attributes:
        value: In the target's unit; None where it is not known.
        how: What was measured, or why nothing was.
        runs: The same of single runs; empty where they were not kept.
    """

    value: float | None
    how: str
    runs: Sequence[float] = ()


@dataclass(frozen=True)
class Target:
    """A number to be reached.

    Attributes:
        name: What for.
        bound: How the value has to stand to the aim.
        aim: The number.
        unit: Follows numbers.
        find: Looks for what was reached.
        device: The GPU it is meant for, "" for any.
    """

    name: str
    bound: Bound
    aim: float
    unit: str
    find: Callable[[Device], Reached]
    device: str = ""

    def judge(self, reached: Reached, device: Device) -> str:
        """Met, missed or not known."""
        if reached.value is None:
            return "not known"
        word = "met" if _HOLDS[self.bound](reached.value, self.aim) else "missed"
        runs = [_HOLDS[self.bound](run, self.aim) for run in reached.runs]
        if word == "met" and not all(runs):
            word = "met, but not in every run"
        if device.is_rehearsal:
            return f"no verdict: a CPU's number ({word})"
        if self.device not in device.name:
            return f"no verdict: the aim is for an {self.device} ({word})"
        return f"**{word}**"


def target_lines(device: Device) -> list[str]:
    """A row for every target."""
    rows = []
    for target in TARGETS:
        reached = target.find(device)
        runs = [_beside(run, target) for run in (min(reached.runs), max(reached.runs))] if reached.runs else []  # fmt: skip
        rows.append(
            [
                target.name,
                f"{target.bound} {number(target.aim)}{target.unit}",
                "" if reached.value is None else _beside(reached.value, target) + target.unit,
                " to ".join(runs),
                target.judge(reached, device),
                reached.how,
            ]
        )
    headings = ("target", "aim", "reached:", "range:", "verdict", "how it was measured")
    return table(headings, rows)


def target_summary(device: Device) -> str:
    """How many aims are met in every run, and which are not."""
    if device.is_rehearsal:
        return "Fast: no verdicts, since these are a CPU's numbers."
    words = {target.name: target.judge(target.find(device), device) for target in TARGETS}
    met = [name for name, word in words.items() if word == "**met**"]
    others = [f"{name} ({word.strip('*')})" for name, word in words.items() if name not in met]
    more = f"; the others: {'; '.join(others)}" if others else ""
    return f"Fast: {len(met)} of {len(words)} aims met{more}."


def _beside(value: float, target: Target) -> str:
    """With as many digits as it takes to see on which side of the aim it is."""
    side = (value > target.aim) - (value < target.aim)
    for digits in range(3, 12):
        text = number(value, digits)
        shown = float(text.replace(",", ""))
        if (shown > target.aim) - (shown < target.aim) == side:
            return text
    return repr(value)


def _nothing(step: str, device: Device, why: str = "") -> Reached:
    if step not in device.steps:
        return Reached(None, f"`{step}` was not run")
    return Reached(None, f"`{step}` ({device.steps[step].end}): {why or 'no such measurement'}")


def _good(device: Device, step: str) -> dict[str, Measured]:
    """The measurements of a step that have a speed, by name."""
    if step not in device.steps:
        return {}
    return {row.name: row for row in measured(device.steps[step]) if row.speed is not None}


def _batch_stage(peer: str, beside: str = "") -> Callable[[Device], Reached]:
    def find(device: Device) -> Reached:
        rows = _good(device, "batch-stage")
        ours, theirs = rows.get(f"gpu-aug/fused{beside}"), rows.get(peer + beside)
        if ours is None or theirs is None:
            absent = device.result("batch-stage").get("absent", {})
            return _nothing("batch-stage", device, str(absent.get(peer, "")))
        ratio, runs = paired_ratio(ours, theirs)
        return Reached(ratio, f"`batch-stage`: {ours.name} over {peer}, both float32", runs)

    return find


def _kernel(recipe: str) -> Callable[[Device], Reached]:
    name = f"{recipe}, torch.bfloat16, torch.channels_last"

    def find(device: Device) -> Reached:
        row = device.result("kernel").get(name, {})
        share = row.get("share_of_copy")
        if not is_number(share):
            return _nothing("kernel", device, str(row.get("error", "")))
        gaps = row.get("share_of_copy_with_gaps")
        more = f"; {number(100 * gaps)} % with the gaps between kernels" if is_number(gaps) else ""
        return Reached(_percent(share), f"`kernel`, {name}: the kernels alone{more}")

    return find


def _end_to_end(*, tiled: bool) -> Callable[[Device], Reached]:
    def find(device: Device) -> Reached:
        rows = _good(device, "compare")
        peer = rows.get("dali-gpu") or (rows.get("dali-cpu") if device.is_rehearsal else None)
        ours = [row for name, row in rows.items() if name.startswith("gpu-aug/") and ("(tiled)" in name) == tiled]  # fmt: skip
        if peer is None or not ours:
            return _nothing("compare", device)
        ratios = {row.name: paired_ratio(row, peer) for row in ours}
        best = max(ratios, key=lambda name: ratios[name][0])
        ratio, runs = ratios[best]
        return Reached(
            ratio, f"`compare`: {best}, the fastest of {len(ours)} of ours, over {peer.name}", runs
        )

    return find


def _lost(device: Device) -> Reached:
    rows = {
        name: row
        for name, row in _good(device, "training").items()
        if name.startswith("gpu-aug/") and row.fact("share_lost") is not None
    }
    if not rows:
        return _nothing("training", device)
    lost = {name: _percent(row.facts["share_lost"]) for name, row in rows.items()}
    best = min(lost, key=lost.__getitem__)
    others = ", ".join(f"{name} {number(lost[name])} %" for name in rows if name != best)
    how = f"`training`: {best}, the best of {len(rows)} of ours"
    runs = [_percent(run) for run in rows[best].facts.get("share_lost_runs", ())]
    return Reached(lost[best], f"{how} (others: {others})" if others else how, runs)


def _percent(share: float) -> float:
    """Without the dust of floating point that would lie on the wrong side of an aim."""
    return round(100 * share, 9)


_FEED, _READER = "excerpts of ", "DALI's reader of "


def _nvdec(device: Device) -> Reached:
    rows = {name: row for name, row in _good(device, "video-decode").items() if name.startswith(_FEED)}  # fmt: skip
    busy = {name: share for name, row in rows.items() if (share := row.fact("percent of NVDEC")) is not None}  # fmt: skip
    if not busy:
        why = next((str(row.facts["percent of NVDEC"]) for row in rows.values() if "percent of NVDEC" in row.facts), "")  # fmt: skip
        return _nothing("video-decode", device, why)
    return _least(busy, len(_sources(device)), "NVDEC of the excerpts")


def _frames(device: Device) -> Reached:
    rows = _good(device, "video-decode")
    ratios = {
        f"{_FEED}{source}": paired_ratio(rows[_FEED + source], rows[_READER + source])[0]
        for source in _sources(device)
        if _FEED + source in rows and _READER + source in rows
    }
    if not ratios:
        return _nothing("video-decode", device)
    return _least(ratios, len(_sources(device)), "excerpts over DALI's reader")


def _sources(device: Device) -> list[str]:
    """Of the step video-decode, also those that failed."""
    names: Mapping[str, Any] = device.steps["video-decode"].rows if "video-decode" in device.steps else {}  # fmt: skip
    return [name.removeprefix(_FEED) for name in names if name.startswith(_FEED)]


def _least(values: Mapping[str, float], count: int, what: str) -> Reached:
    worst = min(values, key=values.__getitem__)
    others = ", ".join(
        f"{name.removeprefix(_FEED)} {number(value)}"
        for name, value in values.items()
        if name != worst
    )
    missing = f"; {count - len(values)} more could not be measured" if count > len(values) else ""
    how = f"`video-decode`, {what}: the least, {worst.removeprefix(_FEED)}"
    return Reached(values[worst], how + (f" ({others})" if others else "") + missing)


TARGETS = (
    Target("Batch stage, times Kornia eager", "at least", 50.0, "", _batch_stage("kornia"), "H100"),
    Target("Batch stage, times Kornia compiled", "at least", 15.0, "", _batch_stage("kornia compiled", BESIDE), "H100"),
    Target("Fused kernel, batch stage, share of a copy on the device", "at least", 60.0, " %", _kernel("batch stage")),
    Target("Fused kernel, flip and normalise, share of a copy on the device", "at least", 60.0, " %", _kernel("flip, normalise")),
    Target("End to end on ordinary JPEGs, times DALI's own GPU pipeline", "at least", 1.0, "", _end_to_end(tiled=False)),
    Target("End to end on tiled JPEGs, times DALI's own GPU pipeline", "at least", 1.5, "", _end_to_end(tiled=True)),
    Target("ResNet-50 training step in bfloat16, lost to waiting", "under", 2.0, " %", _lost),
    Target("Video decoder NVDEC, busy", "above", 90.0, " %", _nvdec),
    Target("Frames per second, times DALI's own video reader", "at least", 1.0, "", _frames),
)  # fmt: skip
"""In the order of the table."""
