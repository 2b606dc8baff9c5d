"""The pipeline of train_boxes.py as it is written with Albumentations, for comparison."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from peer_images import loader_of
from torch.utils.data import DataLoader, Dataset


def albumentations_boxes(
    folders: Sequence[Path], side: int, batch_size: int, seed: int
) -> list[DataLoader[Any]]:
    """Return Albumentations' loaders of pictures with boxes: for training, and for the test."""
    import albumentations as A

    steps = [
        A.RandomResizedCrop((side, side), scale=(0.5, 1.0)),
        A.HorizontalFlip(p=0.5),
        A.ColorJitter((0.8, 1.2), (0.8, 1.2), (0.8, 1.2), (-0.05, 0.05), p=1.0),
        A.Normalize(),
    ]
    boxes = A.BboxParams("pascal_voc", label_fields=["labels"], min_visibility=0.3)
    train = BoxFolder(folders[0], A.Compose(steps, bbox_params=boxes, seed=seed))
    test = BoxFolder(
        folders[1], A.Compose([A.Resize(side, side), A.Normalize()], bbox_params=boxes)
    )
    return [
        loader_of(train, batch_size, seed, collate=_boxes),
        loader_of(test, 100, seed, is_training=False, collate=_boxes),
    ]


class BoxFolder(Dataset[Any]):
    """JPEGs with a .json of boxes and labels beside each."""

    def __init__(self, folder: Path, transform: Any) -> None:
        self.paths, self.transform = sorted(folder.glob("*.jpg")), transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        import cv2

        path = self.paths[index]
        image = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
        beside = json.loads(path.with_suffix(".json").read_text())
        return self.transform(image=image, bboxes=beside["boxes"], labels=beside["labels"])


def _boxes(samples: list[dict[str, Any]]) -> SimpleNamespace:
    images = torch.from_numpy(np.stack([sample["image"] for sample in samples])).permute(0, 3, 1, 2)
    boxes = [torch.tensor(sample["bboxes"]).reshape(-1, 4) for sample in samples]
    kinds = [torch.tensor(sample["labels"]).long() for sample in samples]
    return SimpleNamespace(images=images, boxes=boxes, box_labels=kinds)
