"""An Iceberg table as pyiceberg writes it, with files of earlier snapshots beside valid ones, read back by its scan."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.writers import Expected, Written

FORMAT = "iceberg"
CHECKED_AGAINST = "pyiceberg"


def write_plain(folder: Path, samples: list[Written]) -> Path:
    """Without compression, as photographs are best kept."""
    return write(folder, samples, compression="uncompressed")


def write(folder: Path, samples: list[Written], compression: str = "snappy") -> Path:
    """In two appends; rows of both are deleted again, which rewrites their files."""
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema([("image", pa.binary()), ("label", pa.int64()), ("key", pa.string())])
    properties = {"write.parquet.compression-codec": compression}
    table = new_table(folder, schema, properties)
    for begin in (0, 12):
        part = samples[begin : begin + 12]
        rows = [{"image": one.image, "label": one.label, "key": one.name} for one in part]
        rows.insert(len(rows) // 2, {"image": b"gone", "label": 9, "key": "gone"})
        table.append(pa.Table.from_pylist(rows, schema=schema))
    table.delete("key = 'gone'")
    return folder / "photos"


def new_table(folder: Path, schema: Any, properties: dict[str, str]) -> Any:
    """An empty table in FOLDER/photos, of a catalog that is in memory alone."""
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("tests", warehouse=f"file://{folder}")
    catalog.create_namespace("tests")
    return catalog.create_table(
        "tests.photos", schema, location=f"file://{folder}/photos", properties=properties
    )


def newest(source: Path) -> Any:
    """The table as pyiceberg opens it without a catalog."""
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(sorted((source / "metadata").glob("*.metadata.json"))[-1]))


def expected(source: Path) -> list[Expected]:
    """Rows as pyiceberg reads them, in the order of the names of its files."""
    parquet = pytest.importorskip("pyarrow.parquet")
    scan = newest(source).scan()
    rows = {row["key"]: row for row in scan.to_arrow().to_pylist()}
    files = [Path(task.file.file_path.removeprefix("file://")) for task in scan.plan_files()]
    return [
        Expected(f"{file.relative_to(source)}/{key}", rows[key]["image"], rows[key]["label"])
        for file in sorted(files)
        for key in parquet.read_table(file, columns=["key"], partitioning=None)["key"].to_pylist()
    ]
