"""Parquet as pyarrow writes it, in several files of several row groups, read back by pyarrow.

Images are compressed, so that a page can be damaged: those with a checksum, each alone on its page.
"""

from pathlib import Path

import pytest

from tests.support.damage import flip
from tests.support.writers import Expected, Written

FORMAT = "parquet"
CHECKED_AGAINST = "pyarrow"


def write_plain(folder: Path, samples: list[Written]) -> list[Path]:
    """Without compression, as photographs are best kept."""
    return write(folder, samples, compression="none")


def write(folder: Path, samples: list[Written], compression: str = "snappy") -> list[Path]:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    paths = []
    for number, begin in enumerate(range(0, len(samples), 10)):
        part = samples[begin : begin + 10]
        columns = {
            "image": pa.array([sample.image for sample in part], pa.binary()),
            "label": [sample.label for sample in part],
            "key": [sample.name for sample in part],
        }
        paths.append(folder / f"part-{number}.parquet")
        parquet.write_table(
            pa.table(columns),
            paths[-1],
            row_group_size=4,
            compression=compression,
            use_dictionary=["label", "key"],
            write_statistics=["label", "key"],  # else images stand in the headers of their pages
            write_batch_size=1,
            data_page_size=1,
            write_page_checksum=True,
        )
    return paths


def expected(source: list[Path]) -> list[Expected]:
    parquet = pytest.importorskip("pyarrow.parquet")
    return [
        Expected(f"{path.name}/{row['key']}", row["image"], row["label"])
        for path in source
        for row in parquet.read_table(path, partitioning=None).to_pylist()
    ]


def damage(source: list[Path]) -> list[Path]:
    parquet = pytest.importorskip("pyarrow.parquet")
    column = parquet.read_metadata(source[1]).row_group(1).column(0)
    # Within the first of four pages.
    flip(source[1], column.data_page_offset + column.total_compressed_size // 8)
    return source
