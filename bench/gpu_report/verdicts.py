"""Whether a step that verifies has shown its promise, broken it, or left it open."""

import re
from collections.abc import Mapping
from typing import Any

from bench.gpu_report.markdown import is_number, shortened
from bench.gpu_report.read import NOT_RUN, Step

PROMISES = {
    "tests-loader": "The tests of loaders, decoders and videos that need CUDA pass",
    "tests-engines": "The tests of the engines that need CUDA pass",
    "agreement": "The fused engine gives the pixels of the CPU, of Kornia and of float64",
    "kinds": "Every kind of JPEG gives the same pixels on the GPU as on the CPU",
    "positions": "A bad sample costs itself alone, wherever it stands in a batch",
    "soak": "Many bad samples in a long run leave the others as they are",
    "resume": "A run that goes on from a state sees the same batches, across decoders and devices",
    "races": "Losses do not depend on whether the loop waits for the device",
    "sanitizer": "The kernels touch no memory that is not theirs",
    "synchronisations": "The training loop's thread never waits for the device",
    "memory": "Memory stays flat",
    "video-frames": "Of every kind of video DALI gives the frames that FFmpeg gives",
    "tiles": "Restart markers change no pixel in any of the GPU's decoders",
    "regions-dali": "DALI decodes a region to the pixels that the whole image has there",
    "regions-nvimgcodec": "nvImageCodec decodes a region to the pixels that the whole image has there",
}
"""By the step that shows it."""

_NO_CASES = ("growth_mib",)
"""Results of a step as a whole."""

HOLDS = "holds"

_DIFFERS = "differs by"
_BROKEN = ("AssertionError", "gives others", _DIFFERS)
_EXACT = ("regions-dali", "regions-nvimgcodec")
"""Steps that say by how much pixels differ and leave the verdict to the reader: none may."""


def cases_of(step: Step) -> dict[str, Mapping[str, Any]]:
    """What was verified; of a step that also measures, that part of it."""
    return {
        name: row
        for name, row in step.rows.items()
        if name not in _NO_CASES and (step.name != "tiles" or "restart markers" in name)
    }


def verdict(step: Step) -> str:
    """Whether a promise holds, is broken or was not shown, and why."""
    cases = cases_of(step)
    faults = {case: fault for case, row in cases.items() if (fault := fault_of(row))}
    if step.name in _EXACT:
        faults = _differences(step) | faults
    if faults:
        broken = any(fault.startswith(_BROKEN) for fault in faults.values())
        said = "; ".join(f"{case}: {shortened(fault, 120)}" for case, fault in _some(faults))
        word = "**does not hold**" if broken else "**not shown**"
        return f"{word}, {len(faults)} of {max(1, len(cases))} cases: {said}"
    if step.end == NOT_RUN:
        return "not known: no time was left for it"
    lack = _lack(step)
    if not lack:
        return HOLDS
    return f"**not shown**: {lack}{': ' if step.headline else ''}{shortened(step.headline, 120)}"


def fault_of(row: Mapping[str, Any]) -> str:
    """What is wrong with a case, "" where nothing is."""
    excerpt, markers = str(row.get("excerpt", "")), str(row.get("restart markers", ""))
    if excerpt.startswith("gives others"):
        return excerpt
    return str(row.get("error", "")) or (markers if markers.startswith("refused") else "")


def _lack(step: Step) -> str:
    """What a step without a fault lacks to show its promise, "" where nothing."""
    # Its end tells about measurements, too; its headline comes when all cases were tried.
    is_whole = step.name == "tiles" and "headline" in step.result
    if step.end != "done" and not is_whole:
        return step.end
    if step.name.startswith("tests-"):
        return "" if _num_passed(step) else "no test passed"
    return "" if _has_evidence(step) else "it ended well, but left no case"


def _num_passed(step: Step) -> int:
    """By pytest's last line."""
    found = re.search(r"\b(\d+) passed\b", step.headline)
    return int(found[1]) if found else 0


def _has_evidence(step: Step) -> bool:
    """Whether there is a case, or a number about the step as a whole."""
    if step.name in _EXACT:
        return any(is_number(row.get("largest_difference")) for row in (step.result, *step.rows.values()))  # fmt: skip
    numbers = [name for name, value in step.result.items() if is_number(value)]
    return bool(cases_of(step)) or bool(set(numbers) - {"seconds"})


def _differences(step: Step) -> dict[str, str]:
    found = {"all": step.result, **step.rows}
    gaps = {case: row.get("largest_difference") for case, row in found.items()}
    return {case: f"{_DIFFERS} {gap}/255" for case, gap in gaps.items() if is_number(gap) and gap}


def _some(faults: Mapping[str, str]) -> list[tuple[str, str]]:
    rest = [("and others", f"{len(faults) - 3} more, below")] if len(faults) > 3 else []
    return [*list(faults.items())[:3], *rest]
