"""Compiling beforehand, and what compiling does not count for."""

import io
import itertools
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.cli import main
from bench.timer import time_slice
from dali_pipes import Loader, warm
from dali_pipes.batch import Timings
from gpu_aug import ColorJitter, HorizontalFlip, Normalize, RandomAffine, RandomResizedCrop, Recipe
from gpu_aug import clock as clock_module
from gpu_aug.clock import clock
from readers import open_dataset


@pytest.mark.parametrize("plain", [True, False])
def test_warm_knows_the_types(photos: list[Path], tmp_path: Path, plain: bool) -> None:
    """A loader calls the functions with the types that they are compiled for beforehand, and with no others."""
    for path in photos[:2]:
        (tmp_path / path.name).symlink_to(path)
    last = [HorizontalFlip(p=1.0), Normalize()] if plain else [RandomAffine(degrees=9.0)]
    recipe = Recipe([RandomResizedCrop(32), *last])
    options = {"batch_size": 2, "device": "cpu", "decoder": "cpu", "engine": "fused"}
    with Loader(open_dataset(tmp_path), recipe, **options) as loader:
        assert len(list(loader)) == 1
    used = "run_plain" if plain else "run"
    for name in (f"gpu_aug.engines.fused.passes:{used}", "dali_pipes.rows:draw_rows"):
        module, _, function = name.partition(":")
        found = getattr(import_module(module), function)
        assert set(found.overloads) == {warm._types(warm.PARTS[name]())}, name
    names = {name.rpartition(":")[2] for name in warm.wanted([recipe])}
    assert used in names


@pytest.mark.parametrize("is_there", [False, True])
def test_compile_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    """A helper is told what a recipe needs behind the decoder, where that is not kept yet, and else not started."""
    told = (tmp_path / "told").open("wb")
    process = SimpleNamespace(stdin=told, stdout=None, kill=int, wait=int)
    started: list[int] = []
    monkeypatch.setattr(warm, "_helpers", [])
    monkeypatch.setattr(warm, "_start", lambda stdout: started.append(stdout) or process)
    monkeypatch.setattr("gpu_aug.kept.folder", lambda: None if is_there else tmp_path)
    if is_there:
        monkeypatch.setattr(warm, "_is_kept", lambda _name: True)
    warm.compile_ahead([Recipe([RandomResizedCrop(32), RandomAffine(degrees=9.0)])])
    told.close()
    names = (tmp_path / "told").read_text().split()
    expected = ["gpu_aug.engines.fused.passes:run", "gpu_aug.resize:resize_into"]
    assert (names, len(started)) == (([], 0) if is_there else (expected, 1))


def test_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that compiles answers each name with how many functions that took."""
    answers = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO("gpu_aug.resize:resize_into\n" * 2))
    monkeypatch.setattr(sys, "stdout", answers)
    warm.serve()
    lines = answers.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[1] == "0"


def test_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says where the code lies."""
    resize = "gpu_aug.resize:resize_into"
    monkeypatch.setattr(warm, "PARTS", {resize: warm.PARTS[resize]})
    with pytest.raises(SystemExit) as left:
        main(["warm", "--workers", "1"])
    assert left.value.code == 0
    assert "kept in" in capsys.readouterr().out


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time that goes on by a second whenever anybody looks."""
    seconds = itertools.count()
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(perf_counter=lambda: next(seconds)))


def _compile_for_a_while() -> list[int]:
    clock.stop()
    for _ in range(1000):
        clock_module.time.perf_counter()
    clock.go_on()
    return [0]


@pytest.mark.usefixtures("ticks")
def test_stages_do_not_count_it() -> None:
    """What a stage spends compiling is no part of its time."""
    timings = Timings()
    with timings.measure("decode"):
        _compile_for_a_while()
    assert timings.decode < 10


@pytest.mark.usefixtures("ticks")
def test_rates_do_not_count_it() -> None:
    """Nor is it of the time that images per second are counted in, or that a loop waited."""
    turn = time_slice(_compile_for_a_while, seconds=5, discard=0, finish=lambda: None)
    assert turn.seconds < 20
    assert turn.wait_seconds < 20


@pytest.mark.usefixtures("ticks")
def test_another_process_compiled() -> None:
    """Time in which a helper process compiled can be left out afterwards."""
    began = clock()
    for _ in range(1000):
        clock_module.time.perf_counter()
    clock.leave_out(1000)
    assert 0 <= clock() - began < 10


def test_no_stage_takes_less_than_no_time() -> None:
    """A thread that decodes while another leaves out time has no less to show for it."""
    timings = Timings(decode=1.0)
    with timings.measure("decode"):
        clock.leave_out(1000)
    assert timings.decode == 1.0


def test_plain_steps_exist() -> None:
    """The steps that need the smaller function alone are operations by these names."""
    import gpu_aug.ops

    assert set(vars(gpu_aug.ops)) >= warm._PLAIN_STEPS
    assert type(ColorJitter()).__name__ in warm._PLAIN_STEPS
