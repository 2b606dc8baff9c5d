"""Measure contestants in processes of their own."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import cache, partial
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
    """Yield a row for each task. Each contestant has a process of its own, which serves all rows.

    A process serves all rows, because starting TensorFlow or torch takes longer than a measurement.

    Args:
        contestants: The first one is the reference.
        tasks: By the name of the row, a task as for `ContestantProcess.open` with a `batch_size`.
        stretch: Factor on the length of a turn.
    """
    with ExitStack() as stack, ThreadPoolExecutor(usable_cores()) as pool:

        @cache
        def start(number: int) -> ContestantProcess:
            return stack.enter_context(closing(ContestantProcess(contestants[number])))

        def take_turn(opened: Future[None], number: int, task: Any, seconds: float) -> Turn:
            opened.result()
            turn = start(number).turn(seconds * stretch)
            rest(start(number), task, turn.rate)
            return turn

        for name, task in tasks.items():
            # Imports and checks run at once: all are over before the first counted turn, since each contestant has an
            # uncounted one before it.
            opened = [
                pool.submit(lambda number, task: start(number).open(task), number, task)
                for number in range(len(contestants))
            ]
            yield Row(
                name,
                {
                    one.name: partial(take_turn, opened[number], number, task)
                    for number, one in enumerate(contestants)
                },
            )
