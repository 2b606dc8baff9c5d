"""The timer of functions, and the pictures and works that the benchmarks of operations are made of."""

import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.compare.contestant import Unable
from bench.micro import turns
from bench.micro.cases import Case, best_engine, compiled, on_arrays, on_tensor, ours
from bench.micro.pictures import load_pictures
from bench.micro.turns import take_turns
from bench.timing.limits import at_most, one_thread
from gpu_aug import HorizontalFlip, Normalize, Recipe

CPU = torch.device("cpu")


@pytest.fixture
def case() -> Case:
    """Two images of noise."""
    arrays = np.random.default_rng(0).integers(0, 256, (2, 24, 32, 3), np.uint8)
    return Case(arrays, CPU)


def test_turns_are_interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function has one turn before any has the next, and each round begins with another."""
    order: list[str] = []
    clock = iter(range(1000))
    monkeypatch.setattr(turns, "clock", lambda: float(next(clock)))
    works = {name: lambda name=name: order.append(name) for name in "abc"}

    take_turns(works, turns=3, seconds=0.5, finish=lambda: None)

    assert order == [*"abc", *"bca", *"cab"]


def test_turn_gives_seconds_per_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that takes two seconds by the clock is called until the turn is over."""
    now = [0.0]
    monkeypatch.setattr(turns, "clock", lambda: now[0])

    def work() -> None:
        now[0] += 2.0

    result = take_turns({"work": work}, turns=2, seconds=5.0, finish=lambda: None)

    assert result["work"].runs == (2.0, 2.0)
    assert result["work"].to_dict()["median"] == 2000.0


def test_turn_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a device computes after the call returned is part of the turn."""
    now = [0.0]
    monkeypatch.setattr(turns, "clock", lambda: now[0])

    def finish() -> None:
        now[0] += 10.0

    result = take_turns({"work": lambda: None}, turns=1, seconds=0.0, finish=finish)

    assert result["work"].runs == (10.0,)


def test_too_long_is_broken_off() -> None:
    """A long sleep is ended, a short one is left alone, and no alarm is left over."""
    with (
        pytest.raises(TimeoutError, match=r"sleeping takes more than 0\.05 s"),
        at_most(0.05, "sleeping"),
    ):
        time.sleep(10)
    with at_most(5, "sleeping"):
        time.sleep(0.001)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_one_thread_is_given_back() -> None:
    """Torch has one thread inside and what it had before afterwards."""
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1

    assert torch.get_num_threads() == before


def test_works_flip_alike(case: Case) -> None:
    """The same images reach torch, Albumentations and every engine of ours."""
    import albumentations

    expected = case.arrays[:, :, ::-1]
    recipe = Recipe([HorizontalFlip(p=1.0)])

    flipped = on_tensor(lambda images: images.flip(-1), case.planar)()
    assert isinstance(flipped, torch.Tensor)
    np.testing.assert_array_equal(flipped.permute(0, 2, 3, 1).numpy(), expected)
    np.testing.assert_array_equal(
        np.stack(on_arrays(albumentations.HorizontalFlip(p=1.0), case)()),  # type: ignore[call-overload]
        expected,
    )
    for engine in ("albumentations", "kornia"):
        ours_flipped = ours(recipe, case, engine)()
        assert isinstance(ours_flipped, torch.Tensor)
        np.testing.assert_array_equal(ours_flipped.permute(0, 2, 3, 1).numpy(), expected)


def test_every_call_of_ours_draws_anew(case: Case) -> None:
    """Ten calls do not all flip alike, unless they were drawn ahead."""
    recipe = Recipe([HorizontalFlip(p=0.5)])
    for drawn_ahead, fewest in ((False, 2), (True, 1)):
        work = ours(recipe, case, "albumentations", drawn_ahead=drawn_ahead)
        results = {bytes(np.asarray(work())) for _ in range(10)}
        assert (len(results) >= 2) == (fewest == 2)


def test_unknown_engine_is_unable(case: Case) -> None:
    """The engine's own sentence becomes the reason."""
    with pytest.raises(Unable, match="engine must be"):
        ours(Recipe([Normalize()]), case, "none")

    assert best_engine(Recipe([Normalize()]), CPU) in ("fused", "albumentations")


def test_arrays_stay_on_the_cpu() -> None:
    """Albumentations says that it has no GPU."""
    case = Case(np.zeros((1, 8, 8, 3), np.uint8), torch.device("meta"))

    with pytest.raises(Unable, match="CPU only"):
        on_arrays(lambda image: {"image": image}, case)


def test_failed_compilation_is_a_reason(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch.compile raises is told in a line."""

    def fail(_images: object) -> object:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(torch, "compile", lambda _module: fail)

    with pytest.raises(Unable, match="ZeroDivisionError: division by zero"):
        compiled(torch.nn.Identity(), case.floats, seconds_max=60)


def test_slow_compilation_is_a_reason(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that swallows the alarm and raises an error of its own has been too slow all the same."""

    def dawdle(_images: object) -> object:
        try:
            time.sleep(10)
        except TimeoutError as error:
            raise RuntimeError("backend failed") from error
        return None

    monkeypatch.setattr(torch, "compile", lambda _module: dawdle)

    with pytest.raises(Unable, match=r"takes more than 0\.05 s"):
        compiled(torch.nn.Identity(), case.floats, seconds_max=0.05)


def test_pictures_are_photographs_of_one_size(photos: list[Path]) -> None:
    """More pictures than photographs are asked for: every one is another window."""
    pictures = load_pictures(str(photos[0].parent), 30, 40)

    assert pictures.shape == (30, 40, 40, 3)
    assert pictures.dtype == np.uint8
    assert len({picture.tobytes() for picture in pictures}) == 30
    assert pictures.std() > 20
