"""Two TFRecord shards of tf.train.Examples, with the names that ImageNet's have."""

from pathlib import Path

import pytest

from tests.support.damage import overwrite
from tests.support.writers import Expected, Written

FORMAT = "tfrecord"
CHECKED_AGAINST = "tfrecord"


def write(folder: Path, samples: list[Written]) -> Path:
    writer = pytest.importorskip("tfrecord.writer").TFRecordWriter
    half = len(samples) // 2
    for number, part in enumerate([samples[:half], samples[half:]]):
        shard = writer(str(folder / f"part-{number}.tfrecord"))
        for sample in part:
            shard.write(
                {
                    "image/encoded": (sample.image, "byte"),
                    "image/class/label": (sample.label, "int"),
                    "image/filename": (sample.name.encode(), "byte"),
                    "image/object/scores": ([0.25, 0.5], "float"),
                }
            )
        shard.close()
    return folder


def expected(source: Path) -> list[Expected]:
    from tfrecord.reader import tfrecord_loader

    return [
        Expected(
            f"{shard.name}/{bytes(example['image/filename']).decode()}",
            bytes(example["image/encoded"]),
            int(example["image/class/label"][0]),
        )
        for shard in sorted(source.glob("*.tfrecord"))
        for example in tfrecord_loader(str(shard), None)
    ]


def damage(source: Path) -> Path:
    """Make a record no message: its first byte would begin a field of a type that there is not."""
    shard = source / "part-0.tfrecord"
    data, place = shard.read_bytes(), 0
    for _ in range(3):
        place += 16 + int.from_bytes(data[place : place + 8], "little")
    overwrite(shard, place + 12, b"\7")
    return source
