"""The one timer, with a clock that only the contestants move."""

import json
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import torch

import gpu_aug.compiled.clock
from bench.timing import Measurement, Turn, measure_in_turns, one_thread, ratio, take_turn, turns
from bench.timing.usage import cpu_seconds


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def passing(self, seconds: float, result: object = "four") -> Callable[..., object]:
        """Return a function that takes so long."""

        def work(*_: object) -> object:
            self.now += seconds
            return result

        return work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(turns, "clock", made)
    return made


def of(*rates: float) -> Measurement:
    return Measurement(tuple(Turn(int(rate), 1.0, 0.5) for rate in rates))


def test_everybody_has_one_turn_per_round_and_the_order_rotates() -> None:
    order: list[str] = []
    contestants = {name: lambda _s, name=name: order.append(name) or Turn(1, 1.0) for name in "abc"}

    measured = measure_in_turns(contestants, seconds=1, rounds=3, warm_up=0.1)

    assert order == [*"abc", *"abc", *"bca", *"cab"]
    assert {name: len(own.turns) for name, own in measured.items()} == dict.fromkeys("abc", 3)


def test_a_turn_counts_items_waiting_and_the_work_of_the_device(clock: Clock) -> None:
    turn = take_turn(
        clock.passing(2.0),
        seconds=5.0,
        discard=3,
        work=clock.passing(1.0),
        finish=clock.passing(10.0),
    )

    # Two batches of four, each 2 s of waiting and 1 s of work, and 10 s until the device has ended.
    assert (turn.items, turn.seconds, turn.wait_seconds) == (8, 16.0, 4.0)
    assert turn.rate == 0.5


def test_a_turn_ends_with_its_number_of_items(clock: Clock) -> None:
    assert take_turn(clock.passing(1.0), seconds=60, items_max=9).items == 12


def test_calls_can_be_counted(clock: Clock) -> None:
    assert take_turn(clock.passing(0.5, None), seconds=2, count=lambda _: 1).rate == 2.0


def test_a_ratio_is_formed_within_rounds() -> None:
    """The machine is four times slower in the second round, for both."""
    mine, theirs = of(200, 50, 200), of(100, 25, 50)

    assert ratio(mine, theirs).runs == (2.0, 2.0, 4.0)
    assert ratio(mine, theirs).median == 2.0


def test_whoever_fails_drops_out_and_the_others_go_on() -> None:
    def fail(_seconds: float) -> Turn:
        raise ZeroDivisionError

    failed: list[str] = []
    contestants = {"a": fail, "b": lambda _seconds: Turn(3, 1.0)}

    measured = measure_in_turns(
        contestants, seconds=1, rounds=2, on_failure=lambda name, _: failed.append(name)
    )

    assert failed == ["a"]
    assert list(measured) == ["b"]
    with pytest.raises(ZeroDivisionError):
        measure_in_turns(contestants, seconds=1, rounds=2)


def test_the_json_of_a_measurement() -> None:
    document = of(10, 30, 20).to_dict(scale=2)

    assert (document["median"], document["min"], document["max"]) == (40, 20, 60)
    assert document["runs"] == [20, 60, 40]
    assert document["cpu_ms_per_item"] == 25.0
    assert json.loads(json.dumps(Measurement((Turn(1, 1.0),)).to_dict()))["cpu_ms_per_item"] is None


@pytest.mark.parametrize("where", ["here", "in a child", "in a child that has ended"])
def test_cpu_time_includes_children(where: str) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\nimport sys; sys.stdin.read()"
    before = cpu_seconds()
    if where == "here":
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        after = cpu_seconds()
    else:
        pipe = subprocess.PIPE
        with subprocess.Popen([sys.executable, "-c", busy], stdin=pipe, stdout=pipe) as child:
            assert child.stdout is not None
            child.stdout.readline()
            after = cpu_seconds()
        if where != "in a child":
            after = cpu_seconds()
    assert 0.25 < after - before < 2


def test_looking_at_the_cpu_time_takes_none() -> None:
    before, began = cpu_seconds(), time.process_time()
    for _ in range(100):
        cpu_seconds()

    assert cpu_seconds() - before < 0.3 * (time.process_time() - began)


def test_processes_of_other_libraries_need_not_load_torch() -> None:
    """Our own functions are compiled only where they are loaded, and only there time is left out."""
    code = "import sys, bench.timing as t; t.take_turn(list, seconds=0, count=lambda _: 1); assert 'torch' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)


def test_time_spent_compiling_is_left_out() -> None:
    before = turns.clock()
    gpu_aug.compiled.clock.clock.leave_out(100.0)
    try:
        assert turns.clock() - before < -50
    finally:
        gpu_aug.compiled.clock.clock.leave_out(-100.0)


def test_one_thread_is_given_back() -> None:
    """Torch has one thread inside and what it had before afterwards."""
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1

    assert torch.get_num_threads() == before
