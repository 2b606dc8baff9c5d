"""Tuning a real loader: what comes out can be used, and what cannot work is refused."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from bench.output.errors import BenchError
from bench.tune.tune import tune
from dali_pipes import Loader
from gpu_aug import Recipe
from readers import open_dataset
from tests.support.commands import Run

RECIPE = Recipe.imagenet_train(size=32)


def open_photos(photos: list[Path]) -> Any:
    """Some of the photographs, small ones first."""
    return open_dataset(sorted(photos, key=lambda path: path.stat().st_size)[:6])


def test_settings_go_through_yaml_into_a_loader(photos: list[Path], tmp_path: Path) -> None:
    """What `tune` returns, written as YAML and read back, makes a loader with those settings; so does its Python."""
    dataset = open_photos(photos)
    told: list[float] = []
    audit = str(tmp_path / "audit.jsonl")

    found = tune(
        dataset,
        RECIPE,
        batch_size=2,
        seconds=1,
        dtype=torch.bfloat16,
        num_threads=1,
        seed=3,
        audit=audit,
        on_progress=lambda _, done: told.append(done),
    )

    settings = yaml.safe_load(found.as_yaml())
    assert settings == dict(found.settings)
    assert settings.pop("audit") == audit
    assert not Path(audit).exists()
    assert (settings["batch_size"], settings["num_threads"], settings["seed"]) == (2, 1, 3)
    assert "dtype" not in settings
    assert "dtype=torch.bfloat16" in found.as_python()
    with Loader(dataset, RECIPE, **settings) as loader:
        assert len(next(iter(loader))) == 2
    assert "num_threads" not in found.changes
    names: dict[str, Any] = {"Loader": Loader, "dataset": dataset, "recipe": RECIPE, "torch": torch}
    exec(found.as_python(), names)
    with names["loader"] as loader:
        assert len(loader) == 3
    assert min(told) >= 0
    assert max(told) <= 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"seconds": 0}, "seconds must be 1 or more, got 0"),
        ({"seconds": float("nan")}, "seconds must be 1 or more, got nan"),
        ({"step_ms": 0}, "step_ms must be greater than 0, got 0"),
        ({"images_per_second": -5}, "images_per_second must be greater than 0, got -5"),
        ({"step_ms": 10, "images_per_second": 5}, "leave one of them out"),
        ({"batch_size": 0}, "batch_size"),
        ({"prefetch": 0}, "prefetch=0"),
        ({"num_thread": 1}, "num_threads"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    arguments: dict[str, Any], expected: str, photos: list[Path]
) -> None:
    """Before anything is measured."""
    with pytest.raises((BenchError, ValueError, TypeError), match=expected):
        tune(open_photos(photos), RECIPE, **{"batch_size": 2, **arguments})


def test_a_stream_is_refused() -> None:
    """With what to do instead."""
    with pytest.raises(BenchError, match="gpu-aug pack"):
        tune(object(), RECIPE, batch_size=2)  # type: ignore[arg-type]


def test_the_command_prints_and_writes(data: Path, tmp_path: Path, run: Run) -> None:
    """What limits, what was tried and the settings are printed; the JSON has all of it."""
    recipe = tmp_path / "recipe.yaml"
    RECIPE.save(recipe)
    written = tmp_path / "result.json"

    code, out, err = run(
        *("tune", data, "--recipe", recipe, "--batch-size", 4, "--threads", 1),
        *("--step-ms", 200, "--seconds", 1, "--json", written),
    )

    assert code == 0, err
    for words in ("What limits", "What was tried", "the defaults", "loader = Loader(", "as YAML"):
        assert words in out
    assert "the training step needs 20" in out
    result = json.loads(written.read_text())
    assert result["command"] == "tune"
    assert result["settings"]["step_ms"] == 200
    tuning = result["tuning"]
    assert tuning["bottleneck"].split()[0] in out
    assert tuning["settings"] == yaml.safe_load(io.StringIO(tuning["yaml"]))
    assert tuning["ceilings"]["facts"]["num_samples"] == 10
    assert tuning["stats"]["steps"] >= 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["missing"], "missing does not exist"),
        (["data", "--step-ms", "0"], "step_ms must be greater than 0"),
        (["data", "--images-per-second", "nan"], "images_per_second must be greater than 0"),
        (["data", "--seconds", "0.5"], "seconds must be 1 or more"),
        (["data", "--threads", "0"], "num_threads"),
        (["data", "--prefetch", "-1"], "prefetch"),
        (["data", "--recipe", "imagenet"], "imagenet_train"),
        (["data", "--engine", "opencv"], "kornia"),
        (["data", "--decoder", "gpu"], "dali"),
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
