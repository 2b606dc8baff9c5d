"""A log is read whole, torn or damaged, and never takes much memory."""

import json
from pathlib import Path

import numpy as np
import pytest

from bench.output.errors import BenchError
from bench.report.log import MOST_INTERVALS, is_run_log, read_log
from tests.support import run_logs


def test_a_whole_log(tmp_path: Path) -> None:
    """Intervals are the differences of successive lines, and epochs begin where their number changes."""
    log = read_log(run_logs.write(tmp_path / "run.jsonl", run_logs.lines(25)))

    line = log.timeline()
    assert line.edges.tolist() == list(range(26))
    assert set(line.gained_per_second("samples")) == {10 * run_logs.PER_STEP}
    assert log.epochs == [(1.0, 0), (11.0, 1), (21.0, 2)]
    assert log.end is not None
    assert (log.is_torn, log.unreadable, log.num_bad) == (False, [], 0)


def test_damaged_lines(tmp_path: Path) -> None:
    """A line in the middle that is no object is named, and one of another kind is counted."""
    written = [json.dumps(line) for line in run_logs.lines(3)]
    written[2:3] = ['{"kind": "sta', "[1, 2]", '{"kind": "weather"}', ""]
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(written) + "\n")

    log = read_log(path)

    assert (log.unreadable, log.num_others, log.is_torn) == ([3, 4], 1, False)
    assert log.timeline().edges.tolist() == [0, 1, 3]


def test_numbers_that_are_none(tmp_path: Path) -> None:
    """Texts, infinities and missing numbers count as nothing, and time that goes back as no time."""
    told = [
        run_logs.start(),
        {"kind": "stats", "at": 1.0, "samples": "many", "queue": 3},
        {"kind": "stats", "at": 0.5, "samples": 10},
        {"kind": "stats", "at": 2.0, "samples": float("inf"), "epoch": float("nan")},
        {"kind": "stats", "at": 10**400, "samples": -(10**400)},
        {"kind": "stats", "at": 3.0, "samples": 30},
    ]
    line = read_log(run_logs.write(tmp_path / "run.jsonl", told)).timeline()

    assert line.edges.tolist() == [0, 1, 2, 3]
    assert line.gained_per_second("samples").tolist() == [0, 0, 30]


def test_a_long_run_becomes_few_intervals(tmp_path: Path) -> None:
    """What is put together keeps the sums and the extremes: a pause of a second in 3 hours is still seen."""
    told = [run_logs.start()]
    samples = 0
    for second in range(1, 10_001):
        samples += 0 if second == 7000 else 500 if second == 3000 else 100
        told.append({"kind": "stats", "at": second, "samples": samples})
    line = read_log(run_logs.write(tmp_path / "run.jsonl", told)).timeline()

    lengths = np.diff(line.edges)
    assert set(lengths[:-1]) == {32}
    assert (line.edges[0], line.edges[-1]) == (0, 10_000)
    assert len(lengths) <= MOST_INTERVALS
    assert (line.gained_per_second("samples") * lengths).sum() == pytest.approx(samples)
    assert (set(line.lowest), set(line.highest)) == ({0, 100}, {100, 500})


@pytest.mark.parametrize(
    "content", ["", "image,label\n", '{"image": "a.jpg"}\n', "\0\xff", '{"kind": "stats"}\n']
)
def test_what_is_no_log(tmp_path: Path, content: str) -> None:
    """Other files are told apart by how they begin, and refused in one sentence."""
    path = tmp_path / "some.jsonl"
    path.write_text(content)

    assert not is_run_log(str(path))
    with pytest.raises(BenchError, match="no whole log of a run"):
        read_log(path)


def test_a_log_is_known_by_its_beginning(tmp_path: Path) -> None:
    """Also where it was written without spaces; a folder, a pattern and a URL are none."""
    path = tmp_path / "a.log"
    path.write_text('{"kind":"run"}\n')

    assert is_run_log(str(path))
    assert not any(map(is_run_log, [str(tmp_path), "*.jsonl", "s3://bucket/run.jsonl", "no\0name"]))
