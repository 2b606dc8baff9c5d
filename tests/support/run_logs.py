"""Logs of runs as `gpu-aug run --log` writes them, of statistics that are made up."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dali_pipes.monitoring.counts import STAGES
from dali_pipes.monitoring.stage_stats import Queue, Remote, StageStats, Waits
from dali_pipes.monitoring.stats import Stats

PER_STEP = 16
"""Samples of a step."""


def stats_at(step: int, *, epoch: int = 0, bad: int = 0) -> Stats:
    """What a loader tells after so many steps of 0.1 seconds, of which it waits a fifth for decoding."""
    stages = {
        name: StageStats(
            calls=step,
            samples=PER_STEP * step,
            bytes=1000 * step if name in ("read", "decode") else 0,
            busy_seconds=step * (number + 1) / 1000,
            cpu_seconds=step * (number + 1) / 2000,
            p50_seconds=0.001,
            p90_seconds=0.0125,
            p99_seconds=0.25,
            waits={"a thread": Waits(step, step / 500)} if name == "decode" else {},
        )
        for number, name in enumerate(STAGES)
    }
    return Stats(
        epoch=epoch,
        steps=step,
        samples=PER_STEP * step,
        seconds=step / 10,
        start_seconds=0.75,
        images_per_second=10.0 * PER_STEP,
        wait_seconds=step / 50,
        late={"decode": step / 60, "idle": step / 300},
        queue=Queue(1, 1.5, 3, step // 4, step),
        bad_samples=bad,
        remote=Remote(7, 5_000_000, 30, 10),
        whole_images={"progressive JPEG": 5},
        num_threads=2,
        stages=stages,
    )


def start(data: Path | str = "nowhere", **more: Any) -> dict[str, Any]:
    """The first line."""
    return {
        "kind": "run",
        "data": str(data),
        "recipe": "imagenet_train",
        "settings": {
            "batch_size": PER_STEP,
            "dtype": "float32",
            "step_ms": 80.0,
            "source_options": {},
        },
        "explain": "device cpu: torch sees no CUDA device\nimages decoded exactly",
        "versions": {"python": "3.11.2", "numpy": "2.2.0"},
        "machine": {"cpu": "an example", "cores": 2, "gpu": None},
        "commit": "0123456789abcdef",
        **more,
    }


def lines(
    num_seconds: int, data: Path | str = "nowhere", bad: Sequence[dict[str, Any]] = ()
) -> Iterator[dict[str, Any]]:
    """A whole log: a line every second, ten steps each, and 100 steps an epoch."""
    yield start(data)
    for second in range(1, num_seconds + 1):
        made = stats_at(10 * second, epoch=(second - 1) // 10, bad=len(bad))
        yield {"kind": "stats", "at": float(second), **made.to_dict()}
    for record in bad:
        yield {"kind": "bad_sample", **record}
    coverage = {"epoch": 0, "samples": 30, "of": 40, "repeated": 4}
    epochs = {
        str(epoch): stats_at(100, epoch=epoch).to_dict() for epoch in range(num_seconds // 10)
    }
    end = {"at": float(num_seconds), "stats": epochs, "coverage": coverage, "stopped": None}
    yield {"kind": "end", **end}


def write(path: Path, told: Sequence[dict[str, Any]] | Iterator[dict[str, Any]]) -> Path:
    """Write lines to a file."""
    path.write_text("".join(json.dumps(line) + "\n" for line in told))
    return path


def bad_record(key: str, index: int, reason: str = "truncated", **more: Any) -> dict[str, Any]:
    """A line of the ledger."""
    return {
        "key": key,
        "index": index,
        "stage": "decode",
        "reason": reason,
        "epoch": 0,
        "step": 3,
        "rank": 0,
        "kept": False,
        **more,
    }
