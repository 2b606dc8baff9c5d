"""Steps that run the tests that need CUDA, first those that failed in the last visit, and write their outcomes.

This module is also the pytest plugin that writes the rows of the step: ``pytest -p bench.gpu.cuda_tests``.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.gpu.rows import Row, Rows

if TYPE_CHECKING:
    from bench.gpu.scale import Scale  # not imported at run time: it loads torch

_REPOSITORY = Path(__file__).resolve().parents[2]
_RESULTS = _REPOSITORY / "bench" / "results"
_ROWS = "GPU_AUG_TEST_ROWS"  # environment variable with the path of the step's rows
_TEST_SECONDS_MAX = 60  # per test; the slowest test took 20 s on an H200 while other steps ran

FAILED_ON_H200 = (
    "tests/dali_pipes/decode/test_from_dali.py",
    "tests/dali_pipes/stages/test_streams.py",
    "tests/gpu_aug/engines/test_engines_agree.py",
    "tests/gpu_aug/engines/test_engines.py",
)
"""Files with the tests that failed on 2026-11-26, whose node ids were not recorded: most because of the last bit of
Kornia's division by 255, the others because of torch's warnings, timing, and nvJPEG's acceptance of truncated files."""


def failed_before(scale: "Scale", _data: Path, rows: Rows) -> None:
    """Run the tests that failed in the newest visit with outcomes in bench/results; otherwise the files of `FAILED_ON_H200`."""
    _run(scale, rows, failed_in_results() or FAILED_ON_H200)


def others(scale: "Scale", _data: Path, rows: Rows) -> None:
    """Run the test files that need CUDA, except files with tests that `failed_before` runs."""
    skipped = {name.partition("::")[0] for name in failed_in_results() or FAILED_ON_H200}
    skipped.add("tests/test_docstrings.py")  # needs the libraries of all formats
    files = {
        str(path.relative_to(_REPOSITORY))
        for path in (_REPOSITORY / "tests").rglob("test_*.py")
        if "needs_cuda" in path.read_text(encoding="utf-8")
    }
    _run(scale, rows, sorted(files - skipped))


def failed_in_results() -> list[str]:
    """Return the node ids of tests that failed in the newest visit that ran tests; empty without such a visit."""
    visits = [json.loads(path.read_text(encoding="utf-8")) for path in _RESULTS.glob("gpu-*.json")]
    for visit in sorted(visits, key=lambda one: str(one.get("time", "")), reverse=True):
        steps = (step for step in visit.get("steps", ()) if step["name"].startswith("tests"))
        if rows := [row for step in steps for row in step["rows"]]:
            return [row["name"] for row in rows if row["verdict"] in ("wrong", "failed")]
    return []


def _run(scale: "Scale", rows: Rows, wanted: Sequence[str]) -> None:
    """Run tests in a process; if it crashes, start another one that continues after the test that crashed."""
    command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-m", "needs_cuda"]
    command += ["-p", "bench.gpu.cuda_tests", "--tb=short", "--continue-on-collection-errors"]
    # JAX would allocate most of the memory. In a rehearsal without a GPU all tests are skipped.
    environment = os.environ | {_ROWS: str(rows.path), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if scale.on_gpu:
        environment["FAIL_WITHOUT_CUDA"] = "1"
    else:
        wanted = wanted[:1]
    count = -1
    while count < len(list(rows)) and (count < 0 or rows.is_cut_off):
        count = len(list(rows))
        done = subprocess.run([*command, *wanted], cwd=_REPOSITORY, env=environment, check=False)
        rows.reload()
    if done.returncode not in (0, 1, 5):  # 1: tests failed, 5: no tests were left
        with rows.check("pytest"):
            raise RuntimeError(f"it ended with {done.returncode} before any test")


def pytest_configure(config: pytest.Config) -> None:
    """Make pytest write the rows of the step, after the rows of earlier processes."""
    config.pluginmanager.register(_Reporter(Rows(Path(os.environ[_ROWS]), resume=True)))


class _Reporter:
    """A pytest plugin that writes a row for each test."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._row, self._failure = Row(""), ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out tests that an earlier process has started."""
        begun = {row.name for row in self._rows}
        items[:] = [item for item in items if item.nodeid not in begun]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Write the row of a test, and raise in the test if it takes too long."""
        signal.signal(signal.SIGALRM, _raise_timeout)
        signal.alarm(_TEST_SECONDS_MAX)
        self._failure = ""
        try:
            with self._rows.check(item.nodeid) as self._row:
                result = yield
                assert not self._failure, self._failure[-300:]
        finally:
            signal.alarm(0)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of a test's call, or of its setup or teardown if that did not pass."""
        if report.when == "call" or report.outcome != "passed":
            self._row.value = None if report.outcome == "skipped" else 1
            if text := report.longreprtext:
                self._row.facts["text"] = text[-1500:]
            if report.failed:
                self._failure = text

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report a file that cannot be imported as a failed test."""
        if report.failed:
            with self._rows.check(report.nodeid):
                raise AssertionError(report.longreprtext[-300:])


def _raise_timeout(*_: object) -> None:
    raise TimeoutError(f"the test took over {_TEST_SECONDS_MAX} s")
