"""Frames of annotations: boxes lie in the frame of the upright picture, and reasons name the object."""

import io
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dali_pipes import Loader
from dali_pipes.errors import BadSampleError
from dali_pipes.samples.targets import KINDS, TargetReader
from gpu_aug import BoxParams, KeypointParams, Recipe, Resize
from gpu_aug.errors import TargetsError
from readers import BadSample, open_dataset
from readers.image.header import image_size
from tests.support import target_files
from tests.support.annotated import (
    BOX,
    HEIGHT,
    WIDTH,
    labelme_json,
    picture,
    put,
    shape,
    voc_object,
    voc_xml,
    yolo_row,
)
from tests.support.loss import Cell, NotApplicable

_RECIPE = Recipe([Resize((HEIGHT, WIDTH))], boxes=BoxParams(), keypoints=KeypointParams())
_LYING = f"{HEIGHT} x {WIDTH} .*, the upright picture is {WIDTH} x {HEIGHT}.*EXIF"
_LARGER = f"{2 * WIDTH} x {2 * HEIGHT} .*, the upright picture is {WIDTH} x {HEIGHT}"
# Height and width as a file states them, and what is said of it; None where it is read.
_STATED = (
    (WIDTH, HEIGHT, _LYING),
    (2 * HEIGHT, 2 * WIDTH, _LARGER),
    (HEIGHT, WIDTH, None),
)
Make = Callable[[Path, int, int], tuple[Any, dict[str, Any]]]


def _boxes(source: Any, **options: Any) -> Any:
    """The boxes of the first sample as the loader reads them, or the reason why it is bad."""
    entry = open_dataset(source, **options).fetch([0])[0]
    if isinstance(entry, BadSample):
        return entry.reason
    assert entry.image is not None
    size = image_size(entry.image)
    assert size is not None
    try:
        found = TargetReader(_RECIPE, frozenset(KINDS)).read(entry.fields, size)
    except TargetsError as error:
        return str(error)
    assert found.targets.boxes is not None
    return found.targets.boxes.tolist()


def _says(found: Any, match: str) -> None:
    assert re.search(match, found), found


def _states(make: Make, root: Path) -> None:
    """A size that is stated is that of the upright picture, or the sample is bad and the reason has both."""
    for number, (height, width, match) in enumerate(_STATED):
        folder = root / str(number)
        folder.mkdir()
        source, options = make(folder, height, width)
        found = _boxes(source, **options)
        if match is None:
            assert found == [pytest.approx([*BOX], abs=1e-3)]
        else:
            _says(found, match)


def _in_json(name: str, root: Path, height: int, width: int) -> tuple[Any, dict[str, Any]]:
    """Write the field json with a height and a width, in any format of records."""
    told = json.dumps(json.loads(target_files.JSON) | {"height": height, "width": width})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target_files, "JSON", told.encode())
        return target_files.TARGETS[name][0](root)


def _stream(root: Path) -> None:
    """As of other formats, read forward through the loader."""
    source, options = _in_json("stream", root, WIDTH, HEIGHT)
    loader = Loader(
        open_dataset(source, **options), _RECIPE, batch_size=1, device="cpu", shuffle="none"
    )
    with pytest.raises(BadSampleError, match="the upright picture is"):
        list(loader)


def _voc_of(root: Path, height: int, width: int) -> tuple[Path, dict[str, Any]]:
    xml = voc_xml(voc_object(), size=(height, width))
    put(root, {"a.png": picture(), "a.xml": xml})
    return root, {"format": "voc", "classes": ["dog"], "coords": "one-based"}


def _voc(root: Path) -> None:
    """Sizes; encodings that XML declares; objects that are named; coordinates that boxes show."""
    _states(_voc_of, root)
    options: dict[str, Any] = {"format": "voc", "classes": ["\u732b"], "coords": "one-based"}
    xml = voc_xml(voc_object("\u732b"))
    put(root / "e", {"a.png": picture()})
    for encoding in ("utf-8", "utf-16", "utf-16-le", "gb2312", "shift_jis", "euc_jp"):
        text = f'<?xml version="1.0" encoding="{encoding}"?>{xml}'
        (root / "e" / "a.xml").write_bytes(text.encode(encoding))
        assert _boxes(root / "e", **options) == [[*BOX]], encoding
    for encoding in ("x-own", "idna", "punycode"):
        (root / "e" / "a.xml").write_text(f'<?xml version="1.0" encoding="{encoding}"?>{xml}')
        _says(_boxes(root / "e", **options), f"its encoding {encoding} .*store it in UTF-8")
    hostile = '<!DOCTYPE a [<!ENTITY b "c">]><annotation/>'
    (root / "e" / "a.xml").write_bytes(hostile.encode("utf-16"))
    _says(_boxes(root / "e", **options), "it has entities")


def _labelme_of(root: Path, height: int, width: int) -> tuple[Path, dict[str, Any]]:
    text = labelme_json(shape(), image="a.png", imageHeight=height, imageWidth=width)
    put(
        root, {"a.png": picture(), "a.json": text.encode("utf-16" if height == HEIGHT else "utf-8")}
    )
    return root, {"classes": ["dog"]}


def _coco_of(root: Path, height: int, width: int) -> tuple[Path, dict[str, Any]]:
    source, _ = target_files.TARGETS["coco"][0](root)
    stored = json.loads(source.read_text())
    stored["images"][0] |= {"height": height, "width": float(width)}
    source.write_text(json.dumps(stored))
    return source, {}


def _coco_object(root: Path, **changed: Any) -> Any:
    """The boxes of an image with one object, some of whose parts are changed."""
    source, _ = target_files.TARGETS["coco"][0](root)
    stored = json.loads(source.read_text())
    stored["annotations"][0] |= changed
    source.write_text(json.dumps(stored))
    return _boxes(source)


def _coco(root: Path) -> None:
    """Sizes; an object without a box has its outline's; one without either is named."""
    _states(_coco_of, root)
    left, top, right, bottom = BOX
    inside = [[at in range(left, right) and row in range(top, bottom) for row in range(HEIGHT)] for at in range(WIDTH)]  # fmt: skip
    flat = [value for column in inside for value in column]
    starts = [at for at in range(1, len(flat)) if flat[at] != flat[at - 1]]
    counts = [stop - start for start, stop in zip([0, *starts], [*starts, len(flat)], strict=True)]
    runs = {"size": [HEIGHT, WIDTH], "counts": counts}
    for box in (None, [], [0, 0, 0, 0]):
        assert _coco_object(root, bbox=box) == [[*BOX]]
        assert _coco_object(root, bbox=box, segmentation=runs) == [[*BOX]]
    for changed, match in (
        ({"bbox": None, "segmentation": None}, "neither a bbox nor a segmentation"),
        ({"bbox": [], "segmentation": []}, "neither a bbox nor a segmentation"),
        ({"bbox": [1, 1, -5, 4]}, "a width or height below 0"),
        ({"bbox": [1, 1, float("nan"), 4]}, "must be four numbers"),
        ({"bbox": [1, 1, 4, float("inf")]}, "must be four numbers"),
        ({"bbox": "1 1 4 4"}, "must be four numbers"),
        ({"bbox": None, "segmentation": [[1, 1, 5, 1, 9, 1]]}, "no area"),
        ({"bbox": None, "segmentation": runs | {"size": [WIDTH, HEIGHT]}}, "of the size"),
        ({"category_id": 5}, "category_id 5"),
        ({"keypoints": [1]}, "keypoints must be"),
    ):
        _says(_coco_object(root, **changed), f"annotation 1: .*{match}")
    with pytest.warns(UserWarning, match="has 1 box without a width and a height above 0"):
        assert _coco_object(root, bbox=[1, 1, 0, 4], segmentation=None) == []
    (root / "a.json").write_bytes((root / "a.json").read_text().encode("utf-16"))
    with pytest.raises(Exception, match="is in UTF-16"):
        open_dataset(root / "a.json")


def _csv_of(root: Path, height: int, width: int) -> tuple[Path, dict[str, Any]]:
    sides = ",".join(map(str, BOX))
    text = f"image,width,height,xmin,ymin,xmax,ymax\na.png,{width},{height},{sides}\n"
    put(root, {"a.png": picture(), "a.csv": text})
    return root / "a.csv", {"boxes": ["xmin", "ymin", "xmax", "ymax"], "coords": "zero-based"}


def _csv(root: Path) -> None:
    """Sizes; and the corners of TensorFlow's tables, which count from 1 as those of the XML they were made of."""
    _states(_csv_of, root)
    names = ["xmin", "ymin", "xmax", "ymax"]
    rows = [f"a.png,{WIDTH},{HEIGHT},9,5,40,36", f"a.png,{WIDTH},{HEIGHT},1,1,{WIDTH},{HEIGHT}"]
    header = "image,width,height,xmin,ymin,xmax,ymax"
    xml = voc_xml(voc_object(), voc_object(box=(1, 1, WIDTH, HEIGHT)))
    put(root, {"a.png": picture(), "a.csv": "\n".join([header, *rows])})
    put(root / "v", {"a.png": picture(), "a.xml": xml})
    of_xml = _boxes(root / "v", format="voc")
    for end, first, first_match in (
        ("", 1, "count from 1, as .* ends at the width or height"),
        (f"\na.png,{WIDTH},{HEIGHT},0,3,9,9", 0, ""),
    ):
        put(root, {"a.csv": "\n".join([header, *rows]) + end})
        if first:
            with pytest.warns(UserWarning, match=first_match):
                assert _boxes(root / "a.csv", boxes=names) == of_xml
        else:
            assert _boxes(root / "a.csv", boxes=names)[0] == [9, 5, 40, 36]
    put(root, {"a.csv": f"{header}\n{rows[0]}\n"})
    with pytest.warns(
        UserWarning, match="count from 0, as no box shows it and this.*coords='one-based'"
    ):
        assert _boxes(root / "a.csv", boxes=names) == [[9, 5, 40, 36]]
    assert _boxes(root / "a.csv", boxes=names, coords="one-based") == [[*BOX]]


def _tfrecord_of(root: Path, height: int, width: int) -> tuple[Path, dict[str, Any]]:
    writer = pytest.importorskip("tfrecord.writer").TFRecordWriter(str(root / "a.tfrecord"))
    sides = zip(("xmin", "ymin", "xmax", "ymax"), BOX, (WIDTH, HEIGHT) * 2, strict=True)
    told = {f"image/object/bbox/{side}": (at / length, "float") for side, at, length in sides}
    told |= {"image/object/class/text": (b"dog", "byte"), "image/encoded": (picture(), "byte")}
    writer.write(told | {"image/height": (height, "int"), "image/width": (width, "int")})
    writer.close()
    return root / "a.tfrecord", {"classes": {1: "dog"}}


def _turned() -> bytes:
    """A picture that its EXIF orientation turns upright."""
    with io.BytesIO(picture(6, "JPEG")) as file, Image.open(file) as stored:
        assert stored.size == (HEIGHT, WIDTH)
    return picture(6, "JPEG")


def _yolo(root: Path) -> None:
    """Nothing states a size: shares are those of the upright picture. Rows are named; flip_idx is used."""
    yaml = "train: images\nnames: [person, dog]\n"
    put(root, {"images/a.jpg": _turned(), "data.yaml": yaml})
    (root / "labels").mkdir()
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (root / "labels" / "a.txt").write_bytes(yolo_row().encode(encoding))
        assert _boxes(root) == [pytest.approx([*BOX], abs=1e-3)]
    put(root, {"labels/a.txt": yolo_row() + yolo_row(1, (0.5, 0.5, 0, 0.1))})
    _says(_boxes(root), r"a\.txt:2: .*no area")
    pose = f"{yolo_row().strip()} 0.25 0.5 2 0.75 0.5 2\n"
    put(root, {"labels/a.txt": pose, "data.yaml": f"{yaml}kpt_shape: [2, 3]\nflip_idx: [1, 0]\n"})
    assert open_dataset(root).flip_pairs == ((0, 1),)
    put(root, {"data.yaml": f"{yaml}kpt_shape: [2, 3]\nflip_idx: [0, 1]\n"})
    assert open_dataset(root).flip_pairs == ()


def _openimages(root: Path) -> None:
    """Nothing states a size: shares are those of the upright picture. Rows are named."""
    source, options = target_files.TARGETS["openimages"][0](root)
    put(root, {"train/a.jpg": _turned()})
    assert _boxes(source, **options) == [pytest.approx([*BOX], abs=1e-3)]
    text = source.read_text()
    put(root, {source.name: text.replace(f"{BOX[2] / WIDTH}", f"{BOX[0] / WIDTH}")})
    _says(_boxes(source, **options), "box 0 of a: XMin is")
    put(root, {source.name: text.replace("/m/1", "/m/2")})
    _says(_boxes(source, **options), 'box 0 of a: the label "/m/2"')


def _dota(root: Path) -> None:
    """Nothing states a size: corners are pixels of the upright picture. Lines are named."""
    put(root, {"images/a.jpg": _turned()})
    (root / "labelTxt").mkdir()
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        text = "gsd:0.5\r\n8 4 40 4 40 36 8 36 ship 0\r\n"
        (root / "labelTxt" / "a.txt").write_bytes(text.encode(encoding))
        [entry] = open_dataset(root, format="dota").fetch([0])
        assert json.loads(entry.fields["json"])["boxes"] == [[8, 4, 40, 4, 40, 36, 8, 36]]  # type: ignore[union-attr]
    put(root, {"labelTxt/a.txt": "8 4 40 4 40 36 8 36 ship 0\n60 4 90 4 90 40 60 40 ship 0\n"})
    _says(_boxes(root), r"a\.txt:2: its centre \(75, 22\) lies outside")


_NO_BOXES = "It holds no boxes, and so nothing that lies in a frame."
_RECORDS = (
    *("folder", "tar", "parquet", "arrow", "lmdb", "hdf5", "arrayrecord", "mds", "manifest"),
    *("lance", "delta", "iceberg", "energon"),
)

CELLS: dict[str, Cell] = {
    **{name: partial(_states, partial(_in_json, name)) for name in _RECORDS},
    "list": NotApplicable(_NO_BOXES),
    "csv": _csv,
    "video-folder": NotApplicable(_NO_BOXES),
    "clip-list": NotApplicable(_NO_BOXES),
    "frame-folder": NotApplicable(_NO_BOXES),
    "stream": _stream,
    "tfrecord": partial(_states, _tfrecord_of),
    "npy": NotApplicable(_NO_BOXES),
    "coco": _coco,
    "voc": _voc,
    "yolo": _yolo,
    "labelme": partial(_states, _labelme_of),
    "dota": _dota,
    "mask-folder": NotApplicable("A mask is as large as its image, or the loader refuses it."),
    "imagenet": NotApplicable(_NO_BOXES),
    "openimages": _openimages,
    "lerobot": NotApplicable(_NO_BOXES),
}
