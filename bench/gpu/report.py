"""``python -m bench.gpu.report one/result-*.json --out docs/gpu.md``: write the results of a visit into a page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.gpu.rows import Row
from bench.gpu.run_steps import NOT_RUN
from bench.gpu.steps import STEPS
from bench.output import errors

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

BEGIN, END = "<!-- results of make gpu -->", "<!-- end of results -->"
"""The lines of a page between which the tables stand."""

_NEEDED = ("command", "time", "commit", "versions", "machine", "settings", "steps")
_LENGTH = 320  # of a cell: longer facts are in the JSON


@dataclass(frozen=True)
class Aim:
    """A number to be reached.

    Attributes:
        name: What it is about.
        row: The row whose value counts, as "step: row".
        bound: "at least" or "below".
        number: The number.
        per: The row whose value is 1; "" compares the value itself.
    """

    name: str
    row: str
    bound: str
    number: float
    per: str = ""

    def reached(self, values: Mapping[str, float]) -> float | None:
        """The value, or None where a row is missing."""
        value, unit = values.get(self.row), values.get(self.per, 1.0 if not self.per else 0.0)
        return None if value is None or not unit else value / unit

    def is_met(self, value: float) -> bool:
        """Whether a value is good enough."""
        return value >= self.number if self.bound == "at least" else value < self.number


AIMS = (
    Aim("Loader cuda+fused, images as given, images/s", "loaders: cuda+fused, threads auto, photographs, alone", "at least", 30_000),
    Aim("Loader cuda+fused, 500x375, images/s", "loaders: cuda+fused, 16 threads, 500x375, alone", "at least", 50_000),
    Aim("Loader dali+fused, share of DALI's own pipeline", "loaders-dali: dali+fused, threads auto, photographs, alone", "at least", 0.9, "dali-own: DALI's own pipeline, hw_decoder_load 0.65"),
    Aim("Loader cpu+fused, 16 threads, share of 2 threads", "loaders: cpu+fused, 16 threads, photographs, alone", "at least", 6, "loaders: cpu+fused, 2 threads, photographs, alone"),
    Aim("ResNet-50 behind cuda+fused, percent lost", "loaders: cuda+fused, threads auto, photographs, lost to waiting", "below", 1),
    Aim("ResNet-50 behind dali+fused, percent lost", "loaders-dali: dali+fused, threads auto, photographs, lost to waiting", "below", 1),
    Aim("Fused engine, jitter, host us per batch of 256", "engine: fused, imagenet_train_jitter: host", "below", 300),
)  # fmt: skip
"""In the order of the table."""


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="Files that `make gpu` wrote.")],
    out: Annotated[Path, typer.Option(help="The page.")],
) -> None:
    """Write tables of one visit's results into a page, losses first."""
    visits = [_read(path) for path in results]
    newest = max(visits, key=lambda visit: str(visit["time"]))
    steps = {step["name"]: step for visit in visits for step in visit["steps"]}
    before, after = _around(out)
    text = "\n".join([*_heading(newest), *_losses(steps), *_aims(steps), *_all(steps)]).strip()
    out.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
    typer.echo(f"written: {out}")


def _around(page: Path) -> tuple[str, str]:
    """The text of a page before and after its tables."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise errors.BenchError(
            f"{page} must have lines {BEGIN} and {END}, between which results stand: add them"
        )
    return before, after


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise errors.BenchError(
            f"{path} cannot be read: {error}: give what `make gpu` wrote"
        ) from error
    if missing := [name for name in _NEEDED if name not in content]:
        raise errors.BenchError(f"{path} is no result of `make gpu`: it lacks {', '.join(missing)}")
    if content["settings"].get("rehearse") or not content["machine"].get("gpu"):
        raise errors.BenchError(f"{path} was measured on a CPU: give results of a visit to a GPU")
    found: Mapping[str, Any] = content
    return found


def _heading(visit: Mapping[str, Any]) -> list[str]:
    told = (
        ", ".join(f"{name} {value}" for name, value in visit[key].items())
        for key in ("machine", "versions")
    )
    first = f"{visit['time'][:10]}, commit `{visit['commit']}`; {'; '.join(told)}."
    return [f"## {visit['machine']['gpu']}", "", first, ""]


def _losses(steps: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What is wrong, failed or was not run."""
    lost = [[f"`{name}`", step["end"], ""] for name, step in steps.items() if step["end"].startswith(NOT_RUN)]  # fmt: skip
    for name, step in steps.items():
        for row in step["rows"]:
            if row["verdict"] in ("wrong", "failed"):
                lost.append(
                    [f"`{name}`", row["name"], f"{row['verdict']}: {row['facts'].get('error', '')}"]
                )
    return ["### Losses", "", *table(("step", "row", "what"), lost or [["none", "", ""]])]


def _aims(steps: Mapping[str, Mapping[str, Any]]) -> list[str]:
    values = {
        f"{name}: {row['name']}": row["value"]
        for name, step in steps.items()
        for row in step["rows"]
        if row["value"] is not None and row["verdict"] in ("measured", "right")
    }
    rows = []
    for aim in AIMS:
        value = aim.reached(values)
        verdict = "not known" if value is None else "met" if aim.is_met(value) else "**missed**"
        rows.append([aim.name, f"{aim.bound} {number(aim.number)}", number(value), verdict])
    return ["### Aims", "", *table(("aim", "number", "reached:", "verdict"), rows)]


def _all(steps: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = []
    for name, step in steps.items():
        promise = STEPS[name].promise if name in STEPS else name
        lines += [f"### {promise} (`{name}`, {step['end']}, {step['seconds']:.0f} s)", ""]
        rows = [Row(**row) for row in step["rows"]]
        if name.startswith("tests"):  # hundreds of rows: the JSON has them by node id
            counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in ("right", "wrong", "failed", "open")}  # fmt: skip
            lines += [", ".join(f"{count} {verdict}" for verdict, count in counts.items()), ""]
            continue
        cells = []
        for row in rows:
            told = "; ".join(f"{key} {value}" for key, value in row.facts.items() if key not in ("runs", "explain", "seconds"))  # fmt: skip
            value = f"{number(row.value)} {row.unit}" if row.value is not None else ""
            cells.append([row.name, f"{value} {row.verdict}", told[:_LENGTH]])
        lines += table(("what", "value:", "with it"), cells)
    return lines


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table as lines; columns whose heading ends in ":" are aligned to the right."""
    lines = [[heading.rstrip(":") for heading in headings]]
    lines += [["--:" if heading.endswith(":") else "---" for heading in headings], *map(list, rows)]
    return [*(f"| {' | '.join(_cell(cell) or '-' for cell in cells)} |" for cells in lines), ""]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def number(value: float | None) -> str:
    """Three significant digits, whole numbers in full: 1234.5 as 1,234 and 0.012345 as 0.0123."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    errors.call(app)
