"""A Delta table as deltalake writes it: partitioned by label, with removed files beside valid ones, read back by it."""

from pathlib import Path

import pytest

from tests.support.writers import Expected, Written

FORMAT = "delta"
CHECKED_AGAINST = "deltalake"


def write_plain(folder: Path, samples: list[Written]) -> Path:
    """Without compression, as photographs are best kept."""
    return write(folder, samples, compression="UNCOMPRESSED")


def write(folder: Path, samples: list[Written], compression: str = "SNAPPY") -> Path:
    """In two commits; rows of both are deleted again, which leaves their first files behind as removed ones."""
    pa, deltalake = pytest.importorskip("pyarrow"), pytest.importorskip("deltalake")
    columns = deltalake.ColumnProperties(dictionary_enabled=False)
    properties = deltalake.WriterProperties(
        compression=compression, default_column_properties=columns
    )
    schema = pa.schema([("image", pa.binary()), ("label", pa.int64()), ("key", pa.string())])
    path = folder / "photos"
    for begin in (0, 12):
        part = samples[begin : begin + 12]
        rows = [{"image": one.image, "label": one.label, "key": one.name} for one in part]
        rows.insert(len(rows) // 2, {"image": b"gone", "label": 1, "key": "gone"})
        deltalake.write_deltalake(
            str(path),
            pa.Table.from_pylist(rows, schema=schema),
            mode="append",
            partition_by=["label"],
            writer_properties=properties,
        )
    deltalake.DeltaTable(str(path)).delete("key = 'gone'", writer_properties=properties)
    return path


def expected(source: Path) -> list[Expected]:
    """Rows as deltalake reads them, in the order of the names of its files."""
    parquet, deltalake = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("deltalake")
    table = deltalake.DeltaTable(str(source))
    rows = {row["key"]: row for row in table.to_pyarrow_table().to_pylist()}
    return [
        Expected(f"{Path(file).relative_to(source)}/{key}", rows[key]["image"], rows[key]["label"])
        for file in sorted(table.file_uris())
        for key in parquet.read_table(file, columns=["key"], partitioning=None)["key"].to_pylist()
    ]
