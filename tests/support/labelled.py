"""Few samples with labels of any kind, in each format that states labels as values: b"3", b"cat", None for none."""

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.tars import write_samples
from tests.support.writers.energon import prepare
from tests.support.writers.iceberg import new_table
from tests.support.writers.mds import write_mds

Values = list[bytes | None]
"""What each sample says of its label, as text; None where it says nothing."""


def picture(number: int = 0) -> bytes:
    """A small PNG."""
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (number, 0, 0)).save(stream, "PNG")
    return stream.getvalue()


def _table(values: Values) -> Any:
    pa = pytest.importorskip("pyarrow")
    texts = [None if value is None else value.decode() for value in values]
    images = [picture(number) for number in range(len(values))]
    columns = {"image": pa.array(images, pa.binary()), "label": pa.array(texts, pa.string())}
    return pa.table(columns)


def write_parquet(folder: Path, values: Values) -> Path:
    pytest.importorskip("pyarrow.parquet").write_table(_table(values), folder / "a.parquet")
    return folder / "a.parquet"


def write_arrow(folder: Path, values: Values) -> Path:
    table = _table(values)
    with pytest.importorskip("pyarrow.ipc").new_file(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    return folder / "a.arrow"


def write_lance(folder: Path, values: Values) -> Path:
    pytest.importorskip("lance").write_dataset(_table(values), str(folder / "a.lance"))
    return folder / "a.lance"


def write_delta(folder: Path, values: Values) -> Path:
    pytest.importorskip("deltalake").write_deltalake(str(folder / "table"), _table(values))
    return folder / "table"


def write_iceberg(folder: Path, values: Values) -> Path:
    table = _table(values)
    new_table(folder, table.schema, {}).append(table)
    return folder / "photos"


def write_tar(folder: Path, values: Values) -> Path:
    samples = {}
    for number, value in enumerate(values):
        samples[f"{number:02d}"] = {"png": picture(number)} | (
            {} if value is None else {"cls": value}
        )
    return write_samples(folder / "a.tar", samples)


def write_energon(folder: Path, values: Values) -> Path:
    write_tar(folder, values)
    prepare(folder, {"train": ["a.tar"]}, field_map={"image": "png", "label": "cls"})
    return folder


def write_lmdb(folder: Path, values: Values) -> Path:
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(folder / "db"), map_size=1 << 24) as env, env.begin(write=True) as txn:
        for number, value in enumerate(values):
            txn.put(b"%02d.png" % number, picture(number))
            if value is not None:
                txn.put(b"%02d.cls" % number, value)
    return folder / "db"


def write_mds_folder(folder: Path, values: list[bytes]) -> Path:
    rows = [{"image": picture(n), "label": value} for n, value in enumerate(values)]
    write_mds(folder, {"image": ("png", None), "label": ("str", None)}, rows)
    return folder


def write_hdf5(folder: Path, values: list[bytes]) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5", "w") as file:
        file["images"] = np.zeros((len(values), 8, 8, 3), np.uint8)
        file["label"] = np.array([value.decode() for value in values], h5py.string_dtype())
    return folder / "a.h5"


def _examples(values: Values) -> list[bytes]:
    serialize = pytest.importorskip("tfrecord.writer").TFRecordWriter.serialize_tf_example
    records = []
    for number, value in enumerate(values):
        label = {} if value is None else {"label": (value, "byte")}
        records.append(serialize({"image": (picture(number), "byte"), **label}))
    return records


def write_tfrecord(folder: Path, values: Values) -> Path:
    check = pytest.importorskip("tfrecord.writer").TFRecordWriter.masked_crc
    with (folder / "a.tfrecord").open("wb") as file:
        for record in _examples(values):
            length = struct.pack("<Q", len(record))
            file.write(length + check(length) + record + check(record))
    return folder / "a.tfrecord"


def write_arrayrecord(folder: Path, values: Values) -> Path:
    module = pytest.importorskip("array_record.python.array_record_module")
    file = module.ArrayRecordWriter(str(folder / "a.array_record"), "group_size:1")
    for record in _examples(values):
        file.write(record)
    file.close()
    return folder / "a.array_record"


def write_files(folder: Path, count: int) -> list[str]:
    """Write pictures, and return their names."""
    names = [f"{number:02d}.png" for number in range(count)]
    for number, name in enumerate(names):
        (folder / name).write_bytes(picture(number))
    return names


def write_manifest(folder: Path, values: Values) -> Path:
    lines = [
        json.dumps({"image": name} | ({} if value is None else {"label": value.decode()}))
        for name, value in zip(write_files(folder, len(values)), values, strict=True)
    ]
    (folder / "a.jsonl").write_text("\n".join(lines))
    return folder / "a.jsonl"


Write = Callable[[Path, Any], Path]
