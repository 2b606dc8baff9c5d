"""One picture with a filled box, and what each format can say of it: a box around it, its corners, its mask.

Each function writes that below a folder and returns the source and the options of `open_dataset`. Record formats hold
it as the fields json and mask.png, which their own libraries write; formats that are made for it as they define it.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from readers.formats.boxes.oriented import corners_around
from tests.support.annotated import (
    BOX,
    HEIGHT,
    WIDTH,
    labelme_json,
    mask_png,
    outline,
    picture,
    put,
    shape,
    voc_object,
    voc_xml,
    yolo_row,
)
from tests.support.writers.energon import prepare
from tests.support.writers.mds import write_mds

Opened = tuple[Any, dict[str, Any]]
CORNERS = [list(BOX[:2]), list(BOX[2:])]
JSON = json.dumps(
    {"boxes": [BOX], "labels": [0], "keypoints": CORNERS, "keypoint_labels": [0, 0]}
).encode()


def _mask() -> bytes:
    """A grey PNG, 1 in the box."""
    left, top, right, bottom = BOX
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[top:bottom, left:right] = 1
    with io.BytesIO() as file:
        Image.fromarray(mask).save(file, "PNG")
        return file.getvalue()


def _fields() -> dict[str, bytes]:
    return {"png": picture(), "json": JSON, "mask.png": _mask()}


def _table() -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.table({name: pa.array([data], pa.binary()) for name, data in _fields().items()})


def _folder(root: Path) -> Opened:
    put(root, {f"dog/a.{name}": data for name, data in _fields().items()})
    return root, {}


def _csv(root: Path) -> Opened:
    columns = {"file_name": ["a.png"], "mask_file_name": ["m.png"], "label": ["dog"]}
    sides = dict(zip(("xmin", "ymin", "xmax", "ymax"), ([side] for side in BOX), strict=True))
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(columns | sides).to_csv(root / "metadata.csv", index=False)
    put(root, {"a.png": picture(), "m.png": _mask()})
    return root, {"boxes": [*sides]}


def _tar(root: Path) -> Opened:
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(root / "train-0.tar"), encoder=False) as writer:
        writer.write({"__key__": "a", **_fields()})
    return root / "train-0.tar", {}


def _stream(root: Path) -> Opened:
    return _tar(root)[0], {"format": "stream"}


def _energon(root: Path) -> Opened:
    _tar(root)
    prepare(root, {"train": ["train-0.tar"]}, field_map={"image": "png"})
    return root, {}


def _parquet(root: Path) -> Opened:
    pytest.importorskip("pyarrow.parquet").write_table(_table(), root / "a.parquet")
    return root / "a.parquet", {}


def _arrow(root: Path) -> Opened:
    pa, table = pytest.importorskip("pyarrow"), _table()
    with pa.OSFile(str(root / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    return root / "a.arrow", {}


def _lance(root: Path) -> Opened:
    table = _table().drop_columns("mask.png")  # as Lance has no names with dots
    pytest.importorskip("lance").write_dataset(table, str(root / "a.lance"))
    return root / "a.lance", {}


def _delta(root: Path) -> Opened:
    pytest.importorskip("deltalake").write_deltalake(str(root / "t"), _table())
    return root / "t", {}


def _iceberg(root: Path) -> Opened:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog(
        "a", uri=f"sqlite:///{root}/a.db", warehouse=f"file://{root}/warehouse"
    )
    catalog.create_namespace("n")
    table = _table()
    made = catalog.create_table("n.t", schema=table.schema)
    made.append(table)
    catalog.close()
    return root / "warehouse" / "n" / "t", {}


def _lmdb(root: Path) -> Opened:
    lmdb = pytest.importorskip("lmdb")
    with (
        lmdb.open(str(root / "a"), map_size=1 << 22, lock=False) as env,
        env.begin(write=True) as txn,
    ):
        for name, data in _fields().items():
            txn.put(f"a.{name}".encode(), data)
    return root / "a", {}


def _hdf5(root: Path) -> Opened:
    h5py = pytest.importorskip("h5py")
    with h5py.File(root / "a.h5", "w") as file:
        for name, data in _fields().items():
            file.create_dataset(name, 1, h5py.vlen_dtype(np.uint8))[0] = np.frombuffer(
                data, np.uint8
            )
    return root / "a.h5", {}


def _tfrecord(root: Path) -> Opened:
    writer = pytest.importorskip("tfrecord.writer").TFRecordWriter(str(root / "a.tfrecord"))
    lengths = (WIDTH, HEIGHT, WIDTH, HEIGHT)
    sides = zip(("xmin", "ymin", "xmax", "ymax"), BOX, lengths, strict=True)
    told = {f"image/object/bbox/{side}": (at / length, "float") for side, at, length in sides}
    told |= {"image/object/class/text": (b"dog", "byte"), "image/object/mask": (_mask(), "byte")}
    writer.write({"image/encoded": (picture(), "byte"), **told})
    writer.close()
    return root / "a.tfrecord", {"classes": {1: "dog"}}


def _arrayrecord(root: Path) -> Opened:
    module = pytest.importorskip("array_record.python.array_record_module")
    serialize = pytest.importorskip("tfrecord.writer").TFRecordWriter.serialize_tf_example
    file = module.ArrayRecordWriter(str(root / "a.array_record"), "group_size:1")
    file.write(serialize({name: (data, "byte") for name, data in _fields().items()}))
    file.close()
    return root / "a.array_record", {}


def _mds(root: Path) -> Opened:
    columns: dict[str, tuple[str, int | None]] = dict.fromkeys(_fields(), ("bytes", None))
    write_mds(root, columns, [_fields()])
    return root, {}


def _manifest(root: Path) -> Opened:
    put(root, {"a.png": picture(), "a.jsonl": json.dumps({"image": "a.png", **json.loads(JSON)})})
    return root / "a.jsonl", {}


def _coco(root: Path) -> Opened:
    left, top, right, bottom = BOX
    corners = [left, top, right, top, right, bottom, left, bottom]
    told = {
        "bbox": [left, top, right - left, bottom - top],
        "segmentation": [corners],
        "iscrowd": 0,
    }
    told |= {"keypoints": [*CORNERS[0], 2, *CORNERS[1], 1], "num_keypoints": 2}
    names = {"keypoints": ["first", "last"], "skeleton": []}
    stored = {
        "images": [{"id": 7, "file_name": "a.png", "height": HEIGHT, "width": WIDTH}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 18, "area": 1024, **told}],
        "categories": [{"id": 18, "name": "dog", **names}],
    }
    put(root, {"a.png": picture(), "a.json": json.dumps(stored)})
    return root / "a.json", {"masks": True}


def _voc(root: Path) -> Opened:
    put(root, {"JPEGImages/a.png": picture(), "Annotations/a.xml": voc_xml(voc_object())})
    put(root, {"SegmentationClass/a.png": mask_png(12), "ImageSets/Segmentation/train.txt": "a\n"})
    return root, {"format": "voc", "masks": "class", "coords": "one-based", "split": "train"}


def _yolo(root: Path) -> Opened:
    yaml = "train: images\nnames: [person, dog]\n"
    put(
        root, {"images/a.png": picture(), "labels/a.txt": yolo_row(1, outline()), "data.yaml": yaml}
    )
    return root, {"task": "segment", "masks": True}


def _yolo_pose(root: Path) -> Opened:
    corners = [value for x, y in CORNERS for value in (x / WIDTH, y / HEIGHT, 2)]
    numbers = " ".join(map(str, corners))
    text = f"{yolo_row(1).strip()} {numbers}\n"
    yaml = "train: images\nnames: [person, dog]\nkpt_shape: [2, 3]\n"
    put(root, {"images/a.png": picture(), "labels/a.txt": text, "data.yaml": yaml})
    return root, {}


def _labelme(root: Path) -> Opened:
    points = [shape("point", [corner]) for corner in CORNERS]
    put(root, {"0.jpg": picture(), "0.json": labelme_json(shape(), *points)})
    return root, {"classes": ["cat", "dog"], "masks": True}


def _dota(root: Path) -> Opened:
    corners = " ".join(map(str, corners_around(BOX)))
    put(root, {"images/a.png": picture(), "labelTxt/a.txt": f"{corners} ship 0\n"})
    return root, {}


def _mask_folder(root: Path) -> Opened:
    put(root, {"images/a.png": picture(), "masks/a.png": _mask()})
    return root, {}


def _openimages(root: Path) -> Opened:
    names = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside"
    left, top, right, bottom = BOX
    sides = f"{left / WIDTH},{right / WIDTH},{top / HEIGHT},{bottom / HEIGHT}"
    table = f"{names}\na,xclick,/m/1,1,{sides},0,0,0,0,0\n"
    put(root, {"train/a.jpg": picture(), "train-annotations-bbox.csv": table})
    put(root, {"class-descriptions-boxable.csv": "/m/1,Dog\n"})
    return root / "train-annotations-bbox.csv", {"images": root / "train"}


TARGETS: dict[str, tuple[Callable[[Path], Opened], ...]] = {
    "folder": (_folder,),
    "csv": (_csv,),
    "tar": (_tar,),
    "stream": (_stream,),
    "parquet": (_parquet,),
    "arrow": (_arrow,),
    "lmdb": (_lmdb,),
    "hdf5": (_hdf5,),
    "tfrecord": (_tfrecord,),
    "arrayrecord": (_arrayrecord,),
    "mds": (_mds,),
    "manifest": (_manifest,),
    "coco": (_coco,),
    "voc": (_voc,),
    "yolo": (_yolo, _yolo_pose),
    "labelme": (_labelme,),
    "dota": (_dota,),
    "mask-folder": (_mask_folder,),
    "openimages": (_openimages,),
    "lance": (_lance,),
    "delta": (_delta,),
    "iceberg": (_iceberg,),
    "energon": (_energon,),
}
"""By the name of the format; the others have no boxes, keypoints and masks."""
