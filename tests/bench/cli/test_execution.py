"""Who carries out the tasks, from the options of a command."""

from pathlib import Path

import pytest

from bench.cli.execution import executor_of
from bench.cli.options import ExecutionOptions
from bench.output.errors import BenchError
from dali_pipes.integrations.ray.executor import RayExecutor
from readers.prepare.errors import PrepareError
from readers.prepare.job import ArrayTask
from tests.support.commands import Run


def test_the_options_name_the_executor() -> None:
    """None, for this machine, when nothing is said; Ray is not imported to be named."""
    assert executor_of(ExecutionOptions(), None) is None
    assert isinstance(executor_of(ExecutionOptions(on="ray"), 2), RayExecutor)


def test_a_task_of_an_array_job_is_counted_from_0() -> None:
    """I/N as schedulers number their tasks."""
    task = executor_of(ExecutionOptions(task="3/4"), None)

    assert isinstance(task, ArrayTask)
    assert (task.number, task.count) == (3, 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (ExecutionOptions(on="spark"), "--on must be local or ray, got 'spark': others"),
        (ExecutionOptions(ray_address="10.0.0.1:6379"), "say --on ray as well"),
        (ExecutionOptions(task="0/4", merge=True), "--merge once, when all of them have ended"),
        (
            ExecutionOptions(on="ray", task="0/4"),
            "--task and --merge are for machines that nothing",
        ),
        (
            ExecutionOptions(on="ray", merge=True),
            "--task and --merge are for machines that nothing",
        ),
        (ExecutionOptions(task="one of four"), "--task is I/N, got 'one of four': the first"),
        (ExecutionOptions(task="-1/4"), "--task is I/N, got '-1/4'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: ExecutionOptions, words: str) -> None:
    """One sentence says which, and what to take instead."""
    with pytest.raises(BenchError, match=words):
        executor_of(options, None)


@pytest.mark.parametrize(("options", "workers"), [({"task": "4/4"}, None), ({"on": "ray"}, 0)])
def test_numbers_out_of_range_are_refused(options: dict[str, str], workers: int | None) -> None:
    """There is no fifth of four tasks, and no work without workers."""
    with pytest.raises(PrepareError, match=r"0 <= I < N, got 4/4|must be 1 or more, got 0"):
        executor_of(ExecutionOptions(**options), workers)  # type: ignore[arg-type]


def test_an_interrupt_says_how_to_go_on(run: Run, data: Path, tmp_path: Path) -> None:
    """Ctrl-C in a preparation is one line on standard error, and exit code 130."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("readers.prepare.packing.pack", _interrupt)
        patch.setattr("readers.prepare.indexing.index", _interrupt)
        patch.setattr("readers.prepare.inspection.inspect_dataset.inspect", _interrupt)
        for command in (("pack", data, tmp_path), ("index", data)):
            code, _, error = run(*command)
            assert code == 130
            assert "remain; run the same command again to go on" in " ".join(error.split())
        code, _, error = run("inspect", data, "--verify")
        assert code == 130
        assert "nothing was kept" in error


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
