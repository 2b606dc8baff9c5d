"""The tests of a visit: outcomes by node id, crashes, and which come first."""

import json
from pathlib import Path

import pytest

from bench.gpu import cuda_tests
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale

_TESTS = """
import os, pytest
pytestmark = pytest.mark.needs_cuda
def test_good(): pass
def test_skipped(): pytest.skip("no reason")
def test_bad(): assert 0
def test_crash(): os.abort()
def test_exit(): os._exit(1)
def test_after(): pass
"""


def test_outcomes_are_written_by_node_id(
    scale: Scale, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure is wrong, a crash or an exit fails the test that did it, and those behind it run all the same."""
    (tmp_path / "test_all.py").write_text(_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = needs_cuda\n")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    cuda_tests._run(scale, rows, [str(tmp_path / "test_all.py")])

    found = {row.name.rpartition("::")[2]: row.verdict for row in rows}
    assert found == {
        "test_good": "right",
        "test_skipped": "open",
        "test_bad": "wrong",
        "test_crash": "failed",
        "test_exit": "failed",
        "test_after": "right",
    }
    assert [row.name for row in rows][-1].endswith("test_after")


def test_a_crash_before_any_test_is_a_failure(
    scale: Scale, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a file that crashes when it is imported would look like one without tests."""
    (tmp_path / "test_all.py").write_text("import os; os.abort()")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    cuda_tests._run(scale, rows, [str(tmp_path / "test_all.py")])

    assert [(row.name, row.verdict) for row in rows] == [("pytest", "failed")]


def test_failures_of_the_newest_visit_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are taken from the results that are kept; before any are, the files that failed on an H200 are."""
    monkeypatch.setattr(cuda_tests, "_RESULTS", tmp_path)
    assert cuda_tests.failed_in_results() == []
    for time, verdict in (("2026-11-26", "wrong"), ("2026-12-01", "failed")):
        rows = [{"name": f"tests/test_a.py::test_{time}", "verdict": verdict}, {"name": "tests/test_b.py::test_b", "verdict": "right"}]  # fmt: skip
        steps = [{"name": "tests", "rows": rows}, {"name": "damage", "rows": rows}]
        (tmp_path / f"gpu-{time}.json").write_text(json.dumps({"time": time, "steps": steps}))
    (tmp_path / "gpu-none.json").write_text(json.dumps({"rows": []}))

    assert cuda_tests.failed_in_results() == ["tests/test_a.py::test_2026-12-01"]


def test_the_files_that_failed_are_there() -> None:
    """A file that is renamed is renamed here, too."""
    assert all((cuda_tests._REPOSITORY / name).is_file() for name in cuda_tests.FAILED_ON_H200)
