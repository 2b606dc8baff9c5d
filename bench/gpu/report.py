"""``python -m bench.gpu.report one/result-*.json --out docs/gpu.md``: write the results of a visit into a page."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from jinja2 import Environment, StrictUndefined

from bench.gpu.steps import NOT_RUN, STEPS
from bench.output import errors
from bench.report.numbers import plain

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

BEGIN, END = "<!-- results of make gpu -->", "<!-- end of results -->"
"""The lines of a page that enclose the tables."""

_NEEDED = ("command", "time", "commit", "versions", "machine", "settings", "steps")


@dataclass(frozen=True)
class Aim:
    """A value that a measurement should reach.

    Attributes:
        name: Description of the value.
        row: The row with the value, as "step: row".
        bound: "at least" or "below": how the value is compared with `number`.
        number: The value to reach.
        per: The row by whose value the measured value is divided; "" if it is not divided.
    """

    name: str
    row: str
    bound: str
    number: float
    per: str = ""

    def reached(self, values: Mapping[str, float]) -> float | None:
        """Return the value that was measured for this aim, or None if its row is missing."""
        value, unit = values.get(self.row), values.get(self.per) if self.per else 1.0
        return value / unit if value is not None and unit else None

    def is_met(self, value: float) -> bool:
        """Return whether a value satisfies the bound."""
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
"""The aims, in table order."""

# Facts are cut to 320 characters; full facts, runs and hundreds of test rows by node id are in the JSON.
_PAGE = """\
{% macro named(values) %}{% for name, value in values.items() %}{{ name }} {{ value }}{{ ", " if not loop.last }}{% endfor %}{% endmacro %}
## {{ visit.machine.gpu }}

{{ visit.time[:10] }}, commit `{{ visit.commit }}`; {{ named(visit.machine) }}; {{ named(visit.versions) }}.

### Losses

| step | row | what |
| --- | --- | --- |
{% for step, name, what in losses %}
| `{{ step }}` | {{ name | cell }} | {{ what | cell }} |
{% else %}
| none | - | - |
{% endfor %}

### Aims

| aim | number | reached | verdict |
| --- | --- | --: | --- |
{% for aim, value in aims %}
| {{ aim.name }} | {{ aim.bound }} {{ aim.number | number }} | {{ "-" if value is none else value | number }} | {{ "not known" if value is none else "met" if aim.is_met(value) else "**missed**" }} |
{% endfor %}
{% for name, step in steps.items() %}

### {{ promises[name] }} (`{{ name }}`, {{ step.end }}, {{ step.seconds | round | int }} s)

{% if name.startswith("tests") %}
{% for verdict in ("right", "wrong", "failed", "open") %}{{ step.rows | selectattr("verdict", "equalto", verdict) | list | length }} {{ verdict }}{{ ", " if not loop.last }}{% endfor %}

{% else %}
| what | value | with it |
| --- | --: | --- |
{% for row in step.rows %}
| {{ row.name | cell }} | {{ ["" if row.value is none else row.value | number, row.unit, row.verdict] | select | join(" ") }} | {{ named(row.facts | shown)[:320] | cell }} |
{% endfor %}
{% endif %}
{% endfor %}
"""


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="Files that `make gpu` wrote.")],
    out: Annotated[Path, typer.Option(help="The page.")],
) -> None:
    """Write tables of one visit's results into a page, losses first."""
    visits = [_read(path) for path in results]
    steps = {step["name"]: step for visit in visits for step in visit["steps"]}
    before, begin, rest = out.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise errors.BenchError(
            f"{out} must have lines {BEGIN} and {END}, between which results stand: add them"
        )
    text = _render(max(visits, key=lambda visit: str(visit["time"])), steps)
    out.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
    typer.echo(f"written: {out}")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise errors.BenchError(f"{path} cannot be read: {error}: give what `make gpu` wrote") from error  # fmt: skip
    if missing := [name for name in _NEEDED if name not in content]:
        raise errors.BenchError(f"{path} is no result of `make gpu`: it lacks {', '.join(missing)}")
    if content["settings"].get("rehearse") or not content["machine"].get("gpu"):
        raise errors.BenchError(f"{path} was measured on a CPU: give results of a visit to a GPU")
    return content


def _render(visit: Mapping[str, Any], steps: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [(name, row) for name, step in steps.items() for row in step["rows"]]
    losses = [(name, step["end"], "") for name, step in steps.items() if step["end"].startswith(NOT_RUN)]  # fmt: skip
    losses += [
        (name, row["name"], f"{row['verdict']}: {row['facts'].get('error', '')}")
        for name, row in rows
        if row["verdict"] in ("wrong", "failed")
    ]
    values = {
        f"{name}: {row['name']}": row["value"]
        for name, row in rows
        if row["value"] is not None and row["verdict"] in ("measured", "right")
    }
    page = Environment(trim_blocks=True, undefined=StrictUndefined, autoescape=False)
    page.filters |= {"number": plain, "cell": _cell, "shown": _shown}
    return page.from_string(_PAGE).render(
        visit=visit,
        losses=losses,
        aims=[(aim, aim.reached(values)) for aim in AIMS],
        steps=steps,
        promises={name: STEPS[name].promise if name in STEPS else name for name in steps},
    ).strip()  # fmt: skip


def _shown(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key not in ("runs", "explain", "seconds")}


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split()) or "-"


if __name__ == "__main__":
    errors.call(app)
