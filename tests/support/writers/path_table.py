"""A CSV of image files, as pandas writes and reads it."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.writers import Expected, Written, write_images

FORMAT = "csv"
CHECKED_AGAINST = "pandas"


def write(folder: Path, samples: list[Written]) -> Path:
    pandas = pytest.importorskip("pandas")
    columns = {
        "path": [f"photos/{name}" for name in write_images(folder / "photos", samples)],
        "label": [sample.label for sample in samples],
        "id": [f"{number:03d}" for number in range(len(samples))],
        "source": ["NA, perhaps"] * len(samples),
    }
    pandas.DataFrame(columns).to_csv(folder / "photos.csv")
    return folder / "photos.csv"


def expected(source: Path) -> list[Expected]:
    return [
        Expected(row["id"], (source.parent / row["path"]).read_bytes(), int(row["label"]))
        for row in _rows(source)
    ]


def damage(source: Path) -> Path:
    (source.parent / _rows(source)[11]["path"]).unlink()
    return source


def _rows(source: Path) -> list[dict[str, Any]]:
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(source, dtype=str, keep_default_na=False)
    rows: list[dict[str, Any]] = table.to_dict("records")
    return rows
