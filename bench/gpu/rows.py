"""Store the results of a step as rows with equal columns, written one by one, so that a crash loses only later rows."""

import json
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

Verdict = Literal["right", "wrong", "open", "failed", "measured"]

_INTERRUPTED = "the step ended while this was under way"
_ERROR_LENGTH = 400


@dataclass
class Row:
    """One check or measurement.

    Attributes:
        name: Name of the check or measurement, unique within the step.
        value: The largest difference of a check, or the median of a measurement's runs.
        unit: The unit of the value.
        verdict: "right" or "wrong" for a check, "open" if nothing was compared; "measured" for a measurement; "failed"
            after an error or a crash.
        facts: Further values by name, such as "allowed" and "control" of a check, "runs" of a measurement, "error", or
            "percent of NVDEC".
    """

    name: str
    value: float | None = None
    unit: str = ""
    verdict: Verdict = "failed"
    facts: dict[str, Any] = field(default_factory=dict)

    def judge(self, value: float, allowed: float, control: float, unit: str = "") -> None:
        """Require that a difference is within the allowed one, and that the check would notice a wrong result.

        Args:
            value: Difference between the result and the expected result.
            allowed: Largest allowed difference.
            control: Difference of a result that is known to be wrong.
            unit: Unit of all three.

        Raises:
            AssertionError: The difference is larger (or not a number), or the wrong result would pass.
        """
        self.value, self.unit = value, unit
        self.facts |= {"allowed": allowed, "control": control}
        assert value <= allowed, f"differs by {value:.4g}, {allowed:.4g} is allowed"
        assert control > allowed, (
            f"control: a wrong result differs by {control:.4g} and would pass, {allowed:.4g} is allowed"
        )

    def put_runs(self, runs: Sequence[float]) -> None:
        """Store the values of single runs; their median becomes the row's value."""
        self.value = round(median(runs), 4)
        self.facts["runs"] = [round(run, 4) for run in runs]


class Rows:
    """The rows of a step, in a JSON file that is always complete.

    Args:
        path: The file.
        resume: Whether to continue after the rows in the file instead of replacing it.

    Attributes:
        faults: Tracebacks of errors.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.faults: list[str] = []
        self.path = path
        self._rows = read_rows(path) if resume else []
        self._write()

    def check(self, name: str, **facts: Any) -> AbstractContextManager[Row]:
        """Write a row from a with block.

        The row is "right" if the block sets a value, "wrong" if it raises AssertionError, "failed" for other errors.
        """
        return self._row(Row(name, facts=facts), "right")

    def measure(self, name: str, unit: str = "images/s") -> AbstractContextManager[Row]:
        """Write a row of a measurement from a with block; an exception in the block makes the row "failed"."""
        return self._row(Row(name, unit=unit), "measured")

    def leave_out(self, name: str, reason: str) -> None:
        """Record why something is not measured; that is not an error."""
        self._rows.append(Row(name, verdict="open", facts={"reason": reason}))
        self._write()

    @property
    def is_cut_off(self) -> bool:
        """Whether the last row was unfinished when its process ended."""
        return bool(self._rows) and self._rows[-1].facts.get("error") == _INTERRUPTED

    def reload(self) -> None:
        """Read the rows that another process wrote into the file; of its errors, only the messages are restored."""
        self._rows = read_rows(self.path)
        bad = (row for row in self if row.verdict in ("wrong", "failed"))
        self.faults = [f"---- {row.name}\n{row.facts['error']}" for row in bad]

    @contextmanager
    def _row(self, row: Row, verdict: Verdict) -> Iterator[Row]:
        row.facts["error"] = _INTERRUPTED
        self._rows.append(row)
        self._write()
        began = time.perf_counter()
        try:
            yield row
        except Exception as error:  # noqa: BLE001 - a library may raise anything; the row says so
            is_wrong = verdict == "right" and isinstance(error, AssertionError)
            row.verdict = "wrong" if is_wrong else "failed"
            row.facts["error"] = f"{type(error).__name__}: {str(error)[:_ERROR_LENGTH]}"
            self.faults.append(f"---- {row.name}\n{''.join(traceback.format_exception(error))}")
        else:
            row.verdict = "open" if row.value is None else verdict
            del row.facts["error"]
        row.facts["seconds"] = round(time.perf_counter() - began, 1)
        self._write()

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def _write(self) -> None:
        part = self.path.with_suffix(".part")
        rows = [asdict(row) for row in self._rows]
        part.write_text(json.dumps({"rows": rows}, default=str), encoding="utf-8")
        part.replace(self.path)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a step's file; empty if it was never written."""
    if not path.exists():
        return []
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]


def headline(rows: Sequence[Row]) -> str:
    """Return a text with the counts of right and of measured rows, and the names of all other rows."""
    named: dict[str, list[str]] = {}
    for row in rows:
        named.setdefault(row.verdict, []).append(row.name)
    good = [f"{len(named[one])} {one}" for one in ("right", "measured") if one in named]
    bad = [f"{one}: {'; '.join(named[one])}" for one in ("wrong", "failed", "open") if one in named]
    return "; ".join(good + bad)
