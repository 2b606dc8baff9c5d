"""The contestant's side: start its pipeline, time its batches, answer line by line.

Each line, there and back, is one JSON object:

    {"do": "open", "task": path}       {"note", "num_ahead"}
    {"do": "turn", "seconds": s}       the attributes of `bench.timing.Turn`

or, whatever was asked, {"error", "unable"}: what went wrong, and whether the contestant says so itself rather than
crashes. The end of the input ends the process and its workers.
"""

import gc
import json
import os
import pickle
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TextIO

import torch

from bench.compare.check_frames import check_frames
from bench.compare.contestant import Pipeline, Task, Unable
from bench.compare.contestants import Contestant
from bench.timing import synchronise, take_turn


def main() -> None:
    """Serve one contestant on the standard streams."""
    # Libraries print: their lines go to standard error, and answers keep the old standard output.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, answers)
    if os.getpgrp() == os.getpid():  # started as the first of a group, in which its workers are
        os.killpg(0, signal.SIGKILL)  # some outlive their parent
    os._exit(0)  # a thread that will not end must not keep the process


def serve(asked: TextIO, answers: TextIO) -> None:
    """Answer every line until the input ends."""
    server = _Server()
    for line in asked:
        question = json.loads(line)
        try:
            answer = server.answer(question)
        except Exception as error:  # noqa: BLE001 - a contestant may raise anything; the answer names it
            answer = {
                "error": str(error) if isinstance(error, Unable) else one_line(error),
                "unable": isinstance(error, Unable | ImportError),
            }
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class _Server:
    def __init__(self) -> None:
        self._pipeline: Pipeline | None = None
        self._device = torch.device("cpu")

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        match question["do"]:
            case "open":
                contestant, task = pickle.loads(Path(question["task"]).read_bytes())
                return self._open(contestant, task)
            case "turn" if self._pipeline is not None:
                return self._turn(self._pipeline, question["seconds"])
            case other:
                raise ValueError(f"do must be open, and then turn, got {other!r}")

    def _open(self, contestant: Contestant, task: Task) -> dict[str, Any]:
        begin: Callable[..., Pipeline] = resolve_name(contestant.start)
        note = ""
        if contestant.kind != "ceiling" and task.plan is not None:
            note = check_frames(lambda own: begin(own, **contestant.options), task)
        self._device = task.device
        self._pipeline = begin(task, **contestant.options)
        batch = next(self._pipeline.batches)
        if contestant.kind != "ceiling":
            check_batch(batch, task)
        gc.collect()
        gc.freeze()  # what lives now lives on, and going through it would lengthen a turn
        return {"note": self._pipeline.note + note, "num_ahead": self._pipeline.num_ahead}

    def _turn(self, pipeline: Pipeline, seconds: float) -> dict[str, Any]:
        turn = take_turn(
            lambda: next(pipeline.batches),
            seconds=seconds,
            discard=pipeline.num_discard,
            finish=lambda: synchronise(self._device),
        )
        return asdict(turn)


def check_batch(batch: torch.Tensor, task: Task) -> None:
    """Check that a batch has the required form.

    Raises:
        Unable: It has another one.
    """
    if (tuple(batch.shape), batch.dtype) != (task.shape, task.dtype):
        raise Unable(f"made {batch.dtype} {list(batch.shape)}, not {task.dtype} {list(task.shape)}")
    if batch.device != task.device:
        raise Unable(f"left the batch on {batch.device}, not on {task.device}")


def one_line(error: Exception) -> str:
    """The type of an error and the sentence that says what happened."""
    # A worker's error quotes a whole traceback, of which the last line says what happened.
    lines = str(error).strip().splitlines() or [""]
    text = lines[-1] if "Traceback" in str(error) else " ".join(" ".join(lines).split())
    return f"{type(error).__name__}: {text}"[:300]
