"""Arrow files as pyarrow writes them, in the file format and the stream format, read back by pyarrow."""

from pathlib import Path

import pytest

from tests.support.writers import Expected, Written

FORMAT = "arrow"
CHECKED_AGAINST = "pyarrow, datasets"


def write(folder: Path, samples: list[Written]) -> list[Path]:
    pa, ipc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.ipc")
    halves = {
        "a-file.arrow": (samples[:13], ipc.new_file),
        "b-stream.arrow": (samples[13:], ipc.new_stream),
    }
    for name, (part, open_writer) in halves.items():
        columns = {
            "image": pa.array([sample.image for sample in part], pa.binary()),
            "label": [sample.label for sample in part],
            "key": [sample.name for sample in part],
        }
        table = pa.table(columns)
        with open_writer(folder / name, table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    return [folder / name for name in halves]


def expected(source: list[Path]) -> list[Expected]:
    ipc = pytest.importorskip("pyarrow.ipc")
    tables = [ipc.open_file(source[0]).read_all(), ipc.open_stream(source[1]).read_all()]
    return [
        Expected(f"{path.name}/{row['key']}", row["image"], row["label"])
        for path, table in zip(source, tables, strict=True)
        for row in table.to_pylist()
    ]
