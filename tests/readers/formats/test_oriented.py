"""Oriented boxes of YOLO, COCO and LabelMe: four corners as the file states them, and data that may be something else."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torchvision.transforms.v2.functional import convert_bounding_box_format

from readers import BadSample, open_dataset
from readers.formats.boxes.oriented import (
    area_of,
    corners_of_rotated,
    fit_corners,
    has_area,
    is_rectangle,
    look_like_turned_boxes,
)
from tests.support.annotated import (
    BOX,
    HEIGHT,
    WIDTH,
    labelme_json,
    outline,
    picture,
    put,
    shape,
    write_yolo,
    yolo_row,
)
from tests.support.entries import json_of
from tests.support.opening import assert_refused, open_with_warning, warnings_of

IMAGE = picture(kind="JPEG")
TURNED = [20, 4, 40, 24, 28, 36, 8, 16]  # clockwise from the corner that is its heading
CORNERS = [8, 4, 40, 4, 40, 36, 8, 36]  # of BOX
LEAVING = [-6, 10, 14, -10, 30, 6, 10, 26]  # two corners outside, the centre inside
BEYOND = [-30, 10, -10, -10, 6, 6, -14, 26]  # the centre outside
AWAY = [-40, 10, -30, 10, -30, 20, -40, 20]
ORIENTED = "xyxyxyxy"


def shares(corners: list[float]) -> tuple[float, ...]:
    return tuple(value / (HEIGHT if at % 2 else WIDTH) for at, value in enumerate(corners))


def rotated(number: int = 500) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Boxes (centre x, centre y, width, height, degrees)."""
    random = np.random.default_rng(0)
    return random.uniform((0, 0, 5, 5, -400), (500, 500, 300, 300, 400), (number, 5))


def test_corners_of_rotated_boxes_are_those_of_torchvision() -> None:
    boxes = rotated()
    corners = np.array([corners_of_rotated(box) for box in boxes.tolist()])
    expected = convert_bounding_box_format(torch.from_numpy(boxes), "CXCYWHR", "XYXYXYXY")  # type: ignore[arg-type]

    assert np.abs(corners - expected.numpy()).max() < 1e-3
    mirrored = [corners_of_rotated([*box[:4], -box[4]]) for box in boxes.tolist()]
    assert np.abs(np.array(mirrored) - expected.numpy()).max() > 1  # the other direction


def test_areas_are_those_of_opencv() -> None:
    for box in rotated(100).tolist():
        corners = corners_of_rotated(box)
        points = np.array(corners, np.float32).reshape(4, 2)

        assert area_of(corners) == pytest.approx(cv2.contourArea(points), rel=1e-4)
        assert area_of(corners[6:] + corners[:6]) == pytest.approx(area_of(corners))
    assert not has_area([1, 1, 2, 2, 3, 3, 4, 4])
    assert not has_area([1, 1, 5, 2, 1, 1, 2, 9])


def test_rectangles_are_told_from_other_outlines() -> None:
    """Corners rounded to pixels stay rectangles; kites, trapeziums and parallelograms are none."""
    whole = [[round(value) for value in corners_of_rotated(box)] for box in rotated().tolist()]
    kites = [
        [50, 0, 80, 40, 50, 120, 20, 40],
        [0, 0, 100, 10, 90, 60, 10, 50],
        [0, 0, 60, 0, 50, 40, 10, 40],
        [0, 0, 60, 0, 90, 40, 30, 40],
    ]

    assert all(map(is_rectangle, whole))
    assert not any(map(is_rectangle, kites))
    assert look_like_turned_boxes([*whole[:20], *kites[:2]])
    assert not look_like_turned_boxes([*whole[:10], *kites])
    assert not look_like_turned_boxes([CORNERS, CORNERS])


@pytest.mark.parametrize(
    ("corners", "outside", "expected"),
    [
        (TURNED, "raise", TURNED),
        (LEAVING, "raise", LEAVING),
        (LEAVING, "clip", LEAVING),
        (BEYOND, "raise", r"a: its centre \(-12, 8\) lies outside the picture, 64 x 48"),
        (BEYOND, "clip", BEYOND),
        (AWAY, "clip", None),
        ([8, 4, 40, 4, 8, 4, 40, 4], "clip", "a: its four corners enclose no area"),
    ],
)
def test_boxes_that_leave_their_picture_are_never_deformed(
    corners: list[float], outside: Any, expected: Any
) -> None:
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            fit_corners(corners, (HEIGHT, WIDTH), outside, "a")
    else:
        assert fit_corners(corners, (HEIGHT, WIDTH), outside, "a") == expected


def test_yolo_returns_the_corners_of_the_file(tmp_path: Path) -> None:
    """Order and winding are those of the file, also counter-clockwise; nothing else describes the boxes."""
    reverse = [value for at in (6, 4, 2, 0) for value in TURNED[at : at + 2]]
    text = "\ufeff" + "".join(yolo_row(1, shares(one)) for one in (TURNED, reverse, LEAVING))
    root = write_yolo(tmp_path, IMAGE, text.replace("\n", " \r\n"), "")
    first, empty = (json_of(one) for one in open_dataset(root, task="obb").fetch([0, 1]))

    assert np.allclose(first.pop("boxes"), [TURNED, reverse, LEAVING])
    assert first == {"labels": [1, 1, 1], "box_format": ORIENTED}
    assert empty == {"boxes": [], "labels": [], "box_format": ORIENTED}


@pytest.mark.parametrize(
    ("numbers", "match"),
    [
        (shares(TURNED)[:6], "6 numbers behind the class, task='obb' has 8: x, y of four corners"),
        ((*shares(TURNED), 0.9), "9 numbers .* without the confidence of predictions"),
        ((0.5, 0.5, 0.2, 0.1, 0.3), "5 numbers behind the class, task='obb' has 8"),
        (tuple(TURNED), r"24 \(of the box around the corners\) is no share"),
        (
            shares(BEYOND),
            r"-0.1875 \(of the box around the corners\) is no share of the picture's size",
        ),
        (shares([8, 4] * 4), "its four corners enclose no area"),
    ],
    ids=["six", "confidence", "angle", "pixels", "centre outside", "a point"],
)
def test_rows_of_yolo_that_are_no_oriented_box(
    tmp_path: Path, numbers: tuple[float, ...], match: str
) -> None:
    root = write_yolo(tmp_path, IMAGE, yolo_row(1, numbers))
    [bad] = open_dataset(root, task="obb").fetch([0])

    assert isinstance(bad, BadSample)
    with pytest.raises(AssertionError, match=match):
        raise AssertionError(bad.reason)


@pytest.mark.parametrize(
    ("corners", "expected"),
    [
        (TURNED, TURNED),
        (BEYOND, BEYOND),
        (AWAY, None),
        ([value + 3 * WIDTH for value in CORNERS], None),
        ([value * 4 - 96 for value in CORNERS], [value * 4 - 96 for value in CORNERS]),
    ],
    ids=["inside", "centre outside", "outside", "far outside", "around the picture"],
)
def test_yolo_leaves_out_oriented_boxes_outside(
    tmp_path: Path, corners: list[float], expected: list[float] | None
) -> None:
    """Only those that lie outside completely, as in DOTA and LabelMe; pixels are still refused."""
    root = write_yolo(tmp_path, IMAGE, yolo_row(1, shares(corners)), yolo_row(1, tuple(TURNED)))
    entry, bad = open_dataset(root, task="obb", outside="clip").fetch([0, 1])

    assert np.allclose(json_of(entry)["boxes"], [] if expected is None else [expected])
    assert "no share of the picture's size, which is from -10 to 10 (pixels?)" in bad.reason  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("rows", "task", "match"),
    [
        (
            [TURNED],
            "obb",
            "4 rows of 3 files .*, nearly all are rectangles and some are turned, .*task='obb': say",
        ),
        ([CORNERS], "segment", "none is turned, so they are read with task='segment'"),
        ([[4, 4, 60, 10, 50, 40, 10, 30]], "segment", "several are no rectangles"),
    ],
    ids=["turned", "upright", "outline"],
)
def test_rows_of_four_corners_are_guessed_with_a_warning(
    tmp_path: Path, rows: list[list[float]], task: str, match: str
) -> None:
    """The warning names both tasks; a task that is given, or masks, which are of outlines only, settle it."""
    text = "".join(yolo_row(label, shares(one)) for one in rows for label in (0, 1))
    root = write_yolo(tmp_path, IMAGE, text, "", text)
    dataset = open_with_warning(match, root)

    assert dataset.task == task
    assert dataset.fingerprint == open_dataset(root, task=task).fingerprint  # type: ignore[call-overload]
    assert (json_of(dataset.fetch([0])[0])["box_format"] == ORIENTED) == (task == "obb")
    assert warnings_of(root, task="obb") == warnings_of(root, task="segment") == []
    assert open_dataset(root, masks=True).task == "segment"  # type: ignore[attr-defined]
    assert_refused(r"masks=True is for outlines, and .* task='obb'", root, task="obb", masks=True)


def test_outlines_of_other_corners_settle_the_task(tmp_path: Path) -> None:
    triangle = yolo_row(1, (0.1, 0.1, 0.9, 0.1, 0.5, 0.9))
    root = write_yolo(tmp_path, IMAGE, yolo_row(0, shares(TURNED)), triangle)

    assert warnings_of(root) == []
    assert open_dataset(root).task == "segment"  # type: ignore[attr-defined]


def coco(root: Path, *objects: dict[str, Any]) -> Path:
    images = [{"id": 1, "file_name": "a.jpg", "height": HEIGHT, "width": WIDTH}]
    common = {"image_id": 1, "category_id": 1}
    stored = {"images": images, "categories": [{"id": 1, "name": "ship"}]}
    stored["annotations"] = [{"id": n, **common, **one} for n, one in enumerate(objects)]
    put(root, {"images/a.jpg": IMAGE, "a.json": json.dumps(stored)})
    return root / "a.json"


OBJECT = {"segmentation": [TURNED], "bbox": [8, 4, 32, 32]}


def test_outlines_of_coco_are_boxes_when_asked_for(tmp_path: Path) -> None:
    """A closing fifth corner is left out, an object without an outline has the corners of its bbox."""
    closed = OBJECT | {"segmentation": [[*TURNED, *TURNED[:2]]], "area": 5}
    path = coco(tmp_path, OBJECT, closed, {"segmentation": [], "bbox": [8, 4, 32, 32]})
    oriented = open_dataset(path, oriented=True)
    found = json_of(oriented.fetch([0])[0])

    assert found["boxes"] == [TURNED, TURNED, CORNERS]
    assert found["area"] == [480, 5, 32 * 32]
    assert (found["labels"], found["box_format"]) == ([0, 0, 0], ORIENTED)
    upright = open_dataset(path, oriented=False)
    assert json_of(upright.fetch([0])[0])["boxes"] == [[*BOX]] * 3
    assert upright.fingerprint != oriented.fingerprint


def test_coco_warns_of_outlines_that_look_like_boxes(tmp_path: Path) -> None:
    path = coco(tmp_path / "a", OBJECT, OBJECT)
    dataset = open_with_warning(
        "the outlines of 2 objects .* turned, and boxes are .* say oriented=True .* or oriented=False",
        path,
    )

    assert dataset.fingerprint == open_dataset(path, oriented=False).fingerprint
    assert warnings_of(path, oriented=True) == warnings_of(path, oriented=False) == []
    triangle = OBJECT | {"segmentation": [[8, 4, 40, 4, 20, 36]]}
    upright, bare = OBJECT | {"segmentation": [CORNERS]}, OBJECT | {"segmentation": []}
    for number, objects in enumerate(([upright], [triangle], [bare], [OBJECT, OBJECT, triangle])):
        assert warnings_of(coco(tmp_path / str(number), *objects)) == []


@pytest.mark.parametrize("angle", [330.0, 30, -75.5, 725.0])
def test_rotations_beside_boxes_of_coco(tmp_path: Path, angle: float) -> None:
    """CVAT's angles are clockwise, as OpenCV's; the corners begin with the top left one before the rotation."""
    path = coco(tmp_path, {"bbox": [8, 4, 30, 10], "attributes": {"rotation": angle}})
    expected = np.roll(cv2.boxPoints(((23, 9), (30, 10), angle)), -1, axis=0)
    [found] = json_of(open_dataset(path, oriented=True).fetch([0])[0])["boxes"]

    assert np.allclose(found, expected.ravel(), atol=1e-4)
    mirrored = np.roll(cv2.boxPoints(((23, 9), (30, 10), -angle)), -1, axis=0)
    assert np.abs(found - mirrored.ravel()).max() > 1  # the other direction


def test_rotations_of_coco_that_are_not_used_are_warned_about(tmp_path: Path) -> None:
    """Without oriented= the boxes are unturned; an object with an outline, or another attribute, has no such angle."""
    turned_one = {"bbox": [8, 4, 30, 10], "attributes": {"rotation": 330.0}}
    path = coco(tmp_path / "a", turned_one, turned_one, {"bbox": [8, 4, 32, 32]})
    dataset = open_with_warning("has 2 boxes with a rotation .*, which is not used, so", path)

    assert json_of(dataset.fetch([0])[0])["boxes"][0] == [8, 4, 38, 14]
    assert warnings_of(path, oriented=True) == warnings_of(path, oriented=False) == []
    for number, angle in enumerate((0.0, 360, True, "north", None, [30])):
        one = {"bbox": [8, 4, 32, 32], "attributes": {"rotation": angle}}
        path = coco(tmp_path / str(number), one)
        assert warnings_of(path) == []
        assert json_of(open_dataset(path, oriented=True).fetch([0])[0])["boxes"] == [CORNERS]
    outlined = coco(tmp_path / "b", OBJECT | {"attributes": {"rotation": 30.0}})
    assert json_of(open_dataset(outlined, oriented=True).fetch([0])[0])["boxes"] == [TURNED]
    assert not any("with a rotation" in text for text in warnings_of(outlined))


def test_rotated_boxes_of_coco(tmp_path: Path) -> None:
    """Five numbers are Detectron2's, which torchvision calls CXCYWHR; without the option the reason names it."""
    box = [32, 24, 30, 10, 30]
    path = coco(tmp_path, {"bbox": box})
    found = json_of(open_dataset(path, box_format="cxcywhr").fetch([0])[0])
    boxes = torch.tensor([box], dtype=torch.float64)
    expected = convert_bounding_box_format(boxes, "CXCYWHR", "XYXYXYXY")  # type: ignore[arg-type]
    [bad] = open_dataset(path).fetch([0])

    assert np.allclose(found["boxes"], expected, atol=1e-4)
    assert (found["area"], found["box_format"]) == ([pytest.approx(300)], ORIENTED)
    assert (
        "annotation 0: its bbox [32, 24, 30, 10, 30] must be four numbers; say box_format='cxcywhr'"
        in bad.reason
    )  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changed", "options", "match"),
    [
        ({"segmentation": [[1, 1, 9, 1, 5, 9]]}, {"oriented": True}, "no outline of four corners"),
        ({"segmentation": [TURNED, TURNED]}, {"oriented": True}, "no outline of four corners"),
        (
            {"segmentation": {"counts": "", "size": [1, 1]}},
            {"oriented": True},
            "no outline of four",
        ),
        ({"bbox": [1, 2, 3, 4]}, {"box_format": "cxcywhr"}, "must be five numbers for box_format="),
        ({"bbox": [1, 2, 0, 4, 5]}, {"box_format": "cxcywhr"}, "a width and a height above 0"),
    ],
)
def test_objects_of_coco_that_have_no_oriented_box(
    tmp_path: Path, changed: dict[str, Any], options: dict[str, Any], match: str
) -> None:
    [bad] = open_dataset(coco(tmp_path, OBJECT | changed), **options).fetch([0])

    assert isinstance(bad, BadSample)
    assert match in bad.reason


def labelme(root: Path, *shapes: dict[str, Any], name: str = "0") -> Path:
    return put(
        root, {f"{name}.jpg": IMAGE, f"{name}.json": labelme_json(*shapes, image=f"{name}.jpg")}
    )


def turned(kind: str = "oriented_rectangle", **more: Any) -> dict[str, Any]:
    return shape(kind, [TURNED[at : at + 2] for at in range(0, 8, 2)], **more)


LABELME: dict[str, Any] = {"classes": ["dog"]}


@pytest.mark.parametrize("kind", ["oriented_rectangle", "rotation", "rotated_rectangle"])
def test_rotated_rectangles_of_labelme(tmp_path: Path, kind: str) -> None:
    """If there are no other shapes with an area, they are oriented boxes; what the file has more stays in shapes."""
    root = labelme(tmp_path, turned(kind, direction=0.7), shape("point", [[1, 2]]))
    dataset = open_dataset(root, **LABELME)
    found = json_of(dataset.fetch([0])[0])

    assert dataset.oriented  # type: ignore[attr-defined]
    assert (found["boxes"], found["box_format"]) == ([TURNED], ORIENTED)
    assert (found["shapes"][0]["shape_type"], found["shapes"][0]["direction"]) == (kind, 0.7)
    assert (found["keypoints"], found["keypoint_objects"]) == ([[1, 2]], [-1])
    extents = json_of(open_dataset(root, oriented=False, **LABELME).fetch([0])[0])
    assert (extents["boxes"], extents["box_format"]) == ([[8, 4, 40, 36]], "xyxy")


def test_labelme_with_rotated_and_other_shapes(tmp_path: Path) -> None:
    """Extents with a warning when the first one is read, or four corners of all when asked for."""
    root = labelme(tmp_path, turned(), shape(), turned(group_id=1), shape(group_id=1))
    dataset = open_dataset(root, **LABELME)
    with pytest.warns(UserWarning, match="0.json has 2 rotated rectangles, .*say oriented=True"):
        assert json_of(dataset.fetch([0])[0])["boxes"] == [[*BOX]] * 3
    oriented = open_dataset(root, oriented=True, **LABELME)

    assert "shape 3 is no shape of four corners" in oriented.fetch([0])[0].reason  # type: ignore[union-attr]
    assert oriented.fingerprint != dataset.fingerprint
    assert dataset.fingerprint == open_dataset(root, oriented=False, **LABELME).fingerprint


def points(corners: list[float]) -> list[list[float]]:
    return [corners[at : at + 2] for at in range(0, len(corners), 2)]


@pytest.mark.parametrize(
    ("kind", "drawn", "expected"),
    [
        ("polygon", TURNED, TURNED),
        ("polygon", [*TURNED, *TURNED[:2]], TURNED),
        ("rectangle", CORNERS[2:] + CORNERS[:2], CORNERS[2:] + CORNERS[:2]),
        ("rectangle", [40, 36, 8, 4], CORNERS),
        ("circle", [24, 20, 24, 36], [8, 4, 40, 4, 40, 36, 8, 36]),
        ("polygon", TURNED[:6], "0.json shape 1 is no shape of four corners, which oriented boxes"),
        ("polygon", [*TURNED, 9, 9], "say oriented=False to have the box around it"),
    ],
)
def test_shapes_of_labelme_as_oriented_boxes(
    tmp_path: Path, kind: str, drawn: list[float], expected: Any
) -> None:
    """Four corners as they are drawn, without a repeated fifth; an outline of others is refused, as in COCO."""
    root = labelme(tmp_path, shape(kind, points(drawn)))
    [entry] = open_dataset(root, oriented=True, **LABELME).fetch([0])
    if isinstance(expected, str):
        assert expected in entry.reason  # type: ignore[union-attr]
    else:
        assert json_of(entry)["boxes"] == [expected]


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        (CORNERS, [*BOX]),
        (CORNERS[4:] + CORNERS[:4], [*BOX]),
        (TURNED, "rectangle has 4 points, which are not the corners of an upright one"),
        ([8, 4, 40, 36, 40, 4, 8, 36], "not the corners of an upright one"),
        ([8, 4, 8, 4, 40, 36, 40, 36], "not the corners of an upright one"),
        (CORNERS[:6], "rectangle has 3 points, which are not"),
    ],
    ids=["upright", "other first corner", "turned", "crossed", "two corners twice", "three"],
)
def test_rectangles_of_labelme_with_four_points(
    tmp_path: Path, drawn: list[float], expected: Any
) -> None:
    """X-AnyLabeling writes all corners of an upright rectangle."""
    root = labelme(tmp_path, shape("rectangle", points(drawn)))
    [entry] = open_dataset(root, **LABELME).fetch([0])
    if isinstance(expected, str):
        assert expected in entry.reason  # type: ignore[union-attr]
    else:
        assert json_of(entry)["boxes"] == [expected]


def test_labelme_boxes_outside(tmp_path: Path) -> None:
    root = labelme(tmp_path, shape("rotation", points(BEYOND)), turned())
    [bad] = open_dataset(root, **LABELME).fetch([0])

    assert "0.json shape 1: its centre (-12, 8) lies outside" in bad.reason  # type: ignore[union-attr]
    [entry] = open_dataset(root, outside="clip", **LABELME).fetch([0])
    assert json_of(entry)["boxes"] == [BEYOND, TURNED]


def test_yolo_outlines_keep_their_polygons(tmp_path: Path) -> None:
    root = write_yolo(tmp_path, IMAGE, yolo_row(1, outline()))
    found = json_of(open_dataset(root, task="segment").fetch([0])[0])

    assert np.allclose(found["polygons"], [CORNERS])
    assert np.allclose(found["boxes"], [[*BOX]])
