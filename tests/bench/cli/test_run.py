"""gpu-aug run: what it shows, what it logs, and its one sentence on what limits."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from bench.cli.run_live import RunView, bad_in_words, batches_of, stage_shares, waiting_in_words
from bench.cli.run_show import verdict
from bench.output.run_log import Coverage
from dali_pipes import Loader
from dali_pipes.monitoring import STAGES
from gpu_aug import RandomResizedCrop, Recipe
from readers import mix, open_dataset
from tests.support import run_logs
from tests.support.commands import Run


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def loader(data: Path) -> Loader:
    return Loader(open_dataset(data), Recipe([RandomResizedCrop(16)]), batch_size=2, device="cpu")


class TestSummary:
    def test_nothing_trains(self, run: Run, data: Path) -> None:
        """It does not blame a training loop that is none, and names a stage."""
        code, printed, _ = run("run", data, "--batch-size", 2, "--epochs", 2)
        assert code == 0
        sentence = next(line for line in printed.splitlines() if line.startswith("nothing trained"))
        assert "the loader alone makes" in sentence
        assert any(f"and {stage.replace('_', '-')} limits it" in sentence for stage in STAGES)
        assert "waited" not in printed

    def test_a_step_that_is_played(self, run: Run, data: Path) -> None:
        """A step that is much slower than the loader is the limit; it takes its time."""
        began = time.monotonic()
        code, printed, _ = run("run", data, "--batch-size", 2, "--step-ms", 60)
        assert code == 0
        assert time.monotonic() - began > 5 * 0.06
        assert "with a training step of 60 ms, played by sleeping, the training loop" in printed
        assert "nothing trained" not in printed

    def test_one_batch(self, run: Run, data: Path) -> None:
        """It is too few for a rate, and the sentences say so."""
        assert "nothing trained, and " in run("run", data)[1]
        for epochs in (1, 3):
            printed = run("run", data, "--step-ms", 1, "--epochs", epochs)[1]
            assert "one batch per epoch is too few" in printed

    @pytest.mark.parametrize("value", ["0", "nan", "4000000"])
    def test_steps_of_no_time(self, run: Run, data: Path, value: str) -> None:
        """They are refused."""
        code, _, error = run("run", data, f"--step-ms={value}")
        assert code == 2
        assert "step_ms must be greater than 0 and at most 3,600,000, got" in error

    @pytest.mark.parametrize(
        ("first", "second"),
        [("log", "trace"), ("trace", "json"), ("json", "ledger")],
    )
    def test_one_file_for_two_things(
        self, run: Run, data: Path, tmp_path: Path, first: str, second: str
    ) -> None:
        """It is refused before the run, in whatever way the paths are written."""
        path = tmp_path / "one.json"
        other = tmp_path / ".." / tmp_path.name / "one.json"
        code, _, error = run("run", data, f"--{first}", path, f"--{second}", other)
        assert code == 2
        assert f"--{first} and --{second} would both be written to" in error
        assert not path.exists()


class TestLog:
    def test_lines(self, run: Run, data: Path, tmp_path: Path) -> None:
        """What was run, how it went, every bad sample, and at the end each epoch and the coverage."""
        (data / "cats" / "torn.jpg").write_bytes(b"")
        path = tmp_path / "run.jsonl"
        arguments = ["--batch-size", 3, "--epochs", 2, "--on-bad-sample", "skip", "--log", path]
        code, printed, _ = run("run", data, *arguments)
        assert code == 0
        assert f"written: {path}" in printed
        first, *middle, last = lines_of(path)
        assert (first["kind"], first["data"], first["recipe"]) == (
            "run",
            str(data),
            "imagenet_train",
        )
        assert first["settings"]["batch_size"] == 3
        assert first["explain"].startswith("device ")
        assert {"versions", "machine", "commit"} <= set(first)
        assert {line["kind"] for line in middle} == {"stats", "bad_sample"}
        bad = [line for line in middle if line["kind"] == "bad_sample"]
        assert [line["key"] for line in bad] == ["cats/torn.jpg"] * len(bad)
        stats = [line for line in middle if line["kind"] == "stats"][-1]
        assert stats["steps"] == 6
        assert stats["samples"] == sum(one["samples"] for one in last["stats"].values())
        assert set(stats["stages"]) == set(STAGES)
        assert (last["kind"], sorted(last["stats"]), last["stopped"]) == ("end", ["0", "1"], None)
        coverage = last["coverage"]
        assert (coverage["epoch"], coverage["of"], coverage["repeated"]) == (1, 11, 0)
        assert coverage["samples"] == last["stats"]["1"]["samples"]

    def test_an_error_ends_it_with_its_name(self, run: Run, data: Path, tmp_path: Path) -> None:
        """The last line says what stopped the run."""
        (data / "cats" / "torn.jpg").write_bytes(b"")
        path = tmp_path / "run.jsonl"
        assert (
            run("run", data, "--batch-size", 2, "--recipe", "imagenet_eval", "--log", path)[0] == 2
        )
        lines = lines_of(path)
        assert lines[-1]["kind"] == "end"
        assert lines[-1]["stopped"] == "BadSampleError"
        assert "bad_sample" in {line["kind"] for line in lines}

    @pytest.mark.long
    def test_killed_runs_leave_whole_lines(self, data: Path, tmp_path: Path) -> None:
        """Whenever it happens."""
        path = tmp_path / "run.jsonl"
        command = [sys.executable, "-m", "bench", "run", str(data), "--batch-size", "2"]
        command += ["--steps", "100000", "--step-ms", "20", "--log", str(path)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(os.environ))
        while not path.exists() or path.read_bytes().count(b"\n") < 4:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert path.read_bytes().endswith(b"\n")
        assert [line["kind"] for line in lines_of(path)][:2] == ["run", "stats"]

    def test_coverage_counts_repeats(self, jpeg: Callable[..., bytes], tmp_path: Path) -> None:
        """A mixture by weights has some samples twice and others not at all; rows that fill up are no repeats."""
        for name, number in (("a", 2), ("b", 8)):
            (tmp_path / name).mkdir()
            for one in range(number):
                (tmp_path / name / f"{one}.jpg").write_bytes(jpeg(20, 20, seed=one))
        mixture = mix([open_dataset(tmp_path / name) for name in ("a", "b")], weights=[0.5, 0.5])
        loader = Loader(
            mixture, Recipe([RandomResizedCrop(8)]), batch_size=4, last_batch="pad", device="cpu"
        )
        coverage, rows = Coverage(len(mixture)), []
        for batch in loader:
            coverage.count(0, batch)
            rows += batch.indices[batch.valid].tolist()
        different = len(np.unique(rows))
        assert different < len(rows)
        assert coverage.to_dict() == {
            "epoch": 0, "samples": different, "of": 10, "repeated": len(rows) - different
        }  # fmt: skip


def test_trace(run: Run, data: Path, tmp_path: Path) -> None:
    """It has the stages of every step."""
    path = tmp_path / "trace.json"
    code, printed, _ = run("run", data, "--batch-size", 2, "--trace", path)
    assert code == 0
    assert f"written: {path}" in printed
    events = json.loads(path.read_text())["traceEvents"]
    steps = {one["args"].get("step") for one in events if one["name"] == "decode"}
    assert {0, 1, 2, 3, 4} <= steps


@pytest.mark.parametrize(
    "command",
    ["run --json", "run --trace", "run --log", "run --ledger", "inspect --json", "report --out"],
)
def test_folders_of_results_are_made(run: Run, data: Path, tmp_path: Path, command: str) -> None:
    """Parents included; a ledger is written where a sample is bad."""
    name, option = command.split()
    path = tmp_path / "new" / "and deeper" / ("page.html" if name == "report" else "result.json")
    code, _, error = run(name, data, option, path)
    assert (code, path.parent.is_dir(), path.is_file()) == (0, True, option != "--ledger"), error


@pytest.mark.parametrize("batches", [0, 3])
def test_interrupted_runs_show_what_was_measured(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    """Ctrl-C ends a run with its summary and its results, and with the exit code of shells."""

    def stopped(*given: Any, **options: Any) -> Any:
        for number, batch in enumerate(batches_of(*given, **options)):
            if number == batches:
                raise KeyboardInterrupt
            yield batch

    monkeypatch.setattr("bench.cli.run_show.batches_of", stopped)
    log, result = tmp_path / "log.jsonl", tmp_path / "result.json"
    code, printed, error = run(
        "run", data, "--batch-size", 2, "--epochs", 9, "--log", log, "--json", result
    )
    assert code == 130
    assert " images/s; work: " in printed
    assert error.endswith("interrupted: the numbers are of what was run until then\n")
    assert "Traceback" not in printed + error
    assert lines_of(log)[-1]["stopped"] == "KeyboardInterrupt"
    assert json.loads(result.read_text())["rows"][0]["steps"] >= batches


class TestView:
    @pytest.mark.parametrize(("width", "step_ms"), [(60, None), (160, 5.0)])
    def test_rows(self, loader: Loader, width: int, step_ms: float | None) -> None:
        """They fit the terminal before the first batch and later, and say whether anything trains."""
        console = Console(width=width, force_terminal=True, record=True, file=io.StringIO())
        view = RunView(loader, console, total=5, unit="images", step_ms=step_ms)
        console.print(view.render())
        assert "no batch yet" in console.export_text()
        for _ in batches_of(loader, epochs=1, steps=None):
            view.update()
        console.print(view.render())
        text = console.export_text()
        assert max(map(len, text.splitlines())) <= width
        text = " ".join(text.split())
        assert "5 of 5 batches" in text
        assert "images/s now" in text
        assert ("nothing trains" in text) == (step_ms is None)
        assert ("waiting" in text) == (step_ms is not None)

    def test_lines_where_there_is_no_terminal(
        self, loader: Loader, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """One every ten seconds, no bars."""
        now = [100.0]
        monkeypatch.setattr("bench.cli.run_live.clock", lambda: now[0])
        view = RunView(loader, Console(width=200), total=5, unit="images", step_ms=None)
        for _ in loader:
            now[0] += 6
            view.update()
        lines = capsys.readouterr().out.splitlines()
        assert [line.partition(";")[0] for line in lines] == [
            "epoch 0: 2 of 5 batches", "epoch 0: 4 of 5 batches"
        ]  # fmt: skip

    def test_bad_samples_count_once(self, data: Path) -> None:
        """Though every epoch meets them."""
        (data / "cats" / "torn.jpg").write_bytes(b"")
        recipe = Recipe([RandomResizedCrop(16)])
        how = {"batch_size": 11, "device": "cpu", "on_bad_sample": "skip"}
        loader = Loader(open_dataset(data), recipe, **how)  # type: ignore[arg-type]
        for _ in batches_of(loader, epochs=3, steps=None):
            pass
        assert bad_in_words(loader) == "1 sample, met 3 times"

    def test_shares_add_up(self, loader: Loader) -> None:
        """Stages and idle threads are all of the threads' time, also where helpers had more of it."""
        list(loader)
        stats = loader.stats("run")
        for seconds in (100.0, 1e-6):
            shares = stage_shares(seconds, stats)
            left_out = [
                stage.busy_seconds for name, stage in stats.stages.items() if name not in shares
            ]
            available = max(
                seconds * stats.num_threads, sum(one.busy_seconds for one in stats.stages.values())
            )
            assert sum(shares.values()) + sum(left_out) / available == pytest.approx(1)
        assert shares["idle"] == 0
        assert waiting_in_words(stats).endswith("%") or "of the time" in waiting_in_words(stats)
        assert verdict(stats, "images", None).startswith("nothing trained; the loader alone makes ")

    def test_threads_with_nothing_to_do(self) -> None:
        """They are named as in the statistics' own sentence."""
        stats = run_logs.stats_at(10)
        assert waiting_in_words(stats).endswith("owed to decode 83%, idle threads 17%")
        assert "while threads worked on: decode 83%, idle threads 17%; they had" in stats.verdict
