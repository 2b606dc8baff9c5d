"""Made data of masks, TensorFlow's object detection, COCO, ImageNet and OpenImages, for examples of the documentation."""

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image
from tfrecord.writer import TFRecordWriter

from tests.support.writers import Written
from tests.support.writers.imagenet import write as write_imagenet
from tests.support.writers.openimages import write as write_openimages

SIDES = {"xmin": 0.25, "ymin": 0.25, "xmax": 0.75, "ymax": 0.5}


def write_targets(folder: Path, image: bytes) -> None:
    """Write carvana/, cityscapes/, boxes.tfrecord, annotations/, ILSVRC2012/ and openimages/, of copies of an image."""
    with Image.open(io.BytesIO(image)) as picture:
        size = picture.height, picture.width
    mask = np.zeros(size, np.uint8)
    mask[10:40, 20:80] = 255
    _put(folder / "carvana/train/0.jpg", image)
    _put(folder / "carvana/train_masks/0_mask.gif", _encoded(mask, "GIF"))
    stem = "train/ulm/ulm_000000_000019"
    _put(folder / f"cityscapes/leftImg8bit/{stem}_leftImg8bit.png", _encoded(mask, "PNG"))
    ids = np.where(mask > 0, 26, 7).astype(np.uint8)
    _put(folder / f"cityscapes/gtFine/{stem}_gtFine_labelIds.png", _encoded(ids, "PNG"))
    _write_tfrecord(folder / "boxes.tfrecord", image)
    _put(folder / "train2017/0.jpg", image)
    _write_coco(folder / "annotations", size)
    sample = Written("a", image, 0)
    for name, write in (("ILSVRC2012", write_imagenet), ("openimages", write_openimages)):
        (folder / name).mkdir()
        write(folder / name, [sample])


def _write_tfrecord(path: Path, image: bytes) -> None:
    writer = TFRecordWriter(str(path))
    sides = {f"image/object/bbox/{side}": ([value], "float") for side, value in SIDES.items()}
    label = {"image/object/class/label": ([2], "int")}
    writer.write({"image/encoded": (image, "byte"), **sides, **label})
    writer.close()


def _write_coco(folder: Path, size: tuple[int, int]) -> None:
    photo = {"id": 1, "file_name": "0.jpg", "height": size[0], "width": size[1]}
    one = {"id": 1, "image_id": 1, "category_id": 18, "bbox": [20, 10, 60, 30]}
    categories = [{"id": 18, "name": "dog"}]
    stored = {"images": [photo], "annotations": [one], "categories": categories}
    _put(folder / "instances_train2017.json", json.dumps(stored).encode())
    said = {"images": [photo], "annotations": [{"id": 1, "image_id": 1, "caption": "a dog"}]}
    _put(folder / "captions_train2017.json", json.dumps(said).encode())


def _encoded(pixels: np.ndarray, kind: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
