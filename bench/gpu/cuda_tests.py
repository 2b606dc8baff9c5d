"""Steps: the tests that need CUDA, those first that failed in the last visit; outcomes by node id as they end.

It is also the plugin of pytest that reports to the step: ``pytest -p bench.gpu.cuda_tests``.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bench.gpu.rows import Rows
from bench.gpu.scale import Scale

_REPOSITORY = Path(__file__).resolve().parents[2]
_RESULTS = _REPOSITORY / "bench" / "results"
_REPORT, _DONE = "GPU_AUG_TEST_REPORT", "GPU_AUG_TESTS_DONE"
_TEST_SECONDS_MAX = 60  # per test; the slowest one took 20 s on an H200 while other steps ran
_VERDICTS: Mapping[str, Any] = {"passed": "right", "failed": "wrong", "skipped": "open"}

FAILED_ON_H200 = (
    "tests/dali_pipes/decode/test_from_dali.py",
    "tests/dali_pipes/pipeline/test_streams.py",
    "tests/gpu_aug/engines/test_engines_agree.py",
    "tests/gpu_aug/engines/test_engines.py",
)
"""Files with the tests that failed on 2026-11-26, whose node ids were not written down: 51 of 77 by the last bit of
Kornia's division by 255, the others by torch's warnings, by time, and by nvJPEG's acceptance of files that are cut short."""


def failed_before(scale: Scale, _data: Path, rows: Rows) -> None:
    """The tests that failed in the newest visit whose outcomes are in bench/results; else the files of `FAILED_ON_H200`."""
    _run(scale, rows, failed_in_results() or FAILED_ON_H200)


def others(scale: Scale, _data: Path, rows: Rows) -> None:
    """The other files with tests that need CUDA."""
    before = {name.partition("::")[0] for name in failed_in_results() or FAILED_ON_H200}
    files = (str(path.relative_to(_REPOSITORY)) for path in sorted((_REPOSITORY / "tests").rglob("test_*.py")))  # fmt: skip
    wanted = [
        name
        for name in files
        if name not in before
        and name != "tests/test_docstrings.py"  # needs the library of every format
        and "needs_cuda" in (_REPOSITORY / name).read_text(encoding="utf-8")
    ]
    _run(scale, rows, wanted)


def failed_in_results() -> list[str]:
    """Node ids of tests that failed in the newest visit that ran tests; none where no visit did."""
    visits = [json.loads(path.read_text(encoding="utf-8")) for path in _RESULTS.glob("gpu-*.json")]
    for visit in sorted(visits, key=lambda one: str(one.get("time", "")), reverse=True):
        steps = [one for one in visit.get("steps", ()) if one["name"].startswith("tests") and one["rows"]]  # fmt: skip
        if steps:
            rows = [row for step in steps for row in step["rows"]]
            return [row["name"] for row in rows if row["verdict"] in ("wrong", "failed")]
    return []


def _run(scale: Scale, rows: Rows, wanted: Sequence[str]) -> None:
    """Run tests in one process after the other: where one crashes, the next goes on behind the test that did it."""
    if not scale.on_gpu:
        wanted = wanted[:1]
    with TemporaryDirectory(prefix="gpu-aug-") as folder:
        report, done = Path(folder) / "report", Path(folder) / "done"
        report.touch()
        done.touch()
        command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-m", "needs_cuda"]
        command += ["-p", "bench.gpu.cuda_tests", "--tb=short", "--continue-on-collection-errors"]
        environment = {**os.environ, _REPORT: str(report), _DONE: str(done)}
        # JAX would take most of the memory. Without a GPU a rehearsal skips all tests.
        environment |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        environment |= {"FAIL_WITHOUT_CUDA": "1"} if scale.on_gpu else {}
        begun = -1
        while begun != len(done.read_text(encoding="utf-8").splitlines()):
            begun = len(done.read_text(encoding="utf-8").splitlines())
            with subprocess.Popen([*command, *wanted], cwd=_REPOSITORY, env=environment) as process:
                crashed = _follow(rows, report, process)
            if not crashed:
                break


def _follow(rows: Rows, report: Path, process: "subprocess.Popen[bytes]") -> bool:
    """Write a row for each test until the process ends; returns whether it crashed within one."""
    running = ""
    for event in _events(report, process):
        name = event["name"]
        if event["outcome"] == "begins":
            running = name
            continue
        running = ""
        with rows.check(name) as row:
            row.facts["test seconds"] = event["seconds"]
            row.facts |= {"text": event["text"]} if event["text"] else {}
            row.value = None if event["outcome"] == "skipped" else 1
            assert event["outcome"] != "failed", event["text"][-300:]
    if running:
        with rows.check(running):
            raise RuntimeError(f"the process ended within this test with {process.returncode}")
    return bool(running)


def _events(report: Path, process: "subprocess.Popen[bytes]") -> Iterator[dict[str, Any]]:
    """Yield what the plugin wrote since `_follow` was called, until the process has ended."""
    with report.open(encoding="utf-8") as file:
        file.seek(0, os.SEEK_END)
        has_ended = False
        while not has_ended:
            has_ended = process.poll() is not None
            while line := file.readline():
                yield json.loads(line)
            time.sleep(0.1)


# What follows runs within pytest.


def _write(name: str, outcome: str, seconds: float = 0.0, text: str = "") -> None:
    event = {"name": name, "outcome": outcome, "seconds": round(seconds, 2), "text": text[-1500:]}
    with Path(os.environ[_REPORT]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests that an earlier process has begun."""
    begun = set(Path(os.environ[_DONE]).read_text(encoding="utf-8").splitlines())
    items[:] = [item for item in items if item.nodeid not in begun]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note that a test begins, and end it by an error when it takes too long."""
    with Path(os.environ[_DONE]).open("a", encoding="utf-8") as file:
        file.write(item.nodeid + "\n")
    _write(item.nodeid, "begins")
    signal.signal(signal.SIGALRM, _raise_timeout)
    signal.alarm(_TEST_SECONDS_MAX)
    try:
        return (yield)
    finally:
        signal.alarm(0)


def _raise_timeout(*_: object) -> None:
    raise TimeoutError(f"the test took over {_TEST_SECONDS_MAX} s")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Report a test once: its call, or its setup or teardown where that did not pass."""
    if report.when == "call" or report.outcome != "passed":
        _write(report.nodeid, report.outcome, report.duration, report.longreprtext)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Report a file that cannot be imported as a failed test."""
    if report.failed:
        _write(report.nodeid, "failed", text=report.longreprtext)
