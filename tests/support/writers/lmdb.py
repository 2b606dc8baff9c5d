"""An LMDB environment whose keys are file names, as in a tar shard."""

import re
from itertools import groupby
from pathlib import Path

import pytest

from tests.support.damage import overwrite
from tests.support.writers import Expected, Written

FORMAT = "lmdb"
CHECKED_AGAINST = "lmdb"


def write(folder: Path, samples: list[Written]) -> Path:
    lmdb = pytest.importorskip("lmdb")
    with (
        lmdb.open(str(folder / "photos"), map_size=1 << 26, lock=False) as env,
        env.begin(write=True) as txn,
    ):
        for sample in samples:
            txn.put(f"{sample.name}.jpg".encode(), sample.image)
            txn.put(f"{sample.name}.cls".encode(), str(sample.label).encode())
    return folder / "photos"


def expected(source: Path) -> list[Expected]:
    import lmdb

    with lmdb.open(str(source), readonly=True, lock=False) as env, env.begin() as txn:
        stored = [(bytes(key).decode(), bytes(value)) for key, value in txn.cursor()]
    return [
        Expected(f"data.mdb/{stem}", parts[f"{stem}.jpg"], int(parts[f"{stem}.cls"]))
        for stem, group in groupby(stored, key=lambda item: item[0].partition(".")[0])
        for parts in [dict(group)]
    ]


def damage(source: Path) -> Path:
    """The node in the tree says that the value is longer than its page."""
    file = source / "data.mdb"
    key = f"{expected(source)[11].key.partition('/')[2]}.jpg".encode()
    for place in [found.start() for found in re.finditer(re.escape(key), file.read_bytes())]:
        overwrite(file, place - 6, b"\7\0")
    return source
