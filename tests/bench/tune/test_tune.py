"""Tuning real loaders: what comes out can be used, and what cannot work is refused."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from bench.cli.options import TuneOptions
from bench.output.errors import BenchError
from bench.tune import Tuning, tune
from bench.tune.command import _command, conclusion, show_tuning
from bench.tune.limits import LOADING, Limit, Stages
from bench.tune.result import Tuning as Result
from bench.tune.search import Found, Tried
from bench.tune.trial import Trial
from dali_pipes import BadSampleError, Execution, Loader, Monitoring
from gpu_aug import Recipe
from readers import open_dataset
from tests.bench.tune.test_limits import rates
from tests.support.commands import Run

RECIPE = Recipe.imagenet_train(size=32)


def test_what_is_chosen_makes_a_loader(data: Path, tmp_path: Path) -> None:
    """What the user gave stays, nothing is written into the files of the run, and the line of Python works."""
    audit, shares = tmp_path / "audit.jsonl", list[float]()

    found = tune(
        open_dataset(data),
        RECIPE,
        batch_size=2,
        seconds=2,
        dtype=torch.bfloat16,
        num_threads=1,
        monitoring=Monitoring(audit=str(audit)),
        on_progress=lambda _, share: shares.append(share),
    )

    assert found.chosen["num_threads"] == 1
    assert not audit.exists()
    assert 0 <= min(shares) <= max(shares) <= 1
    names: dict[str, Any] = {
        "Loader": Loader,
        "Execution": Execution,
        "Monitoring": Monitoring,
        "dataset": open_dataset(data),
        "recipe": RECIPE,
        "torch": torch,
    }
    exec(found.as_python(), names)
    with names["loader"] as loader:
        assert next(iter(loader)).images.dtype == torch.bfloat16
    json.dumps(found.to_dict())


@pytest.mark.long
def test_a_step_that_does_not_wait_needs_no_search(data: Path) -> None:
    """Nothing is tried, and nothing is advised."""
    found = tune(open_dataset(data), RECIPE, batch_size=2, seconds=1, images_per_second=2)

    assert found.limit.stage == "training step"
    assert not found.found.tried
    assert not found.help
    assert found.step_rate == 2
    assert found.base.wait_share < 0.05


def test_ctrl_c_returns_what_was_found(data: Path) -> None:
    """An interrupt during the search ends it."""

    def interrupt(text: str, _share: float) -> None:
        if "num_threads=" in text:
            raise KeyboardInterrupt

    found = tune(open_dataset(data), RECIPE, batch_size=2, seconds=1, on_progress=interrupt)

    assert found.is_interrupted
    assert found.changes == {}
    assert "Interrupted" in next(iter(conclusion(found)))


def test_a_bad_sample_is_raised(data: Path) -> None:
    """As the loader raises it."""
    for path in (data / "cats").iterdir():
        path.write_bytes(b"no image")

    with pytest.raises(BadSampleError):
        tune(open_dataset(data), RECIPE, batch_size=2, seconds=1)


def made_by_hand(found: Found, **more: Any) -> Tuning:
    """Return a result with a base of 100 images/s."""
    settings: dict[str, Any] = {"batch_size": 8}
    return Result(settings, "images", None, limited_by("decode"), found, rates(100, 100), **more)


def limited_by(stage: str) -> Stages:
    """Return the stages of a loader of 100 images/s."""
    return Stages({LOADING: rates(100, 100)}, {}, 0.0, Limit(stage, 0.9, {stage: 1.0}, 1.0))


KEPT = Tried({"num_threads": 4}, rates(100, 100, 100), rates(150, 150, 150), is_kept=True)
CACHED = Tried({"num_threads": 4}, rates(900, 900, 900), rates(901, 901, 901), is_kept=False)
GONE = Tried({"num_threads": 4}, rates(100, 100, 100), rates(99, 99, 99), is_kept=False)


@pytest.mark.parametrize(
    ("tuning", "expected"),
    [
        (made_by_hand(Found()), "Nothing that was tried helps"),
        (
            made_by_hand(Found({"num_threads": 4}, [KEPT], check=KEPT)),
            "num_threads=4 makes it 1.50 times (1.50 to 1.50 in 3 rounds) as fast: 100 images/s before, 150 after.",
        ),
        (
            made_by_hand(Found({"num_threads": 4}, [KEPT]), is_interrupted=True),
            "Interrupted before the end. num_threads=4 makes it 1.50 times (1.50 to 1.50 in 3 rounds) as fast, not yet",
        ),
        (
            made_by_hand(Found({}, [KEPT], check=GONE)),
            "num_threads=4 seemed faster, but measured once more it was 0.99 times",
        ),
        (
            made_by_hand(Found({}, [KEPT], check=CACHED)),
            "The unchanged settings make 900 images/s by now, 100 at first",
        ),
    ],
)
def test_the_conclusion_in_words(tuning: Tuning, expected: str) -> None:
    """No gain is claimed that was not measured twice."""
    assert expected in " ".join(conclusion(tuning))


def test_what_limits_is_that_of_the_recommended_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The user's limit stands beside it; without a recommendation it is the only one."""
    tuning = made_by_hand(
        Found({"num_threads": 4}, [KEPT], check=KEPT), recommended=limited_by("read")
    )
    show_tuning(tuning, Console(width=96))
    printed = capsys.readouterr().out

    assert tuning.limit.stage == tuning.to_dict()["limit"]["stage"] == "read"
    assert tuning.to_dict()["limit_given"]["stage"] == "decode"
    assert made_by_hand(Found()).limit.stage == "decode"
    own, new = printed.index("Decoding limits"), printed.index("Reading limits")
    assert printed.index("with your settings") < own < printed.index("What was tried") < new
    assert printed.index("with the recommended settings") < new


def test_tuning_measures_what_limits_with_the_recommended_settings(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stages are measured again with a loader that has the changes, and the help follows from them."""
    monkeypatch.setattr("bench.tune.search.is_gain", lambda _: True)
    measured: list[dict[str, Any]] = []

    def measure(trial: Trial, *_: object) -> Stages:
        measured.append({"prefetch": trial.num_ahead - 1, "turns": len(trial.record)})
        return limited_by("copy" if len(measured) > 1 else "decode")

    monkeypatch.setattr(sys.modules["bench.tune.tune"], "measure_stages", measure)
    monkeypatch.setattr(
        sys.modules["bench.tune.tune"], "find_candidates", lambda _: [{"prefetch": 7}]
    )

    found = tune(
        open_dataset(data),
        RECIPE,
        batch_size=2,
        seconds=1,
        num_threads=1,
        execution=Execution(prefetch=2),
    )

    assert [one["prefetch"] for one in measured] == [2, 7]
    assert measured[1]["turns"] > 8
    assert (found.given.limit.stage, found.limit.stage) == ("decode", "copy")
    assert "torch.bfloat16" in " ".join(found.help)
    assert len(found.own.turns) > 8


@pytest.mark.parametrize(
    ("given", "how", "changes", "expected"),
    [
        (
            {"threads": None, "prefetch": None, "seed": 3},
            {},
            {"num_threads": 4, "helper_process": True},
            "gpu-aug run 'my photos' --recipe x.yaml --seed 3 --threads 4 --helper-process",
        ),
        (
            {},
            {"split": "train", "image": "photo"},
            {},
            "gpu-aug run 'my photos' --recipe x.yaml --split train --option 'image='\"'\"'photo'\"'\"''",
        ),
        ({}, {}, {"cache": "device"}, ""),
    ],
)
def test_the_command_to_copy(
    given: dict[str, Any], how: dict[str, Any], changes: dict[str, Any], expected: str
) -> None:
    """It has what the user gave and what was found; what has no option has no command."""
    options = {"recipe": "x.yaml", **vars(TuneOptions()), **given}

    found = _command("my photos", options, how, changes)

    assert found == expected
    assert shlex.split(found)[2:3] == (["my photos"] if expected else [])


def test_the_command_prints_and_writes(data: Path, tmp_path: Path, run: Run) -> None:
    """What limits, what was tried and the result are printed; the JSON has all of it."""
    recipe, written = tmp_path / "recipe.yaml", tmp_path / "result.json"
    RECIPE.save(recipe)

    code, out, err = run(
        *("tune", data, "--recipe", recipe, "--batch-size", 4, "--prefetch", 2),
        *("--step-ms", 1, "--seconds", 1, "--json", written),
    )

    assert code == 0, err
    for words in ("about 1 s", "What limits", "reading and decoding", "What was tried", "Result"):
        assert words in out
    assert "The training step takes 4,000 images/s at most" in out
    result = json.loads(written.read_text())
    assert (result["command"], result["settings"]["step_ms"]) == ("tune", 1)
    tuning = result["tuning"]
    assert {"median", "runs"} <= tuning["stages"]["reading"].keys()
    assert tuning["trials"] == result["rows"]
    assert "Execution(prefetch=2)" in tuning["python"]
    assert tuning["python"].startswith("loader = Loader(")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"seconds": 0}, "seconds must be 1 or more, got 0"),
        ({"step_ms": 0}, "step_ms must be greater than 0, got 0"),
        ({"images_per_second": float("nan")}, "images_per_second must be greater than 0, got nan"),
        ({"step_ms": 10, "images_per_second": 5}, "leave one of them out"),
        ({"batch_size": 0}, "batch_size"),
        ({"prefetch": 0}, r"prefetch moved: write execution=Execution\(prefetch=0\)"),
        ({"num_thread": 1}, "num_threads"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], expected: str, data: Path) -> None:
    """Before anything is measured, in one sentence."""
    with pytest.raises((BenchError, ValueError, TypeError), match=expected):
        tune(open_dataset(data), RECIPE, **{"batch_size": 2, **arguments})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["missing"], "missing does not exist"),
        (["data", "--step-ms", "0"], "step_ms must be greater than 0"),
        (["data", "--threads", "0"], "num_threads"),
        (["data", "--recipe", "imagenet"], "imagenet_train"),
        (["data", "--engine", "opencv"], "kornia"),
        (["data", "--dtype", "int8"], "dtype must be one of uint8"),
        (["data", "--format", "stream"], "read from front to back"),
        (["data", "--num-frames", "4"], "for videos"),
    ],
)
def test_bad_arguments_of_the_command(
    arguments: list[str], expected: str, run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line on standard error, and exit code 2."""
    monkeypatch.chdir(data.parent)

    code, _, err = run("tune", *arguments)

    assert code == 2
    assert expected in err
    assert "Traceback" not in err
