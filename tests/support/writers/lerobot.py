"""A LeRobot dataset with pictures in its tables, read back by pyarrow; tests/support/check_lerobot.py has lerobot's.

Its pictures are of one size, as all of a camera are. Videos are in tests/dali_pipes/video/test_windows.py.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.lerobot import TOP, Robot, picture_feature, write_tables
from tests.support.writers import Expected, Written

FORMAT = "lerobot"
CHECKED_AGAINST = "lerobot"
DECODED = True
SIZE = (40, 56)
_LONG = 1 << 20


def write_plain(folder: Path, samples: list[Written]) -> Path:
    """Without compression."""
    return write(folder, samples, compression="none")


def write(folder: Path, samples: list[Written], **options: Any) -> Path:
    pytest.importorskip("pyarrow")
    half = len(samples) // 2
    lengths = tuple(one for one in (half, len(samples) - half) if one)
    values = Robot(lengths).values()
    values["task_index"] = np.array([sample.label for sample in samples])
    pictures = {TOP: [_picture(sample.image) for sample in samples]}
    cameras = {TOP: picture_feature(SIZE)}
    files = [[number] for number in range(len(lengths))]
    one_each = {"write_batch_size": 1, "data_page_size": 1, "use_dictionary": False, **options}
    write_tables(folder, values, lengths, files, 10, cameras, {}, pictures, **one_each)
    return folder


def expected(source: Path) -> list[Expected]:
    parquet = pytest.importorskip("pyarrow.parquet")
    return [
        Expected(
            f"episode_{row['episode_index']:06d}#{row['frame_index']}",
            row[TOP]["bytes"],
            row["task_index"],
        )
        for path in sorted(source.glob("data/*/*.parquet"))
        for row in parquet.read_table(path, partitioning=None).to_pylist()
    ]


def damage(source: Path) -> Path:
    """Leave one picture out."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = sorted(source.glob("data/*/*.parquet"))[0]
    table = parquet.read_table(path, partitioning=None)
    pictures = table.column(TOP).to_pylist()
    pictures[5]["bytes"] = None
    column = pa.array(pictures, table.schema.field(TOP).type)
    changed = table.set_column(table.schema.get_field_index(TOP), TOP, column)
    parquet.write_table(changed, path, row_group_size=4)
    return source


def _picture(image: bytes) -> bytes:
    """The picture in the size of the camera, as long as it was where it was long."""
    written = io.BytesIO()
    Image.open(io.BytesIO(image)).resize(SIZE[::-1]).save(written, "png")
    return written.getvalue() + bytes(_LONG if len(image) > _LONG else 0)
