"""The process of one reader: ``python -m bench.reading.worker WAY SOURCE BATCH_SIZE THREADS``.

Every line of its input is JSON: {"seconds", "discard", "items_max"}, as `bench.timing.take_turn` takes them. It answers
with a line of JSON: the fields of a `bench.timing.Turn`.
"""

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bench.baselines.peers.far import answer_questions
from bench.reading.ways import WAYS, Task
from bench.timing import take_turn


def main(way: str, source: str, batch_size: str, num_threads: str) -> None:
    """Answer until the input ends."""
    batches = WAYS[way](Task(Path(source), int(batch_size), int(num_threads), seed=0))

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        sizes: list[int] = []
        turn = take_turn(
            partial(next, batches), work=lambda batch: sizes.extend(map(len, batch)), **asked
        )
        return {**asdict(turn), "num_bytes": sum(sizes)}

    answer_questions(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
