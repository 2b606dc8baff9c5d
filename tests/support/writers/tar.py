"""WebDataset tars, written by the webdataset package."""

import io
import tarfile
from pathlib import Path

import pytest

from tests.support.writers import Expected, Written

FORMAT = "tar"
CHECKED_AGAINST = "webdataset"
_SAMPLES_PER_SHARD = 5


def write(folder: Path, samples: list[Written]) -> list[Path]:
    """Write shards of a few samples each."""
    webdataset = pytest.importorskip("webdataset")
    shards = []
    for begin in range(0, len(samples), _SAMPLES_PER_SHARD):
        shards.append(folder / f"train-{begin // _SAMPLES_PER_SHARD:04d}.tar")
        with webdataset.TarWriter(str(shards[-1]), encoder=False) as writer:
            for sample in samples[begin : begin + _SAMPLES_PER_SHARD]:
                label = str(sample.label).encode()
                writer.write({"__key__": sample.name, "jpg": sample.image, "cls": label})
    return shards


def expected(source: list[Path]) -> list[Expected]:
    """What the webdataset package reads."""
    from webdataset.tariterators import group_by_keys, tar_file_expander

    found = []
    for shard in source:
        with shard.open("rb") as stream:
            for sample in group_by_keys(tar_file_expander([{"url": shard.name, "stream": stream}])):
                key = f"{shard.name}/{sample['__key__']}"
                found.append(Expected(key, sample["jpg"], int(sample["cls"])))
    return found


def damage(source: list[Path]) -> list[Path]:
    """Store the image of a sample in the middle of the first shard twice, under one name."""
    with tarfile.open(source[0]) as archive:
        members = [(member, archive.extractfile(member)) for member in archive]
        files = [(member, stream.read()) for member, stream in members if stream]
    middle = len(files) // 2
    middle -= middle % 2
    files.insert(middle, files[middle])
    with tarfile.open(source[0], "w") as archive:
        for member, content in files:
            archive.addfile(member, io.BytesIO(content))
    return source
