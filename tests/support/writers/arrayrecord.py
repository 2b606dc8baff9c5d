"""Two ArrayRecord files of tf.train.Examples, not compressed, so that a byte of one image can be changed."""

from pathlib import Path

import pytest

from tests.support.damage import flip
from tests.support.writers import Expected, Written

FORMAT = "arrayrecord"
CHECKED_AGAINST = "array_record"


def write(folder: Path, samples: list[Written]) -> Path:
    module = pytest.importorskip("array_record.python.array_record_module")
    serialize = pytest.importorskip("tfrecord.writer").TFRecordWriter.serialize_tf_example
    half = len(samples) // 2
    for number, part in enumerate([samples[:half], samples[half:]]):
        file = module.ArrayRecordWriter(
            str(folder / f"part-{number}.array_record"), "group_size:1,uncompressed"
        )
        for sample in part:
            features = {"image": (sample.image, "byte"), "label": (sample.label, "int")}
            file.write(serialize({**features, "key": (sample.name.encode(), "byte")}))
        file.close()
    return folder


def expected(source: Path) -> list[Expected]:
    from array_record.python.array_record_module import ArrayRecordReader
    from tfrecord import example_pb2

    found = []
    for path in sorted(source.glob("*.array_record")):
        for record in ArrayRecordReader(str(path)).read_all():
            features = example_pb2.Example.FromString(record).features.feature
            key, image = (features[name].bytes_list.value[0] for name in ("key", "image"))
            label = features["label"].int64_list.value[0]
            found.append(Expected(f"{path.name}/{key.decode()}", image, label))
    return found


def damage(source: Path) -> Path:
    """Change a byte in the middle of an image: the checksum of its chunk is wrong then."""
    image = expected(source)[3].image
    path = source / "part-0.array_record"
    flip(path, path.read_bytes().index(image) + len(image) // 2, 1)
    return source
