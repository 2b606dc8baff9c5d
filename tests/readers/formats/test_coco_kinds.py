"""The kinds of COCO files as pycocotools reads them: instances, keypoints, captions, panoptic masks; and files in the wild."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pycocotools import mask as api
from pycocotools.coco import COCO

from dali_pipes import Loader
from gpu_aug import Recipe, Resize
from readers import SourceError, open_dataset
from tests.support.annotated import picture
from tests.support.moved import assert_boxes_fit, assert_masks_fit, block, moved_batch

SIZE = (48, 64)
BOX = (8, 4, 40, 36)
BLOCK = block(SIZE, BOX)
CATEGORIES = [
    {"id": 18, "name": "dog", "isthing": 1},
    {"id": 1, "name": "person", "isthing": 1},
    {"id": 90, "name": "grass", "isthing": 0},
]
CORNERS = [8, 4, 40, 4, 40, 36, 8, 36]


def images(folder: Path, count: int = 3) -> list[dict[str, Any]]:
    """White blocks, the last one in a folder of its own; ids run backwards."""
    listed = []
    for number in range(count):
        name = f"{'sub/' if number == count - 1 else ''}{number:012d}.png"
        path = folder / "train2017" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.repeat(BLOCK[..., None], 3, axis=2)).save(path)
        listed.append({"id": 1000 - number, "file_name": name, "width": 64, "height": 48})
    return listed


def store(folder: Path, name: str, **lists: Any) -> Path:
    path = folder / "annotations" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    stored = {"info": {}, "categories": CATEGORIES} | lists
    path.write_text(json.dumps({key: one for key, one in stored.items() if one is not None}))
    return path


def box(image: int | str, **further: Any) -> dict[str, Any]:
    found = {"id": 1, "image_id": image, "category_id": 18, "bbox": [8, 4, 32, 32], "area": 1024.0}
    return found | {"iscrowd": 0, "segmentation": [CORNERS]} | further


def theirs(path: Path) -> COCO:
    with contextlib.redirect_stdout(io.StringIO()):
        return COCO(str(path))


def told(sample: Any) -> Any:
    return json.loads(bytes(sample.fields["json"]))


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_instances(tmp_path: Path) -> None:
    """Polygons, run lengths as a list and as text, a crowd: boxes, classes and pixels of pycocotools."""
    text = api.encode(np.asfortranarray(BLOCK > 0))
    listed = [4 + 8 * 48]
    for _ in range(31):
        listed += [32, 16]
    listed += [32, 48 * 64 - sum(listed) - 32]
    annotations = [
        box(1000, id=5, segmentation={"size": [48, 64], "counts": text["counts"].decode()}),
        box(999, id=6, segmentation={"size": [48, 64], "counts": listed}, iscrowd=1),
        box(999, id=7, segmentation=[CORNERS, [0, 40, 9, 40, 9, 47]], category_id=1),
        box(998, id=8),
    ]
    path = store(tmp_path, "instances_train2017", images=images(tmp_path), annotations=annotations)
    api_ = theirs(path)
    dataset = open_dataset(path, masks=True, crowd=True)
    found = dataset.fetch(range(3))

    assert dataset.class_names == ("person", "dog", "grass")
    assert [one.key.partition("/")[2] for one in found] == [
        one["file_name"] for one in api_.dataset["images"]
    ]
    for number, sample in enumerate(found):
        wanted = api_.loadAnns(api_.getAnnIds(imgIds=[1000 - number]))
        corners = [[x, y, x + w, y + h] for x, y, w, h in (one["bbox"] for one in wanted)]
        assert told(sample)["boxes"] == corners
        assert told(sample)["area"] == [one["area"] for one in wanted]
        assert told(sample)["iscrowd"] == [one["iscrowd"] for one in wanted]
        names = [api_.cats[one["category_id"]]["name"] for one in wanted]
        assert [dataset.class_names[label] for label in told(sample)["labels"]] == names
        for place, one in enumerate(wanted):
            with Image.open(io.BytesIO(sample.fields[f"mask.{place}.png"])) as mask:
                assert np.array_equal(mask, api_.annToMask(one).astype(bool)), (number, place)
    plain = [told(one)["boxes"] for one in open_dataset(path).fetch(range(3))]
    assert list(map(len, plain)) == [
        len(api_.getAnnIds(imgIds=[1000 - number], iscrowd=0)) for number in range(3)
    ]


def test_targets_follow_their_images(tmp_path: Path) -> None:
    """Boxes and masks of instances, cropped and mirrored by the loader."""
    listed = images(tmp_path)
    annotations = [box(one["id"]) for one in listed]
    path = store(tmp_path, "instances_train2017", images=listed, annotations=annotations)
    batch = moved_batch(open_dataset(path, masks=True))

    assert_boxes_fit(batch.images, batch.boxes)
    assert_masks_fit(batch.images, torch.stack([masks[0] for masks in batch.masks]))


def test_keypoints(tmp_path: Path) -> None:
    """Those that are labelled, with their visibility, as pycocotools counts them."""
    person = {"id": 1, "name": "person", "keypoints": ["nose", "eye", "ear"], "skeleton": [[1, 2]]}
    points = [8, 4, 2, 40, 4, 1, 0, 0, 0]
    one = box(1000, category_id=1, keypoints=points, num_keypoints=2)
    listed = images(tmp_path)
    path = store(
        tmp_path,
        "person_keypoints_train2017",
        images=listed,
        annotations=[one],
        categories=[person],
    )
    [stored] = theirs(path).loadAnns(theirs(path).getAnnIds(imgIds=[1000]))
    [sample] = open_dataset(path).fetch([0])

    assert len(told(sample)["keypoints"]) == stored["num_keypoints"]
    assert told(sample)["keypoints"] == [[8, 4], [40, 4]]
    assert told(sample)["keypoint_labels"] == [0, 1]
    assert told(sample)["keypoint_visibility"] == [2, 1]


def test_captions(tmp_path: Path) -> None:
    """A list of texts for each image, and no empty boxes."""
    listed = images(tmp_path)
    said = [{"id": k, "image_id": 1000 - k // 2, "caption": f"größe {k}"} for k in range(4)]
    path = store(tmp_path, "captions_train2017", images=listed, annotations=said, categories=None)
    found = open_dataset(path).fetch(range(3))

    for number, sample in enumerate(found):
        wanted = theirs(path).loadAnns(theirs(path).getAnnIds(imgIds=[1000 - number]))
        assert json.loads(bytes(sample.fields["captions"])) == [one["caption"] for one in wanted]
        assert "json" not in sample.fields


def panoptic(folder: Path, **segment: Any) -> Path:
    """Each image has a dog of id 70000 on grass of id 5; the first two rows are void."""
    listed, annotations = images(folder), []
    for one in listed:
        ids = np.where(BLOCK > 0, 70000, 5)
        ids[:2] = 0
        colors = np.stack([ids & 255, ids >> 8 & 255, ids >> 16], -1).astype(np.uint8)
        name = Path(one["file_name"]).name
        path = folder / "annotations" / "panoptic_train2017" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(colors).save(path)
        dog = {"id": 70000, "category_id": 18, "iscrowd": 0, "bbox": [8, 4, 32, 32], "area": 1024}
        grass = dog | {"id": 5, "category_id": 90, "bbox": [0, 2, 64, 46]}
        segments = [dog | segment, grass]
        annotations.append({"image_id": one["id"], "file_name": name, "segments_info": segments})
    return store(folder, "panoptic_train2017", images=listed, annotations=annotations)


def test_panoptic(tmp_path: Path) -> None:
    """A semantic mask of the segments' classes, 255 where there is none, and the things as objects."""
    path = panoptic(tmp_path)
    dataset = open_dataset(path)
    first = told(dataset.fetch([0])[0])
    options = {"device": "cpu", "decoder": "cpu", "shuffle": "none"}
    [batch] = Loader(dataset, Recipe([Resize(SIZE)]), batch_size=3, **options)
    expected = np.where(BLOCK > 0, 1, 2)
    expected[:2] = 255

    assert all(np.array_equal(mask, expected) for mask in batch.masks)
    assert (first["boxes"], first["labels"]) == ([[8, 4, 40, 36]], [1])
    assert first["segment_ids"] == [70000]
    moved = moved_batch(dataset)
    assert_boxes_fit(moved.images, moved.boxes)
    assert_masks_fit(moved.images, moved.masks == 1)


def test_panoptic_files_that_do_not_fit(tmp_path: Path) -> None:
    """A folder of masks that is not there, ids of no mask, a category that is not listed."""
    for number, (segment, match) in enumerate(
        [
            ({"id": 1 << 24}, "no number of 24 bits"),
            ({"category_id": 3}, "category_id 3"),
            ({"iscrowd": "no"}, "segment 70000: iscrowd must be 0 or 1, got 'no'"),
        ]
    ):
        [bad] = open_dataset(panoptic(tmp_path / str(number), **segment)).fetch([0])
        assert match in bad.reason
    path = panoptic(tmp_path / "moved")
    masks = path.parent / "panoptic_train2017"
    masks.rename(path.parent / "elsewhere")
    with pytest.raises(SourceError, match="names panoptic masks, and there is no folder"):
        open_dataset(path)
    assert len(open_dataset(path, panoptic=path.parent / "elsewhere")) == 3


def test_ids_of_text(tmp_path: Path) -> None:
    """Images and categories may be called by text; classes are sorted as text."""
    listed = [one | {"id": f"ä{one['id']}"} for one in images(tmp_path)]
    categories = [{"id": "z", "name": "dog"}, {"id": "b", "name": "cat"}]
    annotations = [box("ä1000", category_id="z"), box("ä998", category_id="b")]
    path = store(
        tmp_path, "a_train2017", images=listed, annotations=annotations, categories=categories
    )
    for text in (path.read_text(), json.dumps(json.loads(path.read_text()), ensure_ascii=False)):
        path.write_text(text)
        dataset = open_dataset(path)
        assert dataset.class_names == ("cat", "dog")
        assert [told(one)["labels"] for one in dataset.fetch(range(3))] == [[1], [], [0]]


def test_roboflow(tmp_path: Path) -> None:
    """The file beside the images is found in each split's folder."""
    for split in ("train", "valid"):
        listed = images(tmp_path / split)
        for one in (tmp_path / split / "train2017").rglob("*.png"):
            one.rename(tmp_path / split / one.name)
        for one in listed:
            one["file_name"] = Path(one["file_name"]).name
        path = store(tmp_path / split, "x", images=listed, annotations=[box(1000)])
        path.rename(tmp_path / split / "_annotations.coco.json")
    dataset = open_dataset(tmp_path, split="validation")

    assert told(dataset.fetch([0])[0])["boxes"] == [[8, 4, 40, 36]]
    assert dataset.fetch([1])[0].image is not None
    assert open_dataset(tmp_path / "train").fingerprint == dataset.fingerprint


def test_annotations_of_images_that_are_not_listed(tmp_path: Path) -> None:
    """They are counted in one warning, also when the index is there already."""
    for number, (ids, end) in enumerate(
        [
            ((1000, 5, 6, "1000"), "together$"),
            ((1000, "1000", "998", "9"), r"together \(one has ids that are text, the o.*"),
        ]
    ):
        boxes = [box(one) for one in ids]
        listed = images(tmp_path)
        path = store(tmp_path, f"{number}_train2017", images=listed, annotations=boxes)
        for _ in range(2):
            with pytest.warns(
                UserWarning, match=f"has 3 annotations of images that it does not list.*{end}"
            ):
                open_dataset(path)


def test_boxes_without_an_area(tmp_path: Path) -> None:
    """An object whose box has no width or height is left out, as by many tools, and counted."""
    boxes = [[2, 2, 5, 6], [2, 2, 0, 6], [2, 2, 5, 0]]
    objects = [{"image_id": 1, "category_id": 1, "bbox": box} for box in boxes]
    image = {"id": 1, "file_name": "a.png", "height": 48, "width": 64}
    (tmp_path / "a.png").write_bytes(picture())
    stored = {"images": [image], "annotations": objects, "categories": [{"id": 1, "name": "dog"}]}
    (tmp_path / "a.json").write_text(json.dumps(stored))

    with pytest.warns(UserWarning, match="has 2 boxes without a width and a height above 0"):
        [sample] = open_dataset(tmp_path / "a.json").fetch([0])
    assert json.loads(bytes(sample.fields["json"]))["boxes"] == [[2, 2, 7, 8]]


def test_corners_that_are_taken_for_sizes(tmp_path: Path) -> None:
    """A share of boxes beyond their images is told, and the argument reads them as they are meant."""
    listed = images(tmp_path)
    boxes = [[8, 4, 40, 36], [40, 30, 60, 44], [1, 1, 9, 9], [50, 1, 60, 9]]
    annotations = [box(1000 - at // 2, bbox=one) for at, one in enumerate(boxes)]
    annotations += [box(998, bbox=one) for one in boxes * 3]
    path = store(tmp_path, "i_train2017", images=listed, annotations=annotations)
    with pytest.warns(UserWarning, match=r"x \+ w or y \+ h exceeds the image in 50% of the boxes"):
        wrong = open_dataset(path)
    right = open_dataset(path, box_format="xyxy")

    assert [told(one)["boxes"] for one in right.fetch(range(2))] == [boxes[:2], boxes[2:]]
    assert right.fingerprint != wrong.fingerprint
    with pytest.raises(SourceError, match="box_format='yxyx' must be one of 'xywh', 'xyxy'"):
        open_dataset(path, box_format="yxyx")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"categories": [{"id": 3, "name": "cat"}, {"id": 18, "name": "cat"}]},
            r"gives the name 'cat' to the classes 3 and 18, which count as different",
        ),
        (
            {"annotations": [box(1000, bbox=[0.1, 0.2, 0.5, 0.5], segmentation=None)] * 3},
            r"all boxes \(3\) lie within the first pixels.*look like shares",
        ),
    ],
)
def test_lists_that_are_warned_of(tmp_path: Path, change: Any, match: str) -> None:
    """Two categories of one name, and boxes that are shares of their images."""
    lists = {"images": images(tmp_path), "annotations": [box(1000)]} | change
    path = store(tmp_path, "i_train2017", **lists)
    for _ in range(2):
        with pytest.warns(UserWarning, match=match):
            open_dataset(path)


def test_ids_with_a_point(tmp_path: Path) -> None:
    """1.0 is the id 1, as pandas writes it; 1.5 and true are no ids, which the refusal says."""
    listed = [one | {"id": float(one["id"])} for one in images(tmp_path)]
    categories = [{"id": 18.0, "name": "dog"}, {"id": 1.0, "name": "cat"}]
    lists = {"images": listed, "annotations": [box(1000.0), box(998, category_id=1.0)]}
    path = store(tmp_path, "i_train2017", **lists, categories=categories)
    dataset = open_dataset(path)
    assert dataset.class_names == ("cat", "dog")
    assert [told(one)["labels"] for one in dataset.fetch(range(3))] == [[1], [], [0]]
    with pytest.warns(UserWarning, match="no categories"):
        bare = open_dataset(store(tmp_path, "j_train2017", **lists, categories=None))
    assert [told(one)["labels"] for one in bare.fetch(range(3))] == [[18], [], [1]]
    for number in (True, 1.5):
        lists["images"] = [one | {"id": number} for one in listed[:1]]
        with pytest.raises(
            SourceError, match=f"images\\[0\\]: it has no file_name or no id.*{number}"
        ):
            open_dataset(store(tmp_path, "k_train2017", **lists))
        lists["images"] = listed
        [bad] = open_dataset(
            store(
                tmp_path, "l_train2017", images=listed, annotations=[box(1000, category_id=number)]
            )
        ).fetch([0])
        assert f"category_id {number!r}" in bad.reason
