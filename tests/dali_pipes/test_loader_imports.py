"""What comes from other libraries at the loader's door: formats of boxes, and pipelines that are no recipe."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import albumentations as A
import kornia.augmentation as K
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2

from dali_pipes import Loader, LoaderError
from dali_pipes.integrations.torch_dataset import from_torch
from gpu_aug import BoxParams, HorizontalFlip, Recipe, RecipeError, Resize, Schedule, Views, apply
from readers import Dataset, open_dataset
from readers.prepare import pack

HEIGHT, WIDTH = 100, 200
CORNERS = [20.0, 10.0, 80.0, 50.0]
FORMATS = {
    "pascal_voc": CORNERS,
    "coco": [20.0, 10.0, 60.0, 40.0],
    "yolo": [0.25, 0.3, 0.3, 0.4],
    "albumentations": [0.1, 0.1, 0.4, 0.5],
}


def write_image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (WIDTH, HEIGHT)).save(path)


def coco(folder: Path) -> Dataset:
    write_image(folder / "images" / "a.png")
    box = {
        "id": 1,
        "image_id": 1,
        "category_id": 1,
        "bbox": FORMATS["coco"],
        "area": 2400,
        "iscrowd": 0,
    }
    image = {"id": 1, "file_name": "a.png", "width": WIDTH, "height": HEIGHT}
    categories = [{"id": 1, "name": "x"}]
    told = {"images": [image], "categories": categories, "annotations": [box]}
    (folder / "coco.json").write_text(json.dumps(told))
    return open_dataset(folder / "coco.json", images=folder / "images")


def yolo(folder: Path) -> Dataset:
    write_image(folder / "images" / "train" / "a.png")
    (folder / "labels" / "train").mkdir(parents=True)
    numbers = " ".join(map(str, FORMATS["yolo"]))
    (folder / "labels" / "train" / "a.txt").write_text(f"0 {numbers}\n")
    (folder / "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nnames: [x]\n")
    return open_dataset(folder, split="train")


def table(folder: Path) -> Dataset:
    write_image(folder / "a.png")
    with (folder / "boxes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", "x1", "y1", "x2", "y2"], ["a.png", *CORNERS]])
    columns = ["x1", "y1", "x2", "y2"]
    return open_dataset(folder / "boxes.csv", image="path", boxes=columns, coords="zero-based")


def manifest(folder: Path) -> Dataset:
    write_image(folder / "a.png")
    (folder / "a.jsonl").write_text(json.dumps({"image": "a.png", "boxes": [CORNERS]}) + "\n")
    return open_dataset(folder / "a.jsonl")


def manifest_in_another_format(folder: Path) -> Dataset:
    write_image(folder / "a.png")
    row = {"image": "a.png", "boxes": [FORMATS["coco"]], "box_format": "coco"}
    (folder / "a.jsonl").write_text(json.dumps(row) + "\n")
    return open_dataset(folder / "a.jsonl")


def packed(folder: Path) -> Dataset:
    manifest(folder)
    pack(str(folder / "a.jsonl"), folder / "packed")
    return open_dataset(folder / "packed")


def torchvision_boxes(_: Path) -> Dataset:
    boxes = tv_tensors.BoundingBoxes([FORMATS["coco"]], format="XYWH", canvas_size=(HEIGHT, WIDTH))  # type: ignore[call-overload]
    return from_torch(
        [(Image.new("RGB", (WIDTH, HEIGHT)), {"boxes": boxes, "labels": torch.tensor([0])})]
    )  # type: ignore[arg-type]


DATASETS: dict[str, Callable[[Path], Dataset]] = {
    made.__name__: made
    for made in (coco, yolo, table, manifest, manifest_in_another_format, packed, torchvision_boxes)
}


@pytest.mark.parametrize("name", DATASETS)
def test_boxes_of_a_reader_are_corners_whatever_an_imported_pipeline_calls_its_own(
    name: str, tmp_path: Path
) -> None:
    data = DATASETS[name](tmp_path)
    for form, wanted in FORMATS.items():
        params = A.BboxParams(format=form, label_fields=["c"], min_area=2000, clip=True)
        recipe = Recipe.from_albumentations(
            A.Compose([A.Resize(HEIGHT, WIDTH)], bbox_params=params)
        )
        with Loader(data, recipe, batch_size=1, device="cpu") as loader:
            assert loader.peek().boxes[0].numpy() == pytest.approx(np.array([wanted]), abs=1e-4)


def test_boxes_of_ones_own_have_the_recipes_format(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png")
    (tmp_path / "a.json").write_text(json.dumps({"boxes": [FORMATS["yolo"]], "labels": [0]}))
    recipe = Recipe([Resize((HEIGHT, WIDTH)), HorizontalFlip(1.0)], boxes=BoxParams("yolo"))
    with Loader(open_dataset(tmp_path), recipe, batch_size=1, device="cpu") as loader:
        assert loader.peek().boxes[0].tolist()[0] == pytest.approx([0.75, 0.3, 0.3, 0.4])


def test_a_format_that_does_not_exist_is_a_bad_sample(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png")
    (tmp_path / "a.json").write_text(json.dumps({"boxes": [CORNERS], "box_format": "corners"}))
    with (
        Loader(
            open_dataset(tmp_path), Recipe([Resize((8, 8))]), batch_size=1, device="cpu"
        ) as loader,
        pytest.raises(
            Exception, match="box_format beside the boxes: BoxParams format must be one of"
        ),
    ):
        loader.peek()


PIPELINES: dict[str, tuple[Any, str]] = {
    "v2": (v2.Compose([v2.Resize((8, 8))]), r"Recipe.from_torchvision\(pipeline\)"),
    "one transform": (v2.Resize((8, 8)), r"Recipe.from_torchvision\(pipeline\)"),
    "a list": ([v2.Resize((8, 8))], r"Recipe.from_torchvision\(pipeline\)"),
    "nn.Sequential": (
        torch.nn.Sequential(v2.Resize((8, 8))),
        r"Recipe.from_torchvision\(pipeline\)",
    ),
    "Albumentations": (A.Compose([A.Resize(8, 8)]), r"Recipe.from_albumentations\(pipeline\)"),
    "one of Albumentations": (A.Resize(8, 8), r"Recipe.from_albumentations\(pipeline\)"),
    "Kornia": (K.AugmentationSequential(K.RandomHorizontalFlip()), r"Recipe\(\[pipeline\]\)"),
    "operations": ([Resize((8, 8))], r"write Recipe\(\[first, second\]\)"),
    "an operation": (Resize((8, 8)), r"Recipe\(\[first, second\]\)"),
    "a preset": ("imagenet_train", r"Recipe.preset\(name\)"),
    "a transform": (Recipe([Resize((8, 8))]).transform(), r"transform.recipe"),
    "a function": (lambda images: images, r"Recipe\(\[function\]\)"),
}
IMAGE = np.zeros((8, 8, 3), np.uint8)
DOORS: dict[str, Callable[[Any, Dataset], Any]] = {
    "Loader": lambda given, data: Loader(data, given, batch_size=1, device="cpu"),
    "Loader.eval": lambda given, data: Loader.eval(data, given, batch_size=1, device="cpu"),
    "apply": lambda given, _: apply(given, [{"image": IMAGE}]),
    "Views": lambda given, _: Views([given]),
    "Schedule": lambda given, _: Schedule({0: given}),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", PIPELINES)
def test_what_is_no_recipe_is_named_with_what_to_write(
    name: str, door: str, tmp_path: Path
) -> None:
    write_image(tmp_path / "x" / "a.png")
    given, said = PIPELINES[name]
    with pytest.raises((LoaderError, RecipeError), match=said):
        DOORS[door](given, open_dataset(tmp_path))


@pytest.mark.parametrize("name", ["v2", "Albumentations"])
def test_other_doors(name: str) -> None:
    from bench.compare.compare import compare
    from dali_pipes.preview import preview_images

    given, said = PIPELINES[name]
    for call in (
        lambda: Recipe(given),
        lambda: Views(given),
        lambda: compare("photos/", given, None, print),  # type: ignore[arg-type]
        lambda: preview_images(None, given, [0]),  # type: ignore[arg-type]
    ):
        with pytest.raises(RecipeError, match=said):
            call()


def test_normalize_for_0_to_255_is_refused_when_the_loader_is_made(tmp_path: Path) -> None:
    from gpu_aug import Normalize

    write_image(tmp_path / "x" / "a.png")
    recipe = Recipe([Resize((8, 8)), Normalize((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))])
    with pytest.raises(RecipeError, match=r"write Normalize\(mean=\(0.485, 0.456, 0.406\)"):
        Loader(open_dataset(tmp_path), recipe, batch_size=1, device="cpu")
