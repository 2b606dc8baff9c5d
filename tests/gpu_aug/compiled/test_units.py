"""Functions that are compiled as units of their own, at their first call from compiled code."""

import logging
import time
from typing import Any

import numba
import pytest

from gpu_aug.compiled.clock import clock
from gpu_aug.compiled.jit import kernel, separate
from gpu_aug.compiled.units import calling_units

_DEFERRED = -7


def _double(number: int) -> int:
    return 2 * number


def _triple(number: int) -> int:
    return 3 * number


def _broken(number: int) -> int:
    return number.nothing  # type: ignore[attr-defined, no-any-return]


double, triple = separate(_double), separate(_triple, deferred=_DEFERRED)
broken = separate(_broken)


@kernel
def double_of(number: int) -> int:
    """Call a unit."""
    return int(double(number))


@kernel
def triple_of(number: int) -> int:
    """Call a unit that can be deferred."""
    return int(triple(number))


@kernel
def call_broken(number: int) -> int:
    """Call a unit that cannot be compiled."""
    return int(broken(number))


def test_the_first_call_compiles() -> None:
    """A kernel that calls a unit is compiled without it; the unit's cell has the address of its code after a call."""
    double_of.compile((numba.int64,))  # type: ignore[attr-defined]
    assert double.unit._cell.value == double.unit._callback_address
    assert double_of(4) == 8
    assert double.unit._cell.value == double.unit._code.address
    assert double_of(-5) == -10


def test_deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call returns at once while another process compiles the unit, and else waits for the code."""
    is_elsewhere = [True, False]
    monkeypatch.setattr(triple.unit, "is_stored", lambda: False)
    with calling_units(lambda: is_elsewhere.pop(0)):
        assert triple_of(4) == _DEFERRED
        assert triple_of(4) == 12
        assert triple_of(5) == 15
    assert is_elsewhere == []


@pytest.mark.parametrize("error", [numba.TypingError, KeyboardInterrupt])
def test_a_unit_that_cannot_be_compiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Any
) -> None:
    """The call of the kernel raises why; the next one tries again."""

    def interrupt() -> None:
        raise error

    if error is KeyboardInterrupt:
        monkeypatch.setattr(broken.unit, "compile", interrupt)
    caplog.set_level(logging.ERROR, "gpu_aug")
    for _ in range(2):
        with pytest.raises(error), calling_units():
            assert call_broken(1) == -1
    assert "_broken cannot be compiled" in caplog.text
    with calling_units():
        assert double_of(4) == 8
    began = clock()
    time.sleep(0.01)
    assert clock() > began  # it stops while functions are compiled
