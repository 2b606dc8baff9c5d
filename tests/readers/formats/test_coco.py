"""COCO: boxes, classes, keypoints and masks as its own API has them, and files that are none."""

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as api

from readers import BadSample, SourceError
from readers.formats.coco.dataset import CocoDataset
from readers.formats.coco.masks import rasterise, read_png, write_png
from tests.support.annotated import put
from tests.support.damage import overwrite
from tests.support.entries import json_of
from tests.support.opening import assert_refused

Jpeg = Callable[..., bytes]

# Polygons in an image of 18x20 (height, width), and what pycocotools 2.0 makes of them: the run lengths of
# frPyObjects and merge as text, and the area.
STAR = (
    "12.5 17.94 15.51 4.5 6.0 17.47 0.11 16.42 15.94 9.36 6.06 5.57 "
    "5.1 8.9 10.09 11.07 19.91 15.85 12.44 19.78 4.31 3.2"
)
POLYGONS = {
    "triangle": ([[2, 1, 17.3, 4.2, 9.6, 15.9]], "U11a02N2O1N2N2N2O1NO1N2O1N3M2O1Nd1", 104),
    "beyond": ([[-5, -3, 30, 2, 25, 40, 8, 12]], "03?1O2N1O1O1O1O1O2N1O2NP4OQL", 262),
    "star": (
        [[float(number) for number in STAR.split()]],
        "R11`0100O1JNL221MO30MO63GL:3GM94GM80GO314OJ0;0E2O150M16LK3:01N103",
        79,
    ),
    "two": (
        [[1, 1, 8, 1, 8, 8, 1, 8], [5.5, 5.5, 18.2, 6.1, 11, 17]],
        "c07;000000000023MN2N2N00O1N2O1N2O1NP1",
        115,
    ),
    "needle": ([[3.2, 3.2, 3.3, 16, 3.25, 3.3]], "X;", 0),
    "halves": ([[0.5, 0.5, 10.5, 0.5, 10.5, 7.5, 0.5, 7.5]], "c07;00000000000000000Q5", 70),
}
ANNOTATIONS = "annotations/instances_train2017.json"
CATEGORIES = [
    {"id": 18, "name": "dog"},
    {"id": 1, "name": "person", "keypoints": ["nose", "eye", "ear"]},
]


@pytest.fixture
def folder(tmp_path: Path, jpeg: Jpeg) -> Path:
    return put(tmp_path, {f"train2017/{n}.jpg": jpeg(18, 20, seed=n) for n in range(3)})


def write(folder: Path, annotations: list[dict[str, Any]], **changed: Any) -> Path:
    images = [{"id": 7 - n, "file_name": f"{n}.jpg", "height": 18, "width": 20} for n in range(3)]
    stored = {"info": {"ä": [1, "]"]}, "images": images, "annotations": annotations}
    stored |= {"categories": CATEGORIES} | changed
    text = json.dumps(stored, indent=1)
    return put(folder, {ANNOTATIONS: text}) / ANNOTATIONS


def test_objects(folder: Path) -> None:
    """Boxes as corners, classes counted by category number, visible keypoints, each with its image."""
    path = write(
        folder,
        [
            {"image_id": 5, "category_id": 18, "bbox": [1, 2, 3, 4], "area": 9.5},
            {
                "image_id": 7,
                "category_id": 1,
                "bbox": [0.5, 1.5, 3, 4.25],
                "keypoints": [1, 2, 2, 0, 0, 0, 5, 6, 1],
            },
            {"image_id": 5, "category_id": 1, "bbox": [2, 2, 2, 2], "iscrowd": 1, "area": 4},
            {"image_id": 5, "category_id": 1, "bbox": [2, 2, 0, 2]},
            {"image_id": 99, "category_id": 1, "bbox": [2, 2, 2, 2]},
        ],
    )
    dataset = CocoDataset(path)
    first, second, third = dataset.fetch([0, 1, 2])

    assert dataset.class_names == ("person", "dog")
    assert first.key == "instances_train2017.json/0.jpg"
    assert first.image == (folder / "train2017" / "0.jpg").read_bytes()
    assert json_of(first) == {
        "boxes": [[0.5, 1.5, 3.5, 5.75]],
        "labels": [0],
        "iscrowd": [0],
        "area": [12.75],
        "keypoints": [[1, 2], [5, 6]],
        "keypoint_labels": [0, 2],
        "keypoint_visibility": [2, 1],
        "keypoint_objects": [0, 0],
        "box_format": "xyxy",
    }
    assert json_of(second)["boxes"] == []
    assert (json_of(third)["boxes"], json_of(third)["labels"]) == ([[1, 2, 4, 6]], [1])
    assert json_of(third)["area"] == [9.5]
    [crowded] = CocoDataset(path, crowd=True).fetch([2])
    assert json_of(crowded)["iscrowd"] == [0, 1]
    assert dataset.column("height").tolist() == [18, 18, 18]
    assert dataset.column("label").tolist() == [-1, -1, -1]


def test_keypoints_without_names(folder: Path) -> None:
    """Keypoints are read also if no category lists them; then all images have the entries, as the loader needs them."""
    box = {"category_id": 18, "bbox": [1, 2, 3, 4]}
    pose = {"image_id": 7, **box, "keypoints": [1, 2, 2, 0, 0, 0, 5, 6, 1]}
    bare = {"image_id": 7, **box}
    dog = [{"id": 18, "name": "dog"}]
    path = write(folder, [bare, pose, {"image_id": 6, **box}], categories=dog)
    first, second, _ = (json_of(one) for one in CocoDataset(path).fetch(range(3)))

    assert (first["keypoints"], first["keypoint_labels"]) == ([[1, 2], [5, 6]], [0, 2])
    assert (first["keypoint_visibility"], first["keypoint_objects"]) == ([2, 1], [1, 1])
    assert (second["keypoints"], second["keypoint_objects"]) == ([], [])
    [without, *_] = CocoDataset(write(folder, [bare], categories=dog)).fetch([0])
    assert "keypoints" not in json_of(without)


@pytest.mark.parametrize("name", POLYGONS)
def test_polygons_are_those_of_cocos_api(name: str) -> None:
    """Every pixel is as in the run lengths that pycocotools made, which are read as well."""
    polygons, counts, area = POLYGONS[name]
    mask = rasterise(polygons, 18, 20)

    assert (mask.shape, mask.sum()) == ((18, 20), area)
    assert np.array_equal(mask, rasterise({"counts": counts, "size": [18, 20]}, 18, 20))


def test_masks_agree_with_cocos_api() -> None:
    """Random polygons in random images, joined and decoded by the API itself."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        height, width = rng.integers(1, 200, 2).tolist()
        polygons = [rng.uniform(-20, 220, 2 * rng.integers(3, 30)).tolist() for _ in range(2)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # pycocotools 2.0.11 and NumPy 2
            expected = api.decode(api.frPyObjects(polygons, height, width)).any(2)
        assert np.array_equal(rasterise(polygons, height, width), expected)


@pytest.mark.parametrize(
    ("segmentation", "match"),
    [
        (None, "must be polygons or run lengths"),
        ([], "must be polygons or run lengths"),
        ([[1, 2, 3, 4]], "three corners"),
        ([[1, 2, 3, 4, 5, 6, 7]], "three corners"),
        ([["a"] * 6], "list of numbers"),
        ([[1, 2, 3, 4, 5, 1e300]], "a million pixels away"),
        ([[1, 2, 3, 4, 5, float("nan")]], "three corners"),
        ({"counts": [1, 2], "size": [2, 3]}, "sum up to 3, not to 6"),
        ({"counts": [-1, 7], "size": [2, 3]}, ">= 0"),
        ({"counts": [6], "size": [3, 2]}, "of the size"),
        ({"counts": "P" * 99, "size": [2, 3]}, "damaged|ends within"),
        ({"counts": " ", "size": [2, 3]}, "damaged"),
        ({"counts": {}, "size": [2, 3]}, "whole numbers"),
    ],
)
def test_segmentations_that_are_none(segmentation: Any, match: str) -> None:
    """Each is refused with its reason."""
    with pytest.raises(ValueError, match=match):
        rasterise(segmentation, 2, 3)


@pytest.mark.parametrize("crowd", [False, True])
@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        *((flag, 0) for flag in (None, 0, 0.0, "0", False, "false", "False")),
        *((flag, 1) for flag in (1, 1.0, "1", True, "true")),
        *((flag, None) for flag in (2, -1, 0.5, "no", "", [], {"a": 0})),
    ],
)
def test_flags_of_crowds(folder: Path, flag: Any, expected: int | None, crowd: bool) -> None:
    """Text is read as the number that it spells; what is neither 0 nor 1 makes a bad sample, which names the object."""
    box = {"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4], "id": 3, "iscrowd": flag}
    [entry] = CocoDataset(write(folder, [box]), crowd=crowd).fetch([0])
    if expected is None:
        assert "annotation 3: iscrowd must be 0 or 1, got" in entry.reason
    else:
        assert json_of(entry)["iscrowd"] == [expected] * (crowd or not expected)


def test_bad_entries_are_bad_samples(folder: Path) -> None:
    """An image without a name, one that is gone, one outside the folder, objects that are none."""
    images = [
        {"id": 1, "file_name": "0.jpg", "height": 18, "width": 20},
        {"id": 2},
        {"id": 3, "file_name": "gone.jpg"},
        {"id": 4, "file_name": "../annotations/instances_train2017.json"},
        {"id": 5, "file_name": "1.jpg"},
        {"id": 6, "file_name": "2.jpg", "height": 18, "width": 20},
        {"id": 7, "file_name": "1.jpg"},
        "text",
        {"id": 8, "file_name": "/etc/passwd"},
    ]
    box = {"bbox": [1, 2, 3, 4]}
    objects = [
        {"image_id": 5, "category_id": 77, **box},
        {"image_id": 6, "category_id": 1, "keypoints": [1, 2], **box},
    ]
    entries = CocoDataset(write(folder, objects, images=images)).fetch(range(9))
    reasons = [getattr(entry, "reason", "") for entry in entries]
    expected = (
        "",
        "no file_name",
        "gone.jpg cannot be read",
        "lies outside",
        "category_id 77",
        "keypoints must be",
        "",
        "no JSON object",
        "lies outside",
    )

    for reason, part in zip(reasons, expected, strict=True):
        assert part in reason
        assert bool(part) == bool(reason)
        assert str(folder) not in reason
    whole = write(folder, [{"image_id": 7, "category_id": 1, **box}])
    [bad] = CocoDataset(whole, masks=True).fetch([0])
    assert "segmentation must be" in bad.reason


@pytest.mark.parametrize(
    "place",
    ["train2017", "annotations/train2017", "images/train2017", "annotations/images", "annotations"],
)
def test_images_are_found(folder: Path, place: str) -> None:
    """The folder of the images is found where people put it, or named."""
    path = write(folder, [])
    moved = (folder / "train2017").rename(folder / "moved")
    assert_refused(r"holds 0.jpg: name the folder with images=", path, by=CocoDataset)
    assert len(CocoDataset(path, images=moved)) == 3
    put(folder, {f"{place}/{image.name}": image.read_bytes() for image in moved.iterdir()})

    assert CocoDataset(path).fetch([0])[0].key == "instances_train2017.json/0.jpg"


def test_files_are_refused(folder: Path) -> None:
    """Missing, empty, cut off at any place, and JSON of other kinds."""
    path = write(folder, [{"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]}])
    text = path.read_text()
    for stop in range(0, len(text) - 1, 37):
        path.write_text(text[:stop])
        assert_refused(r"\.json is cut off or no JSON.*the list images", path, by=CocoDataset)
    lists, none = ("[1]", "[" * 9999), ("[]", "7", "[{}]")
    for other in (*lists, "{}", '{"a": 1}', *(f'{{"images": {one}}}' for one in none)):
        path.write_text(other)
        match = "JSON list" if other in lists else r"lists no images|no JSON"
        assert_refused(match, path, by=CocoDataset)
    assert_refused("not a file", folder / "nowhere.json", by=CocoDataset)


@pytest.mark.parametrize("value", [{"a": 1}, "abc", 7])
def test_annotations_that_are_no_list_are_refused(folder: Path, value: Any) -> None:
    """They exist and cannot be read, so no picture counts as background."""
    path = write(folder, [])
    path.write_text(json.dumps({**json.loads(path.read_text()), "annotations": value}))
    assert_refused("annotations must be a list, got", path, by=CocoDataset)


@pytest.mark.parametrize("name", ["annotations", "annotation"])
def test_a_file_without_annotations_is_warned_about(folder: Path, name: str) -> None:
    """All pictures count as background, which is rarely meant; a single annotation ends the warning."""
    path = write(folder, [])
    content = json.loads(path.read_text())
    del content["annotations"]
    path.write_text(json.dumps({**content, name: []}))
    assert any("has no annotations" in remark for remark in CocoDataset(path).remarks)

    path = write(folder, [{"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]}])
    assert not any("has no annotations" in remark for remark in CocoDataset(path).remarks)


def test_fingerprint(folder: Path) -> None:
    """It sees a box, a file's size, and what of the objects is read."""
    objects = [{"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]}]
    first = CocoDataset(write(folder, objects)).fingerprint
    others = {
        CocoDataset(write(folder, [{**objects[0], "bbox": [1, 2, 3, 5]}])).fingerprint,
        CocoDataset(write(folder, objects), crowd=True).fingerprint,
    }
    assert CocoDataset(write(folder, objects)).fingerprint == first
    (folder / "train2017" / "2.jpg").write_bytes(b"other")
    others.add(CocoDataset(write(folder, objects)).fingerprint)

    assert len(others | {first}) == 4


@pytest.mark.parametrize("name", [b"caf\xe9.jpg", b"\\ud800.jpg", b"a\\u0000.jpg"])
def test_one_bad_name(folder: Path, name: bytes) -> None:
    """A byte that is no UTF-8, half a character or a zero takes its image and no other."""
    path = write(folder, [{"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]}])
    path.write_bytes(path.read_bytes().replace(b"1.jpg", name))
    dataset = CocoDataset(path)
    entries = dataset.fetch(range(3))

    assert [isinstance(entry, BadSample) for entry in entries] == [False, True, False]
    assert json_of(entries[0])["boxes"] == [[1, 2, 4, 6]]
    assert len(dataset.fingerprint) == 32


def test_a_wrong_byte_elsewhere(folder: Path) -> None:
    """In the name of a category it is replaced, in an object it takes the image alone."""
    objects = [{"image_id": 6, "category_id": 1, "bbox": [1, 2, 3, 4], "x": "note"}]
    path = write(folder, objects)
    path.write_bytes(path.read_bytes().replace(b"dog", b"d\xffg").replace(b"note", b"n\xffte"))
    dataset = CocoDataset(path)
    entries = dataset.fetch(range(3))

    assert dataset.class_names == ("person", "d\ufffdg")
    assert [isinstance(entry, BadSample) for entry in entries] == [False, True, False]
    assert "not UTF-8" in entries[1].reason


def test_damage_after_opening(folder: Path) -> None:
    """Fetching gives BadSamples, and the names of the classes are a SourceError."""
    path = write(folder, [])
    dataset = CocoDataset(path)
    overwrite(path, 1, b"\xff" * (path.stat().st_size - 1))

    assert all(isinstance(entry, BadSample) for entry in dataset.fetch(range(3)))
    with pytest.raises(SourceError):
        _ = dataset.class_names


def test_png_is_read_by_pillow() -> None:
    """A mask of any width comes back from Pillow as it was."""
    rng = np.random.default_rng(0)
    for width in (1, 7, 8, 9, 31):
        mask = rng.integers(0, 2, (5, width)).astype(bool)
        assert np.array_equal(Image.open(io.BytesIO(write_png(mask))), mask)


def test_layouts_of_the_json(folder: Path) -> None:
    """Objects before images, text that is not ASCII, no categories, a byte order mark."""
    put(folder, {"train2017/ä.jpg": b"image"})
    stored = {
        "annotations": [{"text": "日本", "image_id": 3, "category_id": 9, "bbox": [1, 2, 3, 4]}],
        "images": [{"file_name": "ä.jpg", "id": 3}],
    }
    text = json.dumps(stored, ensure_ascii=False).encode("utf-8-sig")
    path = put(folder, {ANNOTATIONS: text}) / ANNOTATIONS
    dataset = CocoDataset(path)
    [sample] = dataset.fetch([0])

    assert (sample.key, sample.image) == ("instances_train2017.json/ä.jpg", b"image")
    assert json_of(sample)["labels"] == [9]
    assert dataset.class_names == ()


def test_the_reason_of_a_damaged_mask_is_the_same_in_each_run() -> None:
    """Without the address of an object that Pillow names."""
    data = write_png(np.ones((4, 4), bool)).replace(b"IDAT", bytes(4))
    with pytest.raises(ValueError, match=r"^mask cannot be decoded: cannot identify image file$"):
        read_png(data, "mask", 1)
