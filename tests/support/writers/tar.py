"""WebDataset tars, written by the webdataset package."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.tars import by_webdataset
from tests.support.writers import Expected, Written

FORMAT = "tar"
CHECKED_AGAINST = "webdataset"
_SAMPLES_PER_SHARD = 5


def write(folder: Path, samples: list[Written]) -> list[Path]:
    """Write shards of a few samples each."""
    shards = []
    for begin in range(0, len(samples), _SAMPLES_PER_SHARD):
        shards.append(folder / f"train-{begin // _SAMPLES_PER_SHARD:04d}.tar")
        part = samples[begin : begin + _SAMPLES_PER_SHARD]
        rows = [{"__key__": s.name, "jpg": s.image, "cls": b"%d" % s.label} for s in part]
        write_shard(shards[-1], rows)
    return shards


def write_shard(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write one shard, whose rows are samples as webdataset takes them."""
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(path), encoder=False) as writer:
        for row in rows:
            writer.write(row)


def expected(source: list[Path]) -> list[Expected]:
    """What the webdataset package reads."""
    return [
        Expected(key, fields["jpg"], int(fields["cls"])) for key, fields in by_webdataset(*source)
    ]


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
