"""The rate of a run, second by second."""

import pytest

from bench.cli.run_live import Tally


def test_speed_leaves_the_start_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch pays for the start and does not count in a run of seconds."""
    now = [5.0]
    monkeypatch.setattr("bench.cli.run_live.clock", lambda: now[0])
    tally = Tally(began=0.0)
    for _ in range(5):
        tally.add(8)
        now[0] += 0.5

    assert tally.rate.rates == (16.0, 16.0)


def test_speed_of_a_short_run_counts_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that were made beside the first one come at once, and are not told as thousands per second."""
    now = [4.0]
    monkeypatch.setattr("bench.cli.run_live.clock", lambda: now[0])
    tally = Tally(began=0.0)
    tally.add(8)
    assert tally.rate.rates == (2.0,)
    now[0] += 0.001
    tally.add(8)

    assert tally.rate.median == pytest.approx(4.0, rel=0.01)
