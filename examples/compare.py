"""Train an example on our pipeline, on another library's and on broken ones, three seeds each, and compare.

python examples/compare.py cifar DATA --out accuracy-cifar.json

Every run is a process of its own, one at a time. Runs that the file has already are not repeated. Margins were
written down before the first run: the means over the seeds of a sound pipeline differ by less, those of a broken
one should differ by more.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies import STUDIES, Study

from bench.output.results import document, write_json


def run(words: Sequence[str]) -> dict[str, float]:
    """Carry out one training in a process of its own; return its figures, or raise CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "figures.json"
        ends = ["--checkpoint", f"{folder}/run.pt", "--json", str(kept)]
        subprocess.run([sys.executable, *words, *ends], check=True)
        return json.loads(kept.read_text())


def runs(name: str, data: Path, folder: Path) -> dict[str, list[str]]:
    """Return the words of each pipeline's run, by the pipeline's name."""
    study, script = STUDIES[name], str(Path(__file__).with_name(f"train_{name}.py"))
    found = {"gpu-aug": [script, str(data)]}
    if study.peer:
        found[study.peer] = [script, str(data), "--pipeline", study.peer]
    for number, (wrong, recipe) in enumerate(study.broken.items()):
        recipe.save(folder / f"{number}.yaml")
        found[wrong] = [script, str(data), "--recipe", str(folder / f"{number}.yaml")]
    for number, (wrong, spoil) in enumerate(study.spoilt.items()):
        copy = shutil.copytree(data, folder / f"data{number}")
        spoil(copy)
        found[wrong] = [script, str(copy)]
    return found


def tell(study: Study, rows: Sequence[dict[str, Any]]) -> None:
    """Print the means over the seeds, and whether they lie within the margin of the peer's."""
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row["pipeline"], []).append(row[study.figure])
    for pipeline, found in values.items():
        line = f"{pipeline}: {statistics.mean(found):.4f} {[round(one, 4) for one in found]}"
        if study.peer:
            apart = statistics.mean(found) - statistics.mean(values[study.peer])
            line += f", {apart:+.4f}: {'within' if abs(apart) <= study.margin else 'outside'}"
        print(line)


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing, and print the table."""
    options = argparse.ArgumentParser()
    options.add_argument("study", choices=list(STUDIES))
    options.add_argument("data", type=Path)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--seeds", type=int, default=3)
    given, further = options.parse_known_args(argv)  # the rest is for the example, such as --epochs
    rows: list[dict[str, Any]] = []
    if given.out.exists():
        rows = json.loads(given.out.read_text())["rows"]
    done = {(row["pipeline"], row["seed"]) for row in rows}
    study = STUDIES[given.study]
    settings = {"study": given.study, "figure": study.figure, "margin": study.margin}
    with tempfile.TemporaryDirectory() as folder:
        todo = runs(given.study, given.data, Path(folder))
        for seed in range(given.seeds):
            for pipeline, words in todo.items():
                if (pipeline, seed) not in done:
                    figures = run([*words, "--seed", str(seed), *further])
                    rows.append({"pipeline": pipeline, "seed": seed, **figures})
                    command = f"examples/compare.py {given.study}"
                    write_json(given.out, document(command, {**settings, "words": further}, rows))
    tell(study, rows)


if __name__ == "__main__":
    main()
