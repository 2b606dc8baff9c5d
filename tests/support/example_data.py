"""The made data that examples of the documentation and of docstrings open by name."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np

from tests.support.jpegs import encode, picture
from tests.support.lerobot import Robot
from tests.support.videos import pan, write_video

CLASSES = ("cat", "dog")


def make_example_data(folder: Path) -> None:
    """Write photos/, val/, more/, damaged/, videos/, robot/, train-{000000..000003}.tar, captions.tar and data.parquet."""
    for name, count in (("photos", 18), ("val", 5), ("more", 6), ("damaged", 2)):
        for label, class_name in enumerate(CLASSES):
            (folder / name / class_name).mkdir(parents=True)
            for number in range(count):
                path = folder / name / class_name / f"{number:03d}.jpg"
                path.write_bytes(_jpeg(100 * label + number))
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
    _write_parquet(folder / "data.parquet")
    Robot().write(folder / "robot")


def _jpeg(seed: int) -> bytes:
    return encode(picture(96, 120, seed), "4:2:0")


def _write_tar(path: Path, shard: int) -> None:
    _write_samples(
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
    _write_samples(
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


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _write_samples(path: Path, samples: dict[str, dict[str, bytes]]) -> None:
    with tarfile.open(path, "w") as archive:
        for key, fields in samples.items():
            for ending, content in fields.items():
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def _write_parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = range(10)
    columns = {"photo": [_jpeg(number) for number in numbers], "class": [n % 2 for n in numbers]}
    pq.write_table(pa.table(columns), path)
