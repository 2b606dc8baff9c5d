"""MDS folders, byte for byte as mosaicml-streaming writes them (tests/readers/formats/test_mds.py shows that)."""

import itertools
import json
import struct
from pathlib import Path

import numpy as np

from tests.support.damage import overwrite
from tests.support.writers import Expected, Written

FORMAT = "mds"
CHECKED_AGAINST = "mosaicml-streaming"
COLUMNS = {"image": ("jpeg", None), "key": ("str", None), "label": ("int", 8)}


def write(folder: Path, samples: list[Written]) -> Path:
    rows = [
        {
            "image": sample.image,
            "key": sample.name.encode(),
            "label": struct.pack("<q", sample.label),
        }
        for sample in samples
    ]
    write_mds(folder, COLUMNS, rows, size_limit=10_000)
    return folder


def write_mds(
    folder: Path,
    columns: dict[str, tuple[str, int | None]],
    rows: list[dict[str, bytes]],
    size_limit: int = 1 << 26,
) -> None:
    """Write shards and index.json.

    Args:
        folder: Where.
        columns: (encoding, size or None) by name.
        rows: Encoded values by name.
        size_limit: Of a shard, in bytes.
    """
    names = sorted(columns)
    config = {
        "version": 2,
        "format": "mds",
        "compression": None,
        "hashes": [],
        "size_limit": size_limit,
        "column_names": names,
        "column_encodings": [columns[name][0] for name in names],
        "column_sizes": [columns[name][1] for name in names],
    }
    text = json.dumps(config, sort_keys=True).encode()
    samples = []
    for row in rows:
        sizes = [len(row[name]) for name in names if columns[name][1] is None]
        samples.append(np.array(sizes, "<u4").tobytes() + b"".join(row[name] for name in names))
    shards: list[dict[str, object]] = []
    first, size = 0, 8 + len(text)
    for number, sample in enumerate(samples):
        if size + len(sample) + 4 > size_limit:
            shards.append(_write_shard(folder, len(shards), config, text, samples[first:number]))
            first, size = number, 8 + len(text)
        size += len(sample) + 4
    shards.append(_write_shard(folder, len(shards), config, text, samples[first:]))
    index = {"version": 2, "shards": shards}
    (folder / "index.json").write_text(json.dumps(index, sort_keys=True))


def _write_shard(
    folder: Path, number: int, config: dict[str, object], text: bytes, samples: list[bytes]
) -> dict[str, object]:
    start = 4 + 4 * (len(samples) + 1) + len(text)
    places = np.cumsum([start, *map(len, samples)]).astype("<u4")
    data = struct.pack("<I", len(samples)) + places.tobytes() + text + b"".join(samples)
    name = f"shard.{number:05d}.mds"
    (folder / name).write_bytes(data)
    raw = {"basename": name, "bytes": len(data), "hashes": {}}
    return {**config, "samples": len(samples), "raw_data": raw, "zip_data": None}


def expected(source: Path) -> list[Expected]:
    """A reader of these columns alone."""
    found = []
    for shard in json.loads((source / "index.json").read_text())["shards"]:
        name = shard["raw_data"]["basename"]
        data = (source / name).read_bytes()
        places = np.frombuffer(data, "<u4", shard["samples"] + 1, 4).tolist()
        for start, stop in itertools.pairwise(places):
            image_bytes, key_bytes = struct.unpack_from("<II", data, start)
            image, key = start + 8, start + 8 + image_bytes
            (label,) = struct.unpack_from("<q", data, stop - 8)
            assert key + key_bytes + 8 == stop
            text = data[key : key + key_bytes].decode()
            found.append(Expected(f"{name}/{text}", data[image:key], label))
    return found


def damage(source: Path) -> Path:
    """Let a sample say that its image is a byte longer than it is."""
    shard = source / "shard.00000.mds"
    data = shard.read_bytes()
    (place,) = struct.unpack_from("<I", data, 4 + 4 * 1)
    overwrite(shard, place, bytes([(data[place] + 1) % 256]))
    return source
