"""How small benchmarks are measured, printed and written."""

from collections.abc import Callable

import pytest
from rich.console import Console

from bench.compare.contract import Unable
from bench.micro.rows import Row, RowResult, contestants_of, measure_row, show_rows
from bench.timing import Measurement, Turn


def printed(*results: RowResult) -> str:
    console = Console(width=96, record=True)
    show_rows("title", "meaning", results, console)
    return console.export_text()


def test_contestants_take_turns_and_whoever_cannot_is_absent() -> None:
    """The first call is not counted, nor what is prepared before it; speed is relative to the first that works."""

    def fail() -> None:
        raise ImportError("no such package\nin a second line")

    def refuse() -> None:
        raise Unable("needs a library")

    made: list[str] = []

    def make() -> Callable[[], object]:
        made.append("once")
        return list

    repeated = contestants_of(
        {"missing": lambda: fail, "unable": lambda: refuse, "counted": make}, 4
    )
    row = Row(
        "work",
        {
            "missing": repeated["missing"],
            "unable": repeated["unable"],
            "slow": lambda _seconds: Turn(10, 2.0, 1.0),
            "fast": lambda _seconds: Turn(30, 2.0, 1.0),
            "counted": repeated["counted"],
        },
        facts=lambda measured: {"sum": sum(own.turns[0].items for own in measured.values())},
    )

    result = measure_row(row, seconds=1e-6, rounds=3, progress=lambda _: None)

    assert result.absent == {
        "missing": "ImportError: no such package in a second line",
        "unable": "needs a library",
    }
    assert [len(own.turns) for own in result.measured.values()] == [3, 3, 3]
    assert result.measured["counted"].turns[0].items % 4 == 0
    assert made == ["once"]
    assert result.speeds["slow"] == 1.0
    assert result.speeds["fast"] == pytest.approx(3.0)
    assert result.facts["sum"] >= 44


def test_a_table_has_time_range_speed_and_cpu_time() -> None:
    turns = (Turn(1000, 2.0, 1.0), Turn(1000, 4.0, 1.0), Turn(1000, 3.0, 1.0))
    measured = {"slow": Measurement(turns), "fast": Measurement((Turn(10_000, 1.0, 2.0),) * 3)}

    lines = printed(RowResult("row", measured)).splitlines()

    # Per image, in the unit that suits the fastest: 3 ms and 0.1 ms are 3,000 and 100 microseconds.
    assert next(line.split() for line in lines if "slow" in line) == [
        *("slow", "3,000", "µs", "2,000-4,000", "1.00x", "1,000", "µs")
    ]
    assert next(line.split() for line in lines if "fast" in line) == [
        *("fast", "100", "µs", "100-100", "30.00x", "200", "µs")
    ]


def test_facts_and_reasons_stand_below_the_table_once() -> None:
    text = printed(
        RowResult("one", {}, {"kornia": "has none"}, {"switches": 1234.5}),
        RowResult("two", {}, {"kornia": "has none"}),
    )

    assert "one: switches: 1,234" in text
    assert text.count("one and others: kornia is absent: has none") == 1


def test_the_json_of_a_row() -> None:
    measured = {"a": Measurement((Turn(10, 1.0, 0.5),)), "b": Measurement((Turn(5, 1.0, 0.5),))}

    plain = RowResult("row", measured, {}, {"fact": 2.0}).to_dict()

    assert plain["facts"] == {"fact": 2.0}
    assert plain["measured"] == {
        "a": {**measured["a"].to_dict(), "speed": 1.0},
        "b": {**measured["b"].to_dict(), "speed": 0.5},
    }
