"""The report of visits to a GPU: verdicts, limits, what is missing, and what is refused."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench import errors
from bench.chart import Panel, Series, draw_chart
from bench.gpu_report.__main__ import app
from bench.gpu_report.bars import Bar, Bars, draw_bars
from bench.gpu_report.fast import fast_lines
from bench.gpu_report.limits import limit
from bench.gpu_report.markdown import number
from bench.gpu_report.read import Device, Visit, devices
from bench.gpu_report.right import right_lines, right_summary
from bench.gpu_report.rows import Measured
from bench.gpu_report.targets import target_lines, target_summary

SVG = "{http://www.w3.org/2000/svg}"
KERNEL = "batch stage, torch.bfloat16, torch.channels_last"
JPEG = "percent of the JPEG engine"


def speed(median: float, spread: float = 0.02, **facts: Any) -> dict[str, Any]:
    """A row with three runs around a median."""
    runs = [median * (1 - spread), median, median * (1 + spread)]
    return {"images_per_second": median, "runs": [round(run, 1) for run in runs], **facts}


def compared(name: str, kind: str, median: float) -> dict[str, Any]:
    """A row of a comparison."""
    row = speed(median)
    share = {"read": 0.1, "decode": None, "augment": None, "copy": None, "wait": 1.0}
    rate = {"median": median, "min": row["runs"][0], "max": row["runs"][2], "runs": row["runs"]}
    return {"name": name, "kind": kind, "images_per_second": rate, "share": share, "note": ""}


def kernel_row(spent: float, by_bytes: float, by_operations: float, share: float) -> dict[str, Any]:
    """A row of the step `kernel`, in milliseconds."""
    return {
        "milliseconds_device": round(spent * 1.02, 5),
        "milliseconds_host": 0.031,
        "images_per_second": round(256 / spent * 1000),
        "runs": [round(256 / spent * 1000)] * 3,
        "milliseconds_of_kernels": spent,
        "floor_milliseconds": {"bytes": by_bytes, "operations": by_operations},
        "gigabytes_per_second": 1811.5,
        "share_of_copy": share,
        "share_of_copy_with_gaps": share,
    }


def results() -> dict[str, dict[str, Any]]:
    """What the steps of a whole visit leave, with plausible figures."""
    busy = {JPEG: 97, "percent of the GPU": 41}
    loads = {
        f"500x375, batch {batch}, load {load}, fancy True": speed(
            base + 9000 * load, hw_decoder_load=load, difference={"max": 2, "mean": 0.21}, **busy
        )
        for batch, base in ((64, 11003.0), (256, 14007.0))
        for load in (0.0, 0.65, 1.0)
    }
    cuts = {
        f"500x375 cut {share}, {decoder}": speed(rate / share, share_of_bytes=share**2)
        for decoder, rate in (("HW_GPU_ONLY", 9100.0), ("DALI", 13300.0))
        for share in (0.5, 0.25)
    }
    looks = [{"torch": 812, "device": 2310, "process": 3021 + step} for step in range(10)]
    growth = {"torch": 0.0, "device": 2.0, "process": 5.0}
    allowed = {"torch": 16, "device": 32, "process": 96}
    clips = {"percent of NVDEC": 93, "percent of the GPU": 12}
    return {
        "environment": {"findings": {"CUDA": "13.0"}, "headline": "H100"},
        "agreement": {
            "batch stage": {"tolerance": 0.062, "kornia": {"max": 0.031, "mean": 1e-4}, "control": 7.69},
            "blur": {"tolerance": 0.001, "kornia": {"max": 0.00013, "mean": 1e-5}, "control": 0.048},
        },
        "races": {"dali": {"batches": 500, "control differs": True}},
        "kernel": {
            "copy_gigabytes_per_second": 2811.4,
            KERNEL: kernel_row(0.0731, 0.0457, 0.0213, 0.625),
            "batch stage, torch.float32, torch.contiguous_format": kernel_row(0.0821, 0.0713, 0.0211, 0.868),
            "flip, normalise, torch.bfloat16, torch.channels_last": kernel_row(0.0502, 0.0457, 0.0101, 0.91),
        },
        "decode-dali": loads,
        "decode-others": {"nvimgcodec GPU_ONLY 500x375, batch 64": speed(7300.0, **{JPEG: 0})},
        "tiles": {
            "500x375 restart markers, HW_GPU_ONLY": {"largest_difference": 0, "control": 255},
            "500x375 plain, DALI": speed(12900.0),
            "500x375 tiled, DALI": speed(12700.0),
            **cuts,
        },
        "training": {
            "no loader": speed(2613.0, share_in_next=0.0004),
            "gpu-aug/dali+fused": speed(2582.0, share_lost=0.0119, share_lost_runs=[0.011, 0.0119, 0.0133], alone_images_per_second=19877.0, share_in_next=0.004),
            "DALI's own pipeline": speed(2391.0, share_lost=0.085, share_lost_runs=[0.08, 0.085, 0.09], alone_images_per_second=17711.0, share_in_next=0.06),
        },
        "compare": {
            "rows": [
                compared("gpu-aug/dali+fused (tiled)", "engine", 27310.0),
                compared("gpu-aug/dali+fused", "engine", 19120.0),
                compared("decode-only", "ceiling", 19730.0),
                compared("dali-gpu", "baseline", 17205.0),
            ],
            "absent": [{"name": "torchvision-cuda", "kind": "baseline", "reason": "no nvJPEG"}],
        },
        "batch-stage": {
            "gpu-aug/fused": speed(2903000.0),
            "kornia": speed(51234.0),
            "gpu-aug/fused (beside Kornia compiled)": speed(2899000.0),
            "kornia compiled (beside Kornia compiled)": speed(201234.0),
            "absent": {},
        },
        "sweep": {
            "default": speed(19001.0, batch_size=128, prefetch=2, hw_decoder_load=None),
            "batch_size 256": speed(19532.0, batch_size=256, prefetch=2, hw_decoder_load=None, times_default=1.028),
            "prefetch 1": speed(12345.0, batch_size=128, prefetch=1, hw_decoder_load=None, times_default=0.65),
        },
        "memory": {"dali": {"batches": 2000, "MiB, ten looks": looks, "growth, MiB": growth, "allowed, MiB": allowed}},
        "video-decode": {
            "encoding h264 at 1280x720": {"bytes": 990017},
            "excerpts of h264 at 1280x720": speed(9215.0, clips_per_second=575.9, **clips),
            "DALI's reader of h264 at 1280x720": speed(8807.0, clips_per_second=550.4, **clips),
        },
    }  # fmt: skip


def visit(gpu: str | None = "NVIDIA H100 80GB HBM3", *, rehearse: bool = False) -> dict[str, Any]:
    """A result.json."""
    steps = [
        {"name": name, "end": "done", "seconds": 12.3, "result": result}
        for name, result in results().items()
    ]
    return {
        "command": "gpu",
        "time": "2026-11-22T10:00:00+00:00",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "versions": {"python": "3.12.4", "torch": "2.11.0"},
        "machine": {"cpu": "Xeon", "cores": 16, "memory_gib": 128.0, "gpu": gpu, "driver": "580.65", "load_1_minute": 0.3},
        "settings": {"rehearse": rehearse},
        "rows": [],
        "steps": steps,
    }  # fmt: skip


def result_of(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The result of a step, to be changed."""
    found: dict[str, Any] = step_of(content, name)["result"]
    return found


def step_of(content: dict[str, Any], name: str) -> dict[str, Any]:
    """A step, to be changed."""
    found: dict[str, Any] = next(step for step in content["steps"] if step["name"] == name)
    return found


def device_of(*contents: dict[str, Any]) -> Device:
    """The only device of those visits."""
    [found] = devices([Visit(f"{place}.json", content) for place, content in enumerate(contents)])
    return found


def row_of(lines: list[str], start: str) -> list[str]:
    """The cells of the row whose first cell begins like this."""
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith(f"| {start}")]
    assert len(rows) == 1, (start, lines)
    return rows[0]


def target(content: dict[str, Any], start: str) -> list[str]:
    """The row of a target: name, aim, reached, range, verdict, how."""
    return row_of(target_lines(device_of(content)), start)


def written(contents: list[dict[str, Any]], folder: Path, *flags: str) -> str:
    """The document that the command makes of results."""
    paths = [folder / f"gpu-{place}.json" for place in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(json.dumps(content))
    with pytest.raises(SystemExit) as end:
        errors.call(app, [*map(str, paths), "--out", str(folder / "gpu.md"), *flags])
    assert end.value.code == 0
    return (folder / "gpu.md").read_text()


def at_kernel(content: dict[str, Any], value: float) -> None:
    """Let the fused kernel reach that share of a copy."""
    result_of(content, "kernel")[KERNEL]["share_of_copy"] = value


def at_lost(content: dict[str, Any], value: float) -> None:
    """Let the training step lose that share."""
    row = result_of(content, "training")["gpu-aug/dali+fused"]
    row.update(share_lost=value, share_lost_runs=[value])


def at_nvdec(content: dict[str, Any], value: float) -> None:
    """Let NVDEC be busy for that many percent of the time."""
    result_of(content, "video-decode")["excerpts of h264 at 1280x720"]["percent of NVDEC"] = value


def at_kornia(content: dict[str, Any], value: float) -> None:
    """Let ours be that many times as fast as Kornia."""
    for name, rate in (("kornia", 1000.0), ("gpu-aug/fused", 1000.0 * value)):
        result_of(content, "batch-stage")[name] = {"images_per_second": rate, "runs": [rate]}


def at_dali(content: dict[str, Any], value: float) -> None:
    """Let ours be that many times as fast as DALI's own pipeline."""
    for name, rate in (("dali-gpu", 1000.0), ("gpu-aug/dali+fused", 1000.0 * value)):
        row = next(row for row in result_of(content, "compare")["rows"] if row["name"] == name)
        row["images_per_second"] = {"median": rate, "min": rate, "max": rate, "runs": [rate]}


@pytest.mark.parametrize(
    ("start", "change", "met", "missed"),
    [
        ("Batch stage, times Kornia eager", at_kornia, 50.0, 49.999),
        ("Fused kernel, batch stage", at_kernel, 0.6, 0.599),
        ("End to end on ordinary JPEGs", at_dali, 1.0, 0.9999),
        ("ResNet-50", at_lost, 0.0199, 0.02),
        ("Video decoder NVDEC", at_nvdec, 90.1, 90),
    ],
    ids=["kornia", "kernel", "dali", "lost", "nvdec"],
)
def test_verdict_at_the_boundary(
    start: str, change: Callable[[dict[str, Any], float], None], met: float, missed: float
) -> None:
    """The first value that meets an aim is met, the last one before it is missed, and the digits show which."""
    good, bad = visit(), visit()
    change(good, met)
    change(bad, missed)

    assert target(good, start)[4] == "**met**"
    assert target(bad, start)[4] == "**missed**"
    assert target(good, start)[2] != target(bad, start)[2]


def test_every_target_of_a_good_visit_has_its_number() -> None:
    """Each aim has a row, with the ratio of one run."""
    content = visit()

    rows = [line for line in target_lines(device_of(content)) if line.startswith("| ")][2:]

    assert len(rows) == 9
    assert [row.split(" | ")[4] for row in rows].count("**met**") == 8
    assert target(content, "Batch stage, times Kornia compiled")[2:5] == [
        "14.4",
        "14.4 to 14.4",
        "**missed**",
    ]
    assert target(content, "End to end on tiled")[2] == "1.59"
    assert target(content, "ResNet-50")[2:4] == ["1.19 %", "1.1 to 1.33"]


def test_our_batch_stage_is_explained_by_the_kernel_of_the_same_visit() -> None:
    """What limits the batch stage is what the step `kernel` found about the same work, and only in that visit."""
    alone = visit()
    alone["time"] = "2026-11-23T10:00:00+00:00"
    alone["steps"] = [step_of(alone, "kernel")]
    ours = "gpu-aug/fused |"

    same = row_of(fast_lines(device_of(visit())), ours)
    other = row_of(fast_lines(device_of(visit(), alone)), ours)

    assert same[-1].startswith("the memory's bandwidth: 1.15 times the floor by bytes (by `kernel`")
    assert other[-1] == "not known: nothing was looked at beside the speed"


def test_summary_names_what_is_not_met_or_not_shown(tmp_path: Path) -> None:
    """The first lines of a section count, and name the losses."""
    content = visit()
    step_of(content, "races").update(end="over its 90 s", result={})

    lines = written([content], tmp_path).splitlines()

    right, fast = (next(line for line in lines if line.startswith(f"- {word}:")) for word in ("Right", "Fast"))  # fmt: skip
    assert (
        "3 of 15 promises were shown to hold; not shown, or broken: `races`; not run: `tests-loader`"
        in right
    )
    assert "8 of 9 aims met; the others: Batch stage, times Kornia compiled (missed)." in fast


def test_a_met_aim_that_a_run_misses_says_so() -> None:
    """A median above the aim with a run below it is not simply met."""
    content = visit()
    rows = result_of(content, "compare")["rows"]
    rows[1]["images_per_second"]["runs"] = [16000.0, 19120.0, 19300.0]

    assert target(content, "End to end on ordinary")[4] == "**met, but not in every run**"
    summary = target_summary(device_of(content))
    assert "7 of 9 aims met" in summary
    assert "times DALI's own GPU pipeline (met, but not in every run)" in summary


def test_the_worst_video_decides() -> None:
    """NVDEC has to be busy with every kind of video; those that failed are counted."""
    content = visit()
    found = result_of(content, "video-decode")
    found["excerpts of vp9 at 1280x720"] = {"images_per_second": 900.0, "percent of NVDEC": 40}
    found["excerpts of hevc at 1280x720"] = {"error": "RuntimeError: refused"}

    row = target(content, "Video decoder NVDEC")

    assert row[2:5] == ["40 %", "-", "**missed**"]
    assert "vp9" in row[5]
    assert "1 more could not be measured" in row[5]


def test_aim_for_another_gpu_is_not_judged() -> None:
    """The batch stage's aims are for an H100."""
    row = target(visit("NVIDIA L4"), "Batch stage, times Kornia eager")

    assert row[4] == "no verdict: the aim is for an H100 (met)"


def test_missing_and_failed_steps_are_said(tmp_path: Path) -> None:
    """What was not run, failed or was killed is named, failures first; what they measured is shown."""
    content = visit()
    content["steps"] = [step for step in content["steps"] if step["name"] != "training"]
    step_of(content, "kernel").update(end="SIGSEGV", result={}, headline="Segmentation fault")
    step_of(content, "decode-dali")["end"] = "exit 1"
    result_of(content, "decode-dali")["4000x3000, batch 16, load 0.0, fancy True"] = {"error": "RuntimeError: no memory"}  # fmt: skip

    text = written([content], tmp_path)

    ran = text[text.index("### What ran") : text.index("### Is it right?")]
    assert "**2 of 12 steps did not come to a good end:**" in ran
    assert ran.index("`kernel`: SIGSEGV after 12 s: Segmentation fault") < ran.index(
        "10 of 12 steps"
    )
    assert target(content, "ResNet-50")[2:] == ["-", "-", "not known", "`training` was not run"]
    assert target(content, "Fused kernel, batch stage")[4] == "not known"
    assert "`kernel` gave nothing (SIGSEGV): Segmentation fault" in text
    row = row_of(text.splitlines(), "4000x3000, batch 16")
    assert row[-1] == "**failed**: RuntimeError: no memory"
    assert row_of(text.splitlines(), "torchvision-cuda")[-1] == "**failed**: no nvJPEG"
    assert row_of(text.splitlines(), "500x375, batch 64, load 1.0")[1] == "20,003"


def test_right_shows_the_difference_nearest_to_its_tolerance() -> None:
    """Beside the promise stand the difference, its tolerance and the control of the same case."""
    row = row_of(right_lines(device_of(visit())), "The fused engine gives")

    assert row[2:] == ["holds", "0.031, 0.062 allowed (batch stage, kornia)", "7.69 (2 of 2 cases)"]


@pytest.mark.parametrize(
    ("error", "word"),
    [("AssertionError: 3/255 apart", "**does not hold**"), ("OSError: no file", "**not shown**")],
    ids=["assertion", "crash"],
)
def test_right_tells_broken_from_not_shown(error: str, word: str) -> None:
    """An assertion breaks the promise; another error only leaves it open."""
    content = visit()
    step_of(content, "agreement")["end"] = "exit 1"
    result_of(content, "agreement")["blur"]["error"] = error

    verdict = row_of(right_lines(device_of(content)), "The fused engine gives")[2]

    assert verdict == f"{word}, 1 of 2 cases: blur: {error}"


def test_regions_must_be_exact() -> None:
    """Pixels of a region that differ break the promise, though the step only says by how much."""
    content = visit()
    found: dict[str, Any] = {"largest_difference": 0, "whole": 2000.0, "region": 3000.0}
    content["steps"].append(
        {"name": "regions-dali", "end": "done", "seconds": 2.0, "result": found}
    )
    start = "DALI decodes a region"
    exact = row_of(right_lines(device_of(content)), start)[2]
    found["largest_difference"] = 3

    assert exact == "holds"
    assert (
        row_of(right_lines(device_of(content)), start)[2]
        == "**does not hold**, 1 of 1 cases: all: differs by 3/255"
    )


@pytest.mark.parametrize(
    ("step", "start", "case", "found", "word"),
    [
        ("video-frames", "Of every kind of video", "vp9", {"excerpt": "gives others: {41: 40}"}, "**does not hold**"),
        ("tiles", "Restart markers", "500x375 restart markers, GPU_ONLY", {"restart markers": "refused: status 8"}, "**not shown**"),
    ],
    ids=["wrong frames", "refused markers"],
)  # fmt: skip
def test_right_sees_faults_that_are_no_errors(
    step: str, start: str, case: str, found: dict[str, str], word: str
) -> None:
    """Wrong frames and refused files are told in words by steps that come to their end."""
    content = visit()
    content["steps"] = [old for old in content["steps"] if old["name"] != step]
    content["steps"].append({"name": step, "end": "done", "seconds": 2.0, "result": {case: found}})

    verdict = row_of(right_lines(device_of(content)), start)[2]

    assert verdict == f"{word}, 1 of 1 cases: {case}: {next(iter(found.values()))}"


def test_right_of_steps_without_a_result() -> None:
    """Tests that fail, time that runs out and steps that were left out are three different things."""
    content = visit()
    content["steps"] += [
        {"name": "tests-loader", "end": "exit 1", "seconds": 9.0, "headline": "1 failed", "result": {}},
        {"name": "sanitizer", "end": "no time was left", "seconds": 0.0, "result": {}},
    ]  # fmt: skip
    lines = right_lines(device_of(content))

    assert row_of(lines, "The tests of loaders")[2] == "**not shown**: exit 1: 1 failed"
    assert row_of(lines, "The kernels touch")[2] == "not known: no time was left for it"
    assert row_of(lines, "A run that goes on")[2] == "not known: it was not run"


@pytest.mark.parametrize("step", ["tiles", "agreement"])
@pytest.mark.parametrize("end", ["SIGSEGV", "over its 70 s", "exit 1"])
def test_right_of_steps_that_were_cut_short(step: str, end: str) -> None:
    """Sound cases before a step was killed leave its promise open; a fault among them breaks it."""
    content = visit()
    step_of(content, step)["end"] = end
    start = {"tiles": "Restart markers", "agreement": "The fused engine gives"}[step]
    cut = row_of(right_lines(device_of(content)), start)[2]
    case = next(iter(result_of(content, step)))
    result_of(content, step)[case]["error"] = "AssertionError: other pixels"

    assert cut == f"**not shown**: {end}"
    assert row_of(right_lines(device_of(content)), start)[2].startswith("**does not hold**, 1 of")


def test_right_of_measurements_that_failed() -> None:
    """Markers were all tried where the step tells about the whole; which speed failed is another question."""
    content = visit()
    step_of(content, "tiles")["end"] = "exit 1"
    result_of(content, "tiles")["headline"] = "DALI: half of each side is as fast times 2"

    assert row_of(right_lines(device_of(content)), "Restart markers")[2] == "holds"


@pytest.mark.parametrize(
    ("step", "headline", "result", "verdict"),
    [
        ("tests-loader", "31 passed, 2 skipped, 48 deselected in 3.41s", {}, "holds"),
        ("tests-loader", "1 skipped, 48 deselected in 3.62s", {}, "**not shown**: no test passed: 1 skipped, 48 deselected in 3.62s"),
        ("tests-loader", "0 passed, 3 skipped in 1s", {}, "**not shown**: no test passed: 0 passed, 3 skipped in 1s"),
        ("tests-loader", "", {}, "**not shown**: no test passed"),
        ("races", "", {}, "**not shown**: it ended well, but left no case"),
        ("races", "all equal", {"headline": "all equal", "seconds": 3.0}, "**not shown**: it ended well, but left no case: all equal"),
        ("races", "", {"dali": {"batches": 500}}, "holds"),
        ("tiles", "", {"500x375 plain, DALI": speed(12900.0)}, "**not shown**: it ended well, but left no case"),
        ("soak", "", {"batches": 1000, "growth_mib": {"torch": 0.0}}, "holds"),
        ("soak", "", {"growth_mib": {"torch": 0.0}}, "**not shown**: it ended well, but left no case"),
        ("regions-dali", "", {"largest_difference": 0}, "holds"),
        ("regions-dali", "", {"whole": 2000.0}, "**not shown**: it ended well, but left no case"),
        ("regions-nvimgcodec", "", {"GPU_ONLY": {"images_per_second": 9.0}}, "**not shown**: it ended well, but left no case"),
    ],
)  # fmt: skip
def test_right_needs_evidence(
    step: str, headline: str, result: dict[str, Any], verdict: str
) -> None:
    """A good end shows nothing without a case, a difference or a test that passed."""
    content = visit()
    content["steps"] = [{"name": step, "end": "done", "seconds": 2.0, "headline": headline, "result": result}]  # fmt: skip
    lines = right_lines(device_of(content))

    assert [line.split(" | ")[2] for line in lines if f"`{step}`, 2 s" in line] == [verdict]
    count = "1" if verdict == "holds" else "0"
    assert right_summary(device_of(content)).startswith(f"Right: {count} of 15 promises")


def said(step: str, name: str = "row", rate: float = 1000.0, **facts: Any) -> str:
    """What limits a row, beside rows that decode alone at 1000 images/s and a step at 500 without a loader."""
    row = Measured(step, name, rate, facts=facts)
    others = [Measured(step, "decode-only", 1000.0), Measured(step, "no loader", 500.0)]
    others.append(Measured(step, "500x375 tiled, DALI", 1000.0))
    return limit(row, {other.name: other for other in (*others, row)})


def kernel_said(spent: float, device: float, host: float) -> str:
    """What limits a kernel whose floors are 1 ms for bytes and 0.4 ms for operations."""
    return said(
        "kernel",
        milliseconds_of_kernels=spent,
        milliseconds_device=device,
        milliseconds_host=host,
        floor_milliseconds={"bytes": 1.0, "operations": 0.4},
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (said("compare", rate=970.0), "the decoder: 0.97 of decode-only at the same settings"),
        (said("compare", rate=890.0), "not known: nothing was looked at beside the speed"),
        (said("compare", rate=1500.0), "not known: nothing was looked at beside the speed"),
        (
            said("compare", "gpu-aug/dali+fused (tiled)", 970.0),
            "not known: nothing was looked at beside the speed",
        ),
        (said("sweep", rate=1.0, **{JPEG: 95}), "the JPEG engine: busy 95 % of the time"),
        (said("sweep", rate=1.0, **{JPEG: 94}), "not known: the JPEG engine 94 % busy"),
        (
            said("sweep", rate=1.0, **{"percent of the GPU": 60, "percent of the cores": 90}),
            "the host: 90 % of the cores busy, the GPU idle 40 % of the time",
        ),
        (
            said("sweep", rate=1.0, **{"percent of the GPU": 80, "percent of the cores": 90}),
            "not known: the GPU 80 % busy, the cores 90 % busy",
        ),
        (
            said("shares", rate=1.0, traced={"share": {"decode": 0.8, "step": 0.3, "idle": 0.02}}),
            "the GPU: idle 2 % of the time, most of it decode (80 %)",
        ),
        (
            said("tiles", **{"percent of the GPU": 96}),
            "the GPU's kernels: one or another at work 96 % of the time",
        ),
        (said("video-decode", **{"percent of NVDEC": 91}), "NVDEC: busy 91 % of the time"),
        (said("video-decode", **{"percent of NVDEC": 90}), "not known: NVDEC 90 % busy"),
        (
            said("training", share_lost=0.019),
            "the model: 1.9 % lost beside the step without a loader",
        ),
        (
            said("training", share_lost=0.2, alone_images_per_second=400.0),
            "the loader: alone it gives 0.8 of what the model takes",
        ),
        (
            said("training", share_lost=0.2, alone_images_per_second=2000.0, share_in_next=0.1),
            "both work on one machine: alone the loader gives 4 times what the model takes, together 20 % are lost, "
            "10 % of the time passes in asking for batches",
        ),
        (kernel_said(1.1, 1.12, 0.1), "the memory's bandwidth: 1.1 times the floor by bytes"),
        (kernel_said(1.6, 1.62, 0.1), "mostly the memory's bandwidth: 1.6 times the floor by bytes"),
        (
            kernel_said(3.0, 3.02, 0.1),
            "not known: 3 times the floor by bytes, 7.5 times the floor by operations",
        ),
        (kernel_said(1.1, 1.9, 1.85), "the host: asking takes 1.85 ms of 1.9, the kernels 1.1 ms"),
        (kernel_said(1.1, 2.2, 0.1), "gaps between the kernels: 50 % of the 2.2 ms"),
        (
            said("tiles", "500x375 cut 0.5, DALI", 3800.0, share_of_bytes=0.25),
            "decoding, byte for byte: 25 % of the bytes take 26 % of the whole's time",
        ),
        (
            said("tiles", "500x375 cut 0.5, DALI", 3000.0, share_of_bytes=0.25),
            "not known: 25 % of the bytes",
        ),
        (
            said("tiles", "500x375 cut 0.5, DALI", 2000.0, share_of_bytes=0.25),
            "a cost of each image or batch that does not shrink with it: 25 % of the bytes take 50 % of the whole's time",
        ),
    ],
    ids=[
        "decoder", "slower than the decoder", "faster than the decoder", "tiled", "JPEG engine", "JPEG engine below",
        "host", "busy host and busy GPU", "GPU", "GPU by its driver", "NVDEC", "NVDEC below", "model", "loader", "both", "bandwidth",
        "mostly bandwidth", "far from the floors", "host asks", "gaps", "bytes", "between", "fixed cost",
    ],
)  # fmt: skip
def test_limit_needs_its_evidence(found: str, expected: str) -> None:
    """Each rule says its sentence with the evidence, and without it that it is not known."""
    assert found == expected


def test_numbers_come_from_the_result() -> None:
    """Every number in the columns of speeds is one of the JSON's, and follows it when it changes."""
    content = visit()
    speeds = _shown_speeds(content)
    known = {number(value) for value in _leaves(content)}

    assert len(speeds) > 40
    assert speeds <= known
    doubled = copy.deepcopy(content)
    _scale(doubled, 7.0)
    assert not speeds & _shown_speeds(doubled)


def _shown_speeds(content: dict[str, Any]) -> set[str]:
    """Of all tables of measurements: the medians, and both ends of the ranges."""
    found = set()
    for line in fast_lines(device_of(content)):
        cells = line.strip("| ").split(" | ")
        if line.startswith("| ") and re.match(r"[\d,.]+$", cells[1]):
            found |= {cells[1], *(cells[2].split(" to ") if " to " in cells[2] else [])}
    return found


def _leaves(value: Any) -> list[float]:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [leaf for part in parts for leaf in _leaves(part)]
    return [value] if isinstance(value, int | float) else []


def _scale(value: Any, factor: float) -> None:
    """Multiply every speed."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if key == "runs" and isinstance(part, list):
            value[key] = [run * factor for run in part]
        elif key in ("images_per_second", "median") and isinstance(part, int | float):
            value[key] = part * factor
        elif isinstance(part, dict | list):
            _scale(part, factor)


@pytest.mark.parametrize(
    "content", [visit(rehearse=True), visit(gpu=None)], ids=["rehearsal", "no GPU"]
)
def test_a_cpus_numbers_are_refused(
    content: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a rehearsal nor a machine without a GPU makes a document, even beside a real visit."""
    paths = [tmp_path / "real.json", tmp_path / "cpu.json"]
    paths[0].write_text(json.dumps(visit()))
    paths[1].write_text(json.dumps(content))
    with pytest.raises(SystemExit) as end:
        errors.call(app, [*map(str, paths), "--out", str(tmp_path / "gpu.md")])

    assert end.value.code == 2
    assert "cpu.json was measured on a CPU" in capsys.readouterr().err
    assert not (tmp_path / "gpu.md").exists()


def test_a_rehearsal_is_marked(tmp_path: Path) -> None:
    """Where it is asked for, its section says what it is and nothing is called met."""
    text = written([visit(rehearse=True)], tmp_path, "--rehearsal")

    assert "## Rehearsal on a CPU (Xeon), no GPU" in text
    assert "no number below says anything about a GPU" in text
    assert "**met" not in text
    assert "- Right: no verdicts, since " in text
    assert "promises were shown" not in text
    assert "no verdict: a CPU's run (holds)" in text
    assert "| holds |" not in text
    assert "H100" not in text.replace("for an H100", "")


def test_newest_run_of_a_step_counts() -> None:
    """Of one device each step's newest run is shown, a failed one, too, but not one that never began."""
    old, new = visit(), visit()
    new["time"] = "2026-11-23T10:00:00+00:00"
    names = ("kernel", "races", "sweep")
    new["steps"] = [step for step in new["steps"] if step["name"] in names]
    at_kernel(new, 0.71)
    step_of(new, "races").update(end="SIGSEGV", result={})
    step_of(new, "sweep").update(end="no time was left", result={})

    device = device_of(old, new)

    assert len(device.steps) == len(old["steps"])
    assert device.result("kernel")[KERNEL]["share_of_copy"] == 0.71
    assert device.steps["races"].end == "SIGSEGV"
    assert device.steps["sweep"].result == results()["sweep"]


def test_devices_have_sections_and_pictures_of_their_own(tmp_path: Path) -> None:
    """Numbers of two GPUs never stand in one table, and their pictures do not overwrite each other."""
    text = written([visit("NVIDIA H200"), visit("NVIDIA H100 80GB HBM3")], tmp_path)

    assert re.findall("^## (.*)", text, re.MULTILINE) == ["NVIDIA H200", "NVIDIA H100 80GB HBM3"]
    shown = re.findall(r"!\[[^]]+\]\((.*?)\)", text)
    assert len(shown) == len(set(shown)) == 12
    assert {path.name for path in tmp_path.glob("*.svg")} == set(shown)
    for name in shown:
        ElementTree.parse(tmp_path / name)


def test_another_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A JSON of another command is no visit."""
    path = tmp_path / "cpu-batch.json"
    path.write_text('{"command": "bench batch", "time": "", "rows": []}')
    with pytest.raises(SystemExit) as end:
        errors.call(app, [str(path), "--out", str(tmp_path / "gpu.md")])

    assert end.value.code == 2
    assert "it lacks machine, settings, steps" in capsys.readouterr().err


def test_series_differ_without_colours() -> None:
    """Every series of a chart has a mark of its own, in the chart and in the legend."""
    series = [Series(f"s{place}", [(1.0, 1.0 + place)]) for place in range(6)]

    root = ElementTree.fromstring(draw_chart([Panel("t", "x", "y", series)]))

    marks = [path.get("d") for path in root.iter(f"{SVG}path")]
    assert len(marks) == 2 * 5
    assert len(set(marks)) == 5
    assert len(list(root.iter(f"{SVG}circle"))) == 2


def test_bars_are_as_long_as_their_values() -> None:
    """Twice the value is twice the length; the range of the runs is drawn."""
    bars = [Bar("a", 4.0, [3.0, 5.0]), Bar("b", 2.0, is_ours=False)]

    root = ElementTree.fromstring(draw_bars([Bars("t", "x", bars, mark=3.0)]))

    background, first, second = [
        (float(box.get("width", 0)), box.get("fill")) for box in root.iter(f"{SVG}rect")
    ]
    assert first[0] == pytest.approx(2 * second[0], abs=0.2)
    assert len({background[1], first[1], second[1]}) == 3
    assert len(list(root.iter(f"{SVG}path"))) == 2
