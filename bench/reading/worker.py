"""The process of one reader: ``python -m bench.reading.worker WAY SOURCE BATCH_SIZE THREADS``.

Every line of its input is JSON: {"seconds", "discard", "items_max"}, as `bench.timing.take_turn` takes them. It answers
with a line of JSON: the fields of a `bench.timing.Turn`.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bench.reading.ways import WAYS, Batch, Task
from bench.timing import take_turn


def main(way: str, source: str, batch_size: str, num_threads: str) -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w")  # libraries print: their lines go to standard error
    os.dup2(2, 1)
    batches = WAYS[way](Task(Path(source), int(batch_size), int(num_threads), seed=0))
    for line in sys.stdin:
        print(json.dumps(_answer(batches, json.loads(line))), file=answers, flush=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # worker processes that outlive their parent
    os._exit(0)


def _answer(batches: Iterator[Batch], asked: dict[str, Any]) -> dict[str, Any]:
    sizes: list[int] = []
    turn = take_turn(
        partial(next, batches), work=lambda batch: sizes.extend(map(len, batch)), **asked
    )
    return {**asdict(turn), "num_bytes": sum(sizes)}


if __name__ == "__main__":
    main(*sys.argv[1:])
