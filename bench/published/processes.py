"""Measure contestants in processes of their own."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from bench.compare.compare import rest
from bench.compare.contract import Contestant
from bench.compare.process import ContestantProcess
from bench.micro.rows import Row
from bench.timing import Turn
from readers.cores import usable_cores


def rows_of_processes(
    contestants: Sequence[Contestant], tasks: Mapping[str, Any], *, stretch: float = 1
) -> Iterator[Row]:
    """Yield a row for each task, whose contestants work in processes of their own until the last row.

    A process serves all rows, because starting TensorFlow or torch takes longer than a measurement.

    Args:
        contestants: The first one is the reference.
        tasks: By the name of the row, a task as for `ContestantProcess.open` with a `batch_size`.
        stretch: Factor on the length of a turn.
    """
    with ExitStack() as stack, ThreadPoolExecutor(usable_cores()) as pool:

        def start(contestant: Contestant) -> ContestantProcess:
            return stack.enter_context(closing(ContestantProcess(contestant)))

        def open_task(process: Future[ContestantProcess], task: Any) -> ContestantProcess:
            process.result().open(task)
            return process.result()

        def take_turn(process: Future[ContestantProcess], task: Any, seconds: float) -> Turn:
            turn = process.result().turn(seconds * stretch)
            rest(process.result(), task, turn.rate)
            return turn

        processes = {one.name: pool.submit(start, one) for one in contestants}
        for name, task in tasks.items():
            # Imports and checks run at once: all are over before the first counted turn, since each contestant has an
            # uncounted one before it.
            opened = {one: pool.submit(open_task, ran, task) for one, ran in processes.items()}
            yield Row(name, {one: partial(take_turn, ran, task) for one, ran in opened.items()})
