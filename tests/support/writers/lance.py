"""Lance as pylance writes it, in several fragments with deleted rows, read back by its scan."""

from pathlib import Path

import pytest

from tests.support.writers import Expected, Written

FORMAT = "lance"
CHECKED_AGAINST = "lance"


def write(folder: Path, samples: list[Written]) -> Path:
    """Each fourth row is written to be deleted again: positions are those of the rows that are left."""
    pa, lance = pytest.importorskip("pyarrow"), pytest.importorskip("lance")
    rows = []
    for number, sample in enumerate(samples):
        if number % 4 == 1:
            rows.append({"image": b"gone", "label": 99, "key": "gone"})
        rows.append({"image": sample.image, "label": sample.label, "key": sample.name})
    schema = pa.schema([("image", pa.large_binary()), ("label", pa.int64()), ("key", pa.string())])
    path = folder / "photos.lance"
    dataset = lance.write_dataset(
        pa.Table.from_pylist(rows, schema=schema), str(path), max_rows_per_file=9
    )
    dataset.delete("label = 99")
    return path


def expected(source: Path) -> list[Expected]:
    lance = pytest.importorskip("lance")
    return [
        Expected(f"{source.name}/{row['key']}", row["image"], row["label"])
        for row in lance.dataset(str(source)).to_table().to_pylist()
    ]
