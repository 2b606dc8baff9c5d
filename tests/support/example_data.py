"""The made data that examples of the documentation and of docstrings open by name."""

import io
import json
from pathlib import Path

import numpy as np

from tests.support import annotated
from tests.support.example_tables import write_tables
from tests.support.example_targets import write_targets
from tests.support.jpegs import encode, picture
from tests.support.kinds import by_opencv, noise, tiff
from tests.support.lerobot import Robot
from tests.support.tars import write_samples
from tests.support.videos import pan, write_video

CLASSES = ("cat", "dog")


def make_example_data(folder: Path) -> None:
    """Write the data that examples open by name."""
    for name, count in (("photos", 18), ("val", 5), ("more", 6), ("damaged", 2)):
        make_photos(folder / name, count)
    _write_table(folder / "photos.csv")
    broken = folder / "damaged" / "cat" / "001.jpg"
    broken.write_bytes(broken.read_bytes()[:1000])
    for shard in range(4):
        _write_tar(folder / f"train-{shard:06d}.tar", shard)
    for label, class_name in enumerate(CLASSES):
        (folder / "videos" / class_name).mkdir(parents=True)
        for number in range(2):
            frames = pan(30, (80, 96), seed=2 * label + number)
            write_video(folder / "videos" / class_name / f"{number}.mp4", frames)
    _write_captions(folder / "captions.tar")
    _write_bands(folder / "bands.tar")
    _write_stereo(folder / "stereo.tar")
    _write_parquet(folder / "data.parquet")
    statistics = {
        name: {"mean": values.mean(0).tolist(), "std": values.std(0).tolist()}
        for name, values in Robot().values().items()
        if name in ("observation.state", "action")
    }
    (Robot().write(folder / "robot") / "meta/stats.json").write_text(json.dumps(statistics))
    _write_annotated(folder)
    write_targets(folder, _jpeg(7))
    write_tables(folder, _jpeg)


def make_photos(folder: Path, count: int = 18) -> None:
    """Write a folder for each class, with so many pictures."""
    for label, class_name in enumerate(CLASSES):
        (folder / class_name).mkdir(parents=True)
        for number in range(count):
            path = folder / class_name / f"{number:03d}.jpg"
            path.write_bytes(_jpeg(100 * label + number))


def _write_annotated(folder: Path) -> None:
    image = annotated.picture(kind="JPEG")
    voc = folder / "VOCdevkit" / "VOC2012"
    annotated.write_voc(voc, image, 3, train="0\n1\n", val="2\n")
    for number in range(3):
        path = voc / "SegmentationClass" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(annotated.mask_png(12))
    yaml = "train: images/train\nval: images/train\nnames: [person, dog]\n"
    annotated.write_yolo(folder / "yolo", image, *([annotated.yolo_row()] * 2), yaml=yaml)
    outline = annotated.yolo_row(1, annotated.outline())
    annotated.write_yolo(folder / "yolo-seg", image, outline)
    text = annotated.labelme_json(annotated.shape())
    annotated.put(folder / "labelme", {"0.jpg": image, "0.json": text})
    labels = "imagesource:GoogleEarth\ngsd:0.146\n8 4 40 4 40 36 8 36 ship 0\n"
    annotated.put(folder / "dota", {"train/images/P0.jpg": image, "train/labelTxt/P0.txt": labels})


def _jpeg(seed: int) -> bytes:
    return encode(picture(96, 120, seed), "4:2:0")


def _write_table(path: Path) -> None:
    rows = ["image,label,caption,tags,height_m,weight_kg,split"]
    for name in CLASSES:
        for number in range(4):
            split = "train" if number < 3 else "val"
            image = f"photos/{name}/{number:03d}.jpg"
            rows.append(f"{image},{name},a {name},tame {name},0.{number + 2},{4 + number},{split}")
    path.write_text("\n".join(rows) + "\n")


def _write_tar(path: Path, shard: int) -> None:
    write_samples(
        path,
        {
            f"{shard}{number:03d}": {
                "jpg": _jpeg(10 * shard + number),
                "cls": str(number % 2).encode(),
            }
            for number in range(10)
        },
    )


def _write_captions(path: Path) -> None:
    talk = [
        {"from": "human", "value": "<image> What is this?"},
        {"from": "gpt", "value": "A cat."},
    ]
    write_samples(
        path,
        {
            f"{number:03d}": {
                "jpg": _jpeg(number),
                "txt": f"picture number {number}".encode(),
                "json": json.dumps({"conversations": talk}).encode(),
                "age": str(number / 2).encode(),
                "npy": _npy(np.full(4, number, np.float32)),
            }
            for number in range(10)
        },
    )


def _write_bands(path: Path) -> None:
    write_samples(
        path,
        {
            f"{number:03d}": {"tif": tiff(noise(5, size=(96, 120), seed=number)), "cls": b"1"}
            for number in range(10)
        },
    )


def _write_stereo(path: Path) -> None:
    flow = np.zeros((96, 120, 2), "<f4")
    write_samples(
        path,
        {
            f"{number:03d}": {
                "left.png": by_opencv("png", picture(96, 120, number)),
                "right.png": by_opencv("png", picture(96, 120, number + 50)),
                "depth.png": by_opencv("png", noise(1, size=(96, 120), seed=number)),
                "flow.flo": b"PIEH" + np.array([120, 96], "<i4").tobytes() + flow.tobytes(),
            }
            for number in range(10)
        },
    )


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _write_parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = range(10)
    columns = {"photo": [_jpeg(number) for number in numbers], "class": [n % 2 for n in numbers]}
    pq.write_table(pa.table(columns), path)
