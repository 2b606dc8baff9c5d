"""The peer's side: in its own environment, build its pipeline, time its batches, answer line by line.

Each line, there and back, is one JSON object:

    {"do": "open", "spec": path}                  {"note", "num_ahead", "shape", "dtype", "device"}
    {"do": "turn", "seconds": s, "discard": n}    {"images", "seconds", "wait_seconds"}
    {"do": "close"}                               {}

or, whatever was asked, {"error", "trace", "unable"}: what went wrong, the traceback, and whether the peer
says so itself rather than crashes. The end of the input is a close.
"""

import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TextIO

import torch

from bench.baselines.peers.spec import Spec
from bench.compare.contestant import Unable
from bench.compare.timer import synchronise, time_slice


class PipelineModule(Protocol):
    """The interface of a peer's pipeline.py.

    Attributes:
        NOTE: A note that is needed for a fair comparison.
    """

    NOTE: str

    def num_ahead(self, spec: Spec) -> int:
        """Batches that it prepares while nobody asks."""

    def batches(self, spec: Spec) -> Iterator[torch.Tensor]:
        """Convert the data if it has to, start, and yield batches [batch_size, 3, H, W] for ever."""


def main(module: str) -> None:
    """Serve the pipeline of a module on the standard streams."""
    # Libraries print: their lines go to standard error, and answers keep the old standard output.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(lambda: importlib.import_module(module), sys.stdin, answers)
    if os.getpgrp() == os.getpid():  # started as the first of a group, in which its workers are
        os.killpg(0, signal.SIGKILL)  # some outlive their parent
    os._exit(0)  # a thread that will not end must not keep the process


def serve(load: Any, asked: TextIO, answers: TextIO) -> None:
    """Answer every line until "close".

    Args:
        load: Imports the pipeline: called at "open", so that an import that fails is an answer.
        asked: Where the questions come from.
        answers: Where the answers go.
    """
    server = _Server(load)
    for line in asked:
        question = json.loads(line)
        try:
            answer = server.answer(question)
        except Exception as error:  # noqa: BLE001 - a peer may raise anything; the answer names it
            answer = {
                "error": str(error) if isinstance(error, Unable) else _one_line(error),
                "trace": traceback.format_exc(),
                "unable": isinstance(error, Unable | ImportError),
            }
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if question["do"] == "close":
            return


class _Server:
    def __init__(self, load: Any) -> None:
        self._load = load
        self._batches: Iterator[torch.Tensor] | None = None
        self._device = torch.device("cpu")

    def answer(self, question: dict[str, Any]) -> dict[str, object]:
        match question["do"]:
            case "open":
                return self._open(Spec.read(Path(question["spec"])))
            case "turn":
                return self._turn(question["seconds"], question["discard"])
            case "close":
                self._batches = None
                return {}
            case other:
                raise ValueError(f"do must be open, turn or close, got {other!r}")

    def _open(self, spec: Spec) -> dict[str, object]:
        pipeline: PipelineModule = self._load()
        self._device = spec.device
        self._batches = pipeline.batches(spec)
        batch = next(self._batches)
        return {
            "note": pipeline.NOTE,
            "num_ahead": pipeline.num_ahead(spec),
            "shape": list(batch.shape),
            "dtype": str(batch.dtype),
            "device": str(batch.device),
        }

    def _turn(self, seconds: float, discard: int) -> dict[str, object]:
        if self._batches is None:
            raise ValueError("turn before open: open first")
        batches = self._batches
        turn = time_slice(
            lambda: next(batches),
            seconds=seconds,
            discard=discard,
            finish=lambda: synchronise(self._device),
        )
        return asdict(turn)


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
