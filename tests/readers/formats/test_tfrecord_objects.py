"""TensorFlow's object detection in TFRecord files: what the package tfrecord writes and reads."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tfrecord import example_pb2
from tfrecord.reader import tfrecord_loader

from readers import open_dataset
from readers.formats.tfrecord.label_map import read_label_map
from tests.readers.formats.test_tfrecord import shard
from tests.support.annotated import put
from tests.support.entries import json_of
from tests.support.kinds import by_pillow
from tests.support.moved import block
from tests.support.opening import assert_refused, open_with_warning

SIZE = (48, 64)
BOX = (8, 4, 40, 36)
MAP = """# of COCO
item {
  id: 1
  name: 'person'
}
item: < name: "d\\"o\\147" id: 18; display_name: 'Dog' >
item { id: 2, name: 'bicycle' keypoints { id: 7 label: "saddle" } }
"""
NAMES = ("person", "bicycle", 'd"og')


def png(pixels: np.ndarray) -> bytes:
    return by_pillow("PNG", Image.fromarray(pixels))


def photo() -> bytes:
    return png(np.repeat(block(SIZE, BOX)[..., None], 3, axis=2))


def objects(boxes: list[tuple[float, ...]], **further: Any) -> dict[str, Any]:
    """Features of boxes in pixels; further ones have __ for the slash of their names."""
    sides = {
        f"image/object/bbox/{side}": [
            float(np.float32(box[at] / SIZE[1 - at % 2])) for box in boxes
        ]
        for at, side in enumerate(("xmin", "ymin", "xmax", "ymax"))
    }
    return sides | {f"image/{name.replace('__', '/')}": value for name, value in further.items()}


def record(features: dict[str, Any], image: bytes | None = None) -> bytes:
    """A tf.train.Example by TensorFlow's own protocol buffer, with lists that may be empty."""
    example = example_pb2.Example()
    stored = {"image/encoded": [image or photo()], "image/filename": [b"a.png"]} | features
    for name, values in stored.items():
        feature = example.features.feature[name]
        kind = type(values[0]) if values else _kind_of(name)
        lists = {bytes: feature.bytes_list, float: feature.float_list, int: feature.int64_list}
        lists[kind].SetInParent()
        lists[kind].value.extend(values)
    return bytes(example.SerializeToString())


def _kind_of(name: str) -> type:
    if "/bbox/" in name or name.endswith("area"):
        return float
    return bytes if name.endswith(("text", "mask")) else int


def write(folder: Path, records: list[bytes], label_map: str | None = MAP) -> Path:
    put(folder, {} if label_map is None else {"label_map.pbtxt": label_map})
    return shard(folder / "train.tfrecord", records)


def told(sample: Any) -> Any:
    found = json_of(sample)
    assert found.pop("box_format", "xyxy") == "xyxy"
    return found


FULL = {
    "object__class__text": [b'd"og', b"person"],
    "object__class__label": [18, 1],
    "object__is_crowd": [0, 1],
    "object__difficult": [1, 0],
    "object__area": [1024.0, 3072.0],
    "class__label": [18, 3],
    "class__text": [b"dog", b"outdoor"],
}


def test_objects(tmp_path: Path) -> None:
    """Boxes in pixels, classes by the order of numbers, and what else is stored; with and without objects."""
    masks = [png(block(SIZE, BOX) // 255), png(np.ones(SIZE, np.uint8))]
    empty = {name: [] for name in FULL} | {"class__label": [1]}
    records = [
        record(objects([BOX, (0, 0, 64, 48)], **FULL, object__mask=masks)),
        record(objects([], **empty, object__mask=[])),
        record({}),
        record(objects([BOX], object__class__label=[2], object__mask=masks[:1])),
        record(objects([BOX], object__class__text=[b"bicycle"])),
    ]
    path = write(tmp_path, records)
    dataset = open_dataset(path, crowd=True)
    found = dataset.fetch(range(5))
    theirs = list(tfrecord_loader(str(path), None))

    assert dataset.class_names == NAMES
    first = told(found[0])
    wanted = np.stack(
        [theirs[0][f"image/object/bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
    )
    assert np.allclose(first["boxes"], wanted.T * [64, 48, 64, 48])
    assert np.allclose(first["boxes"], [BOX, (0, 0, 64, 48)], atol=1e-5)
    assert first["labels"] == [NAMES.index(text.decode()) for text in FULL["object__class__text"]]
    assert (first["iscrowd"], first["difficult"], first["area"]) == ([0, 1], [1, 0], [1024, 3072])
    assert [bytes(found[0].fields[f"mask.{n}.png"]) for n in range(2)] == masks
    assert [told(found[n]) for n in (1, 2)] == [{"boxes": [], "labels": []}] * 2
    assert [told(found[n])["labels"] for n in (3, 4)] == [[1], [1]]
    assert bytes(found[3].fields["mask.0.png"]) == masks[0]
    assert json.loads(bytes(found[0].fields["image/class/label"])) == [18, 3]
    alone = open_dataset(path)
    [single] = alone.fetch([0])
    assert told(single) == {name: values[:1] for name, values in first.items()}
    assert "mask.1.png" not in single.fields
    assert alone.fingerprint != dataset.fingerprint
    assert [one.label for one in found] == dataset.column("label").tolist() == [-1] * 5
    assert found[0].image == photo()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"object__class__label": [1]}, "it has 1 labels, 2 image/object/class/text"),
        ({"object__class__text": []}, ""),
        ({"object__class__label": []}, ""),
        (
            {"object__class__label": [1, 1]},
            "has the number 18 in label_map.pbtxt, and the label is 1",
        ),
        ({"object__class__text": [b"cat", b"person"]}, "the class 'cat' is not in label_map.pbtxt"),
        ({"object__class__label": [18, 3]}, "the label 3 is not in label_map.pbtxt"),
        ({"object__is_crowd": [0]}, "it has 2 xmin, 1 image/object/is_crowd"),
        (
            {"object__is_crowd": [0, 2]},
            "object 1: image/object/is_crowd must be -1 or 0 or 1, got 2",
        ),
        ({"object__group_of": [-1, -1]}, ""),
        ({"object__mask": [b"x"]}, "it has 2 xmin, 1 image/object/mask"),
        ({"object__bbox__xmin": [0.1, 0.2, 0.3]}, "it has 3 xmin, 2 ymin, 2 xmax, 2 ymax"),
        ({"object__bbox__xmin": [0.9, 0.0]}, "object 0 has xmin 0.8999.*, which is no area"),
        ({"object__bbox__xmax": [40.0, 64.0]}, "where shares of the image must be"),
        ({"object__bbox__xmin": [float("nan"), 0.0]}, "which is no area"),
        ({"encoded": [b"no image"]}, "whose size cannot be read"),
    ],
)
def test_features_that_do_not_agree(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    """They make one bad sample, with both numbers; its neighbours stay."""
    sound = record(objects([BOX, BOX], **FULL))
    changed = {f"image/{name.replace('__', '/')}": value for name, value in change.items()}
    bad = record(objects([BOX, BOX], **FULL) | changed)
    before, entry, after = open_dataset(write(tmp_path, [sound, bad, sound])).fetch(range(3))

    if match:
        assert re.search(match, entry.reason), entry.reason
    else:
        assert told(before).items() <= told(entry).items()
    assert told(before) == told(after)


def test_without_a_label_map(tmp_path: Path) -> None:
    """Numbers stay and a warning says so; names alone cannot be numbered; classes= does either."""
    path = write(tmp_path, [record(objects([BOX, BOX], **FULL | {"object__is_crowd": []}))], None)
    plain = open_with_warning("no label map beside it", path)
    assert (told(plain.fetch([0])[0])["labels"], plain.class_names) == ([18, 1], ())
    named = open_dataset(path, classes={1: "person", 18: 'd"og'})
    assert told(named.fetch([0])[0])["labels"] == [1, 0]
    names = ["person", *(f"class {n}" for n in range(2, 18)), 'd"og']
    listed = open_dataset(path, classes=names)
    assert told(listed.fetch([0])[0])["labels"] == [17, 0]
    assert len({one.fingerprint for one in (plain, named, listed)}) == 3
    text = write(tmp_path, [record(objects([BOX], object__class__text=[b"person"]))], None)
    with pytest.warns(UserWarning, match="no label map"):
        [bad] = open_dataset(text).fetch([0])
    assert "its classes have names alone" in bad.reason


def test_other_records_stay_as_they_are(tmp_path: Path) -> None:
    """ImageNet's records have boxes and no classes of objects; a field json of the writer's own is left alone."""
    imagenet = objects([BOX], object__bbox__label=[7], class__label=[7])
    path = write(tmp_path, [record(imagenet)], None)
    with pytest.warns(UserWarning, match="has boxes in the features"):
        [sample] = open_dataset(path).fetch([0])
    assert sample.label == 7
    assert "json" not in sample.fields
    own = {"json": [b'{"boxes": []}']}
    [sample] = open_dataset(write(tmp_path, [record(objects([BOX], **FULL) | own)])).fetch([0])
    assert told(sample) == {"boxes": []}


def test_label_maps_are_read_as_by_protobuf(tmp_path: Path) -> None:
    """Quotes, escapes, comments, angle brackets, separators and messages within items."""
    (tmp_path / "a.pbtxt").write_text(MAP)

    # As google.protobuf.text_format parses it with TensorFlow's string_int_label_map.proto.
    assert read_label_map(tmp_path / "a.pbtxt").names == {1: "person", 18: 'd"og', 2: "bicycle"}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "lists no classes"),
        ("item { id: 1 }", "no id or no name"),
        ("item { name: 'a' }", "no id or no name"),
        ("item { id: 1 name: 'a'", "ends within an item"),
        ("item { id: 1 name: 'a' } item { id: 1 name: 'b' }", "the same number for two classes"),
        ("item { id: 1 name: 'a' } item { id: 2 name: 'a' }", "the same name for two classes"),
        ("{'a': 1} \x00", "is no label map"),
    ],
)
def test_label_maps_that_are_none(tmp_path: Path, text: str, match: str) -> None:
    """One sentence each; so for several of them and for classes that are none."""
    path = write(tmp_path, [record(objects([BOX], **FULL))], text)
    assert_refused(match, path)
    (tmp_path / "label_map.pbtxt").rename(tmp_path / "one.pbtxt")
    (tmp_path / "two.pbtxt").write_text(MAP)
    assert_refused(r"several label maps \(one.pbtxt, two.pbtxt\)", path)
    assert_refused("cannot be read as a label map", path, classes=tmp_path / "none.pbtxt")
    assert_refused(r"must have whole numbers from 0 and names, got 'a': 1", path, classes={"a": 1})
