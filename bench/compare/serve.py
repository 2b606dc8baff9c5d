"""The program of a contestant's process: start its pipeline, time its batches, and answer requests line by line.

Each request and each answer is a JSON object on one line:

    {"do": "open", "task": path}       {"note", "num_ahead"}
    {"do": "turn", "seconds": s}       the attributes of `bench.timing.Turn`

or, for any request, {"error", "unable"}: the error, and whether the contestant reported it (Unable) instead of
crashing. The end of the input ends the process and its workers.
"""

import gc
import pickle
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from bench.baselines.peers.far import answer_questions
from bench.compare.contract import Pipeline, Unable
from bench.compare.windows import WindowTask
from bench.output.errors import one_line
from bench.timing import peak_bytes, synchronise, take_turn


def main() -> None:
    """Serve one contestant on the standard streams."""
    answer_questions(_Server().answer)


class _Server:
    """Serves one contestant: opens it for a task, and then times its batches for each request (a turn)."""

    _pipeline: Pipeline | None

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            if question["do"] == "open":
                return self._open(question["task"])
            return self._take_turn(question["seconds"])
        except Exception as error:  # noqa: BLE001 - a contestant may raise anything; the answer names it
            return {
                "error": str(error) if isinstance(error, Unable) else one_line(error),
                "unable": isinstance(error, Unable | ImportError),
            }

    def _open(self, path: str) -> dict[str, Any]:
        contestant, task = pickle.loads(Path(path).read_bytes())
        start: Callable[[Any], Pipeline] = partial(
            resolve_name(contestant.start), **contestant.options
        )
        note = ""
        self._pipeline = None  # if it is opened again: its workers end before the next ones start
        if contestant.kind != "ceiling" and isinstance(task, WindowTask):
            note = task.rehearse(start)
        elif contestant.kind != "ceiling" and task.plan is not None:
            from bench.compare.check_frames import check_frames

            note = check_frames(start, task)
        pipeline, self._device = start(task), task.device
        batch = next(pipeline.batches)
        if contestant.kind != "ceiling":
            task.check_batch(batch)
        gc.collect()
        gc.freeze()  # existing objects stay alive; collecting them would lengthen a turn
        self._pipeline = pipeline
        return {"note": pipeline.note + note, "num_ahead": pipeline.num_ahead}

    def _take_turn(self, seconds: float) -> dict[str, Any]:
        assert self._pipeline is not None
        turn = take_turn(
            partial(next, self._pipeline.batches),
            seconds=seconds,
            discard=self._pipeline.num_discard,
            finish=partial(synchronise, self._device),
        )
        return asdict(turn) | {"peak_bytes": peak_bytes()}
