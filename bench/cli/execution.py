"""Choose who runs the tasks of a preparation, from the options of a command."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from bench.cli.options import ExecutionOptions
from bench.output.errors import BenchError, show_plainly
from readers.prepare.job import ArrayTask, Executor, LocalExecutor
from readers.prepare.workers import checked_workers

INTERRUPTED = 130  # exit code of Ctrl-C in shells


def executor_of(options: ExecutionOptions, num_workers: int | None) -> Executor | None:
    """Return the executor that the options request; None to do all work on this machine.

    Args:
        options: The command's options.
        num_workers: Count of processes on this machine, or largest count of tasks that a cluster has at a time; None
            means as many as can run.

    Raises:
        BenchError: The options contradict each other.
        PrepareError: The job has no task with the requested number, or less than one worker was requested.
    """
    most = None if num_workers is None else checked_workers(num_workers)
    is_ray, has_task = options.on == "ray", options.task is not None
    faults = {
        f"--on must be local or ray, got {options.on!r}: others carry out --task I/N, task by task, and --merge": (
            options.on not in ("local", "ray")
        ),
        "--ray-address is of a Ray cluster: say --on ray as well, or leave it out": (
            options.ray_address is not None and not is_ray
        ),
        "--task makes a part and --merge puts the parts together: give --task in every task, and --merge once, "
        "when all of them have ended": has_task and options.merge,
        "--task and --merge are for machines that nothing connects, and --on ray does all of the work itself: "
        "take one of them": is_ray and (has_task or options.merge),
    }
    for fault, is_there in faults.items():
        if is_there:
            raise BenchError(fault)
    if options.task is not None:
        found = re.fullmatch("([0-9]+)/([0-9]+)", options.task)
        if not found:
            raise BenchError(
                f"--task is I/N, got {options.task!r}: the first of four is 0/4, the last is 3/4"
            )
        return ArrayTask(int(found[1]), int(found[2]), LocalExecutor(num_workers))
    if options.on == "local":
        return None
    from dali_pipes.integrations.ray.executor import RayExecutor

    return RayExecutor(options.ray_address, in_flight=most)


@contextmanager
def told_when_interrupted(remains: str) -> Iterator[None]:
    """On Ctrl-C, print one line on standard error that says what is kept and how to continue; exit with code 130.

    Args:
        remains: What is kept, and how to continue.
    """
    try:
        yield
    except KeyboardInterrupt:
        show_plainly(f"interrupted: {remains}")
        raise typer.Exit(INTERRUPTED) from None
