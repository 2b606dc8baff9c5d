"""Datasets tell which keypoints a mirror exchanges: by YOLO's flip_idx, or by names that differ only in left and right."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torchvision.models.detection import KeypointRCNN_ResNet50_FPN_Weights

from readers import SourceError, mix, open_dataset
from readers.labels.flip_pairs import pairs_of_names
from tests.support.annotated import BOX, HEIGHT, WIDTH, labelme_json, picture, put, shape, yolo_row

COCO: list[str] = KeypointRCNN_ResNet50_FPN_Weights.DEFAULT.meta["keypoint_names"]
COCO_PAIRS = ((1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 12), (13, 14), (15, 16))
POSE = f"{yolo_row().strip()} 0.25 0.5 2 0.75 0.5 2 0.5 0.5 2\n"


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (COCO, COCO_PAIRS),  # as torchvision's weights name them
        (["L_Eye", "R_Eye", "Nose", "L_F_Paw", "R_F_Paw"], ((0, 1), (3, 4))),  # AP-10K
        (["Nose", "LEye", "REye", "LBigToe", "RBigToe"], ((1, 2), (3, 4))),  # Halpe
        (["r_ankle", "l_ankle", "pelvis"], ((0, 1),)),  # MPII
        (["lefteye", "righteye", "RIGHT EAR", "LEFT EAR"], ((0, 1), (2, 3))),
        (["handLeft", "handRight", "eye.L", "eye.R", "handL", "handR"], ((0, 1), (2, 3), (4, 5))),
        (["turn left", "turn right", "stop"], ((0, 1),)),
        (["left eye", "right ear", "left ear"], ((1, 2),)),  # one without a partner
        (["Left eye", "right eye"], None),
        (["ear", "eal", "bright", "bleft hand", "pillar", "lamp", "ramp"], None),
        ([], None),
    ],
    ids=str,
)
def test_names_that_differ_in_left_and_right(names: Sequence[str], pairs: Any) -> None:
    """In the manners of known datasets; words that merely hold the letters are left alone."""
    assert pairs_of_names(names) == pairs


def write_coco(root: Path, *keypoints: Any, name: str = "a") -> Any:
    """Open a picture with an object whose keypoints are all seen, and a category for each list of keypoint names."""
    categories = [
        {"id": number, "name": f"c{number}", **({} if names is None else {"keypoints": names})}
        for number, names in enumerate(keypoints, start=1)
    ]
    left, top, right, bottom = BOX
    told = {"bbox": [left, top, right - left, bottom - top], "keypoints": [9, 9, 2] * 3}
    stored = {
        "images": [{"id": 7, "file_name": f"{name}.png", "height": HEIGHT, "width": WIDTH}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 1, **told}],
        "categories": categories,
    }
    put(root, {f"{name}.png": picture(), f"{name}.json": json.dumps(stored)})
    return open_dataset(root / f"{name}.json")


def write_yolo(root: Path, more: str) -> Any:
    """Open a picture with a pose of three keypoints."""
    yaml = f"train: images\nnames: [person, dog]\nkpt_shape: [3, 3]\n{more}"
    files: dict[str, bytes | str] = {"images/a.jpg": picture(kind="JPEG"), "data.yaml": yaml}
    return open_dataset(put(root, files | {"labels/a.txt": POSE}))


@pytest.mark.parametrize(
    ("lists", "names", "pairs"),
    [
        ([COCO], tuple(COCO), COCO_PAIRS),
        ([COCO, None, COCO], tuple(COCO), COCO_PAIRS),
        ([["a", "l_b", "r_b"], ["c", "l_d", "r_d"]], (), ((1, 2),)),  # other names, the same sides
        ([["a", "l_b", "r_b"], ["l_d", "r_d"]], (), None),
        ([["first", "last"]], ("first", "last"), None),
        ([None], (), None),
        ([{"a": 1}], (), None),
    ],
    ids=str,
)
def test_coco_has_the_names_of_its_categories(
    tmp_path: Path, lists: list[Any], names: tuple[str, ...], pairs: Any
) -> None:
    """Labels count within a category, so that they mean one thing only if categories agree."""
    dataset = write_coco(tmp_path, *lists)
    assert (dataset.keypoint_names, dataset.flip_pairs) == (names, pairs)


@pytest.mark.parametrize(
    ("more", "names", "pairs"),
    [
        ("flip_idx: [1, 0, 2]\n", (), ((0, 1),)),
        ("flip_idx: [0, 1, 2]\n", (), ()),
        ("", (), None),
        ("kpt_names: {0: [nose, l_eye, r_eye]}\n", ("nose", "l_eye", "r_eye"), ((1, 2),)),
        ("kpt_names: [nose, l_eye, r_eye]\n", ("nose", "l_eye", "r_eye"), ((1, 2),)),
        ("kpt_names: {0: [l, r, a]}\nflip_idx: [0, 2, 1]\n", ("l", "r", "a"), ((1, 2),)),
        ("kpt_names: {0: [a, b, c], 1: [a, c, b]}\n", (), None),
        ("kpt_names: [a, b]\n", (), None),
    ],
)
def test_yolo_has_flip_idx_or_names(
    tmp_path: Path, more: str, names: tuple[str, ...], pairs: Any
) -> None:
    """flip_idx is believed before the names."""
    dataset = write_yolo(tmp_path, more)
    assert (dataset.keypoint_names, dataset.flip_pairs) == (names, pairs)


def test_a_flip_idx_that_is_no_exchange_is_refused(tmp_path: Path) -> None:
    """Two flips would not give the picture back."""
    with pytest.raises(SourceError, match=r"must exchange keypoints in pairs.*\[1, 2, 0\]"):
        write_yolo(tmp_path, "flip_idx: [1, 2, 0]\n")


def test_points_of_labelme_have_its_classes(tmp_path: Path) -> None:
    """Points are labelled as other shapes are."""
    text = labelme_json(
        shape("point", [[9, 9]], "left eye"), shape("point", [[20, 9]], "right eye"), shape()
    )
    put(tmp_path, {"0.jpg": picture(kind="JPEG"), "0.json": text})
    dataset = open_dataset(tmp_path, classes=["dog", "left eye", "right eye"])
    assert dataset.flip_pairs == ((1, 2),)
    assert dataset.keypoint_names == dataset.class_names


def test_selections_and_mixtures_pass_them_on(tmp_path: Path) -> None:
    """A mixture has those of the datasets that have some, and none if these differ."""
    coco = write_coco(tmp_path, COCO)
    plain = write_coco(tmp_path, ["first", "last"], name="b")
    other = write_yolo(tmp_path / "yolo", "flip_idx: [1, 0, 2]\n")
    for dataset in (
        coco.take(1),
        coco.where([True]),
        coco[:1].take(1),
        coco.with_labels(["x"]),
        coco.with_labels(["x"]).balanced(),
        mix([coco, coco.take(1)]),
    ):
        assert dataset.keypoint_names == tuple(COCO)
        assert dataset.flip_pairs == COCO_PAIRS
    with_plain = mix([coco.with_labels([0]), plain.with_labels([0])])
    assert (with_plain.keypoint_names, with_plain.flip_pairs) == ((), COCO_PAIRS)
    assert mix([coco.with_labels([0]), other.with_labels([0])]).flip_pairs is None
