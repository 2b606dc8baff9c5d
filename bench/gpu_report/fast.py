"""The tables of measurements: every row of every step, the slow ones and the failed ones, too."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.gpu_report.limits import NO_LOADER, limit
from bench.gpu_report.markdown import is_number, number, percent, shortened, table
from bench.gpu_report.read import Device, Step
from bench.gpu_report.rows import Measured, measured, paired_ratio

Rows = Mapping[str, Measured]

BESIDE = " (beside Kornia compiled)"
"""Follows the names of the batch stage's second round of turns."""


@dataclass(frozen=True)
class Sheet:
    """How the measurements of a step are shown.

    Attributes:
        title: Of the table.
        words: What was measured, in a sentence.
        unit: Of speeds.
        facts: What else is shown of each row: its name in the result, and the heading.
        times: What the ratios are to, "" where there are none.
        reference: Finds, for a row, the row of the same step that it is compared with; None where none is.
        is_ranked: Whether the fastest comes first; else rows stand as they were measured.
    """

    title: str
    words: str
    unit: str = "images/s"
    facts: Mapping[str, str] = field(default_factory=dict)
    times: str = ""
    reference: Callable[[Measured, Rows], Measured | None] | None = None
    is_ranked: bool = False


def _named(*names: str) -> Callable[[Measured, Rows], Measured | None]:
    """The first of those names that was measured."""

    def find(_: Measured, rows: Rows) -> Measured | None:
        return next((rows[name] for name in names if name in rows), None)

    return find


def _kornia(row: Measured, rows: Rows) -> Measured | None:
    """Of the batch stage: Kornia in the same turns."""
    compiled = row.name.endswith(BESIDE)
    return rows.get(f"kornia compiled{BESIDE}" if compiled else "kornia")


def _plain_file(row: Measured, rows: Rows) -> Measured | None:
    """Of tiles: the same pictures, whole and as they were, by the same decoder."""
    place, _, decoder = row.name.partition(", ")
    return rows.get(f"{place.split()[0]} plain, {decoder}")


def _dalis_reader(row: Measured, rows: Rows) -> Measured | None:
    source = row.name.removeprefix("excerpts of ").removeprefix("DALI's reader of ")
    return rows.get(f"DALI's reader of {source}")


_BUSY = {
    "percent of NVDEC": "NVDEC %",
    "percent of the JPEG engine": "JPEG engine %",
    "percent of the GPU": "GPU %",
    "percent of the cores": "cores %",
}
_KERNEL = {
    "milliseconds_device": "ms",
    "milliseconds_host": "host, ms",
    "milliseconds_of_kernels": "kernels, ms",
    "floor_milliseconds": "floors, ms",
    "gigabytes_per_second": "GB/s",
    "share_of_copy": "of a copy",
    "share_of_copy_with_gaps": "with gaps",
}
SHEETS = {
    "compare": Sheet(
        "Loaders, end to end",
        "Files to augmented batches on the device, pipelines in turns.",
        facts=_BUSY,
        times="times DALI's own",
        reference=_named("dali-gpu", "dali-cpu"),
        is_ranked=True,
    ),
    "training": Sheet(
        "Training ResNet-50",
        "A step in bfloat16 behind each loader and without one, each loader alone, in turns.",
        facts={
            "share_lost": "lost",
            "share_in_next": "in next()",
            "alone_images_per_second": "alone, images/s",
            **_BUSY,
        },
        times="times the step without a loader",
        reference=_named(NO_LOADER),
    ),
    "shares": Sheet(
        "Where the GPU's time goes",
        "Decoding, the loader and a training step, alone and together; whose work the GPU did by a trace.",
        facts={"traced": "the GPU's work, shares of the time", **_BUSY},
    ),
    "batch-stage": Sheet(
        "Batch stage",
        "Affine, jitter, erasing and normalising on images that lie on the device, in turns.",
        times="times Kornia in the same turns",
        reference=_kornia,
    ),
    "kernel": Sheet(
        "Fused kernels",
        "Each recipe, type and layout beside a copy on the device in the same run.",
        facts=_KERNEL,
    ),
    "tilings": Sheet("How the kernels are cut", "Ways of cutting the same work.", facts=_KERNEL),
    "decode-dali": Sheet(
        "Decoding by DALI",
        "Whole JPEGs by size, batch size, share of the JPEG engine and upsampling.",
        facts={"difference": "difference from OpenCV", **_BUSY},
    ),
    "decode-others": Sheet(
        "Decoding by others",
        "Whole JPEGs by every backend of nvImageCodec and by torchvision.",
        facts={"difference": "difference from OpenCV", **_BUSY},
    ),
    "tiles": Sheet(
        "Windows cut out of tiled JPEGs",
        "Shares of each side cut out of the file and decoded, by decoder.",
        facts={"share_of_bytes": "of the bytes", **_BUSY},
        times="times the plain file whole",
        reference=_plain_file,
    ),
    "sweep": Sheet(
        "Batch size, prefetch and the JPEG engine's share",
        "Our loader with one option changed, in turns with its defaults.",
        facts={"times_default": "times the default", **_BUSY},
    ),
    "video-decode": Sheet(
        "Decoding clips",
        "Random clips of 16 frames at stride 4, by our feed and by DALI's own reader.",
        unit="frames/s",
        facts={"clips_per_second": "clips/s", **_BUSY},
        times="times DALI's reader",
        reference=_dalis_reader,
    ),
    "video-loader": Sheet(
        "Clips, end to end",
        "Whole training batches of clips.",
        unit="clips/s",
        facts=_BUSY,
    ),
}
"""By step, in the order of the document."""


def fast_lines(device: Device) -> list[str]:
    """A table for every step that measured something, the known ones first."""
    lines = []
    names = [*SHEETS, *(name for name in device.steps if name not in SHEETS)]
    for name in names:
        step = device.steps.get(name)
        rows = measured(step) if step is not None else []
        if step is not None and any(row.speed is not None for row in rows):
            sheet = SHEETS.get(name, Sheet(name, ""))
            lines += [f"#### {sheet.title}", "", _words(sheet, step), ""]
            lines += _table(sheet, _with_kernel(rows, device))
        elif step is not None and name in SHEETS:
            sheet = SHEETS[name]
            why = shortened(step.headline, 200) or "no measurement"
            lines += [f"#### {sheet.title}", "", f"`{name}` gave nothing ({step.end}): {why}", ""]
    return lines


def _with_kernel(rows: Sequence[Measured], device: Device) -> list[Measured]:
    """To our rows of the batch stage what the same visit's step `kernel` found about the same work."""
    kernel, stage = device.steps.get("kernel"), device.steps.get("batch-stage")
    if kernel is None or stage is None or kernel.visit is not stage.visit:
        return list(rows)
    found = kernel.rows.get(_SAME_WORK, {})
    return [
        replace(
            row, facts={**row.facts, "kernel": Measured("kernel", _SAME_WORK, None, facts=found)}
        )
        if row.step == "batch-stage" and found and row.name.removesuffix(BESIDE) == "gpu-aug/fused"
        else row
        for row in rows
    ]


_SAME_WORK = "batch stage, torch.float32, torch.contiguous_format"


def _words(sheet: Sheet, step: Step) -> str:
    copy = step.result.get("copy_gigabytes_per_second")
    more = f" A copy on the device: {number(copy)} GB/s." if is_number(copy) else ""
    upload = step.rows.get("host to device", {}).get("gigabytes_per_second")
    more += f" From the host to the device: {number(upload)} GB/s." if is_number(upload) else ""
    told = step.result.get("told_apart")
    more += f" Told apart: {told}." if told else ""
    bad = f" **The step ended early or with failures ({step.end}).**" if step.end != "done" else ""
    return f"{sheet.words} `{step.name}`, {step.visit.time[:10]}, {number(step.seconds, 2)} s.{more}{bad}".strip()


def _table(sheet: Sheet, found: Sequence[Measured]) -> list[str]:
    rows = {row.name: row for row in found}
    good = {name: row for name, row in rows.items() if row.speed is not None}
    order = list(rows.values())
    if sheet.is_ranked:
        order.sort(key=lambda row: row.speed or 0.0, reverse=True)
    headings = ["what", f"{sheet.unit}:", "range:", f"{sheet.times}:", *(f"{heading}:" for heading in sheet.facts.values()), "what limits it"]  # fmt: skip
    return table(headings, [_row(sheet, row, good) for row in order])


def _row(sheet: Sheet, row: Measured, good: Rows) -> list[str]:
    facts = [_fact(row.facts.get(name), is_share=name.startswith("share")) for name in sheet.facts]
    if row.speed is None:
        said = f"**failed**: {shortened(row.error)}"
        return [row.name, "", "", "", *facts, said]
    reference = sheet.reference(row, good) if sheet.reference else None
    times = "" if reference is None else number(paired_ratio(row, reference)[0])
    return [
        row.name,
        number(_speed(sheet, row)),
        _range(sheet, row),
        times,
        *facts,
        limit(row, good),
    ]


def _speed(sheet: Sheet, row: Measured) -> float:
    clips = row.fact("clips_per_second")
    if sheet.unit == "clips/s" and clips is not None:
        return clips
    return row.speed or 0.0


def _range(sheet: Sheet, row: Measured) -> str:
    """Of the runs; those of a loader of clips are noted in frames."""
    if not row.runs:
        return ""
    if len(row.runs) == 1:
        return "one run"
    share = _speed(sheet, row) / row.speed if row.speed else 1.0
    return f"{number(share * min(row.runs))} to {number(share * max(row.runs))}"


def _fact(value: Any, *, is_share: bool = False) -> str:
    if is_number(value):
        return percent(value) if is_share else number(value)
    if isinstance(value, Mapping) and "share" in value:
        return _fact(value["share"])
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(part)}" for name, part in value.items())
    return "" if value is None else shortened(str(value), 60)
